"""Break the code on purpose, one place at a time, and see whether the tests notice.

These are the mutants that no operator makes: they drop a step of a protocol, take no lock, or exchange the order of two
writes. ``make mutants`` tries them after those that mutmut makes (`[tool.mutmut]` in pyproject.toml).

Works on a copy of the tree in a temporary folder. Prints a line for each mutant: the first test that failed, or that
all of them passed. ``python scripts/mutants.py [text...]`` tries only the mutants whose module or code has the text.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TREE = ("rag_bm25", "tests", "scripts", "docs", "pyproject.toml")
TESTS = ["tests/unit", "tests/properties", "tests/contract/test_two_objects.py", "tests/contract/test_any_filter.py"]
SECONDS = 900  # a mutant that hangs is noticed, too


class Mutant(NamedTuple):
    """A change of one place in one module."""

    module: str
    old: str
    new: str


OVERLAY = "store/overlay"
WRITER, LIVE, LOG = "index/writing/chunk_writer", "index/live_statistics", "statistics/log"
MUTANTS = [
    # A dry run, and a gate
    Mutant(OVERLAY, "        self._deleted.update(row.pk for", "        self._deleted ^ set(row.pk for"),
    Mutant(OVERLAY, "            self._deleted.update(page)\n", ""),
    Mutant(OVERLAY, " - self._deleted_log - set(own)", " - set(own)"),
    Mutant("evaluation/baseline", "query.measures.keys() == first.keys() >= set(MEASURES)", "True"),
    # A part of an index
    Mutant("index/scoped", "where=conjoin(self._part.where, scope.where)", "where=scope.where"),
    Mutant("index/scoped", " and (where is None or matches(where, row.id, row.metadata))", ""),
    Mutant("index/scoped", "if name in self.part.namespaces]", "]"),
    Mutant("serving/served", "access.place(read())", "read()"),
    # The steps of a write
    Mutant(WRITER, "            self.recover()\n", "            pass\n"),
    Mutant(WRITER, '"b" if occupied == "a" else "a"', '"a"'),
    Mutant(WRITER, "list(changes), Contribution.of_rows(before))", "list(changes), Contribution.of_rows([]))"),
    Mutant(WRITER, "Contribution.of_rows([*kept, *rows])", "Contribution.of_rows(rows)"),
    Mutant(WRITER, "stored[slot].batch < batch]", "True]"),
    Mutant(WRITER, "self._store.exclusive or intent.writer == self._writer or intent.silence > LEASE_SECONDS", "True"),
    Mutant(WRITER, "self._await(write, late_until)", "pass"),
    Mutant(WRITER, " and intent.batch not in self._in_doubt", ""),
    Mutant(WRITER, "        except StoreError:\n", "        except BaseException:\n"),
    Mutant(WRITER, "self._log.note_sign(intent)  # this deletion may be late, too", "pass"),
    Mutant(WRITER, "after=LEASE_SECONDS / 30", "after=LEASE_SECONDS / 3"),
    Mutant(WRITER, "self._log.require_terms()", "pass"),
    Mutant(WRITER, "and canonical_json(row.metadata) == canonical_json(chunk.metadata)", ""),
    Mutant("documents/chunks", 'f"{len(namespace)}:{namespace}{id_}"', 'f"{namespace}{id_}"'),
    Mutant("documents/checks", "ensure_ascii=False, sort_keys=True)", "ensure_ascii=False)"),
    Mutant("store/deferred", "self._is_doubtful = bool(rows)", "pass"),
    Mutant("store/milvus/log_store", "[*deferred, *rows]", "[*rows, *deferred]"),
    Mutant("index/writing/pipeline", "        require_analyzer(self._encoder.analyzer)\n", ""),
    Mutant("index/maintenance/verification", "    require_analyzer(encoder.analyzer)\n", ""),
    # Conditions and suggestions
    Mutant("query/conditions", "words |= set() if every else set(PhraseText.of(analyzer, text).words)", "pass"),
    Mutant("query/conditions", "signs = None if every or words else _pattern_of(text)", "signs = None"),
    Mutant("query/correction", ", -forms[form], form), default", ", form), default"),
    # The log
    Mutant(f"{LOG}/keys", " if len(some) == parts\n", "\n"),
    Mutant(f"{LOG}/keys", '"closing", "config", "copy"', '"closing", "config"'),
    Mutant(f"{LOG}/changes", "        return None\n    table", "        pass\n    table"),
    Mutant(f"{LOG}/changes", "            if batch not in ended\n", "            if batch in ended\n"),
    Mutant("index/maintenance/generations", "keep_claim()  # else the target may be in force", "removed  # "),
    Mutant(WRITER, "changes nothing.\n        self._require_in_force()\n", "changes nothing.\n"),
    Mutant(f"{LOG}/batches", "self._last = max(self._last, batch)", "pass"),
    Mutant(f"{LOG}/birth", "    if birth not in births:\n", "    if False:\n"),
    Mutant(f"{LOG}/birth", "and birth_of(match[1]) not in births", "and False"),
    Mutant(f"{LOG}/table", "earlier(mark, OVERLAP_SECONDS)", "mark"),
    Mutant(f"{LOG}/sums", "set(head.covers) | (self._counted - set(self.head.covers))", "set(head.covers)"),
    Mutant(f"{LOG}/sums", "(*self.head.runs, *head.runs)", "head.runs"),
    Mutant(f"{LOG}/log", "        return len(dead) == len(keys)", "        return True"),
    Mutant(f"{LOG}/stored_statistics", "        self._next = changes, following\n", "        pass\n"),
    Mutant(f"{LOG}/stored_statistics", "NamespaceChange(namespace, -change)", "NamespaceChange(namespace, change)"),
    Mutant(f"{LOG}/source_roots", "    if _are_current(claims, known):", "    if True:"),
    # Terms and counts
    Mutant("statistics/merging", "if id_ in here or id_ not in self.moved", "if True"),
    Mutant("statistics/merging", "is_same = vocabulary is former", "is_same = True"),
    Mutant("statistics/count_table", "if level not in others._levels]", "]"),
    Mutant("index/group", "for _ in range(SNAPSHOTS):", "for _ in range(0):"),
    Mutant("vectors/terms", "% ID_SPACE or 1", "% ID_SPACE"),
    Mutant("vectors/terms", "id_ not in self._taken and ", ""),
    Mutant("vectors/terms", "self._displaced.get(term) or term_id(term)", "term_id(term)"),
    Mutant("statistics/corpus", "int(len(ids) > 0 and ids[0] == NO_TERMS_ID)", "0"),
    Mutant("weighting/idf", "return mean if abs(mean) > ROUNDING else 0.0", "return mean"),
    # One moment, and nobody waits
    Mutant(LIVE, "self._writer.recover()\n        self.refresh()", "pass\n        self.refresh()"),
    Mutant(
        LIVE, "with self._store.write_lock, self._noting_loss():\n            changed", "if True:\n            changed"
    ),
    Mutant(LIVE, "_acquired(self._log_lock, wait=False)", "_acquired(self._log_lock, wait=True)"),
    Mutant(LIVE, "wait=self._store.exclusive)", "wait=True)"),
    Mutant("index/index", "with store.write_lock:", "if True:"),
    Mutant("index/coroutines", "ThreadPoolExecutor(1, ", "ThreadPoolExecutor(2, "),
    Mutant("index/searching/memo", "if self._view is not view:", "if False:"),
    Mutant("index/searching/weigher", "(weighting, _key_of(counted)), view", "_key_of(counted), view"),
    # Other weights of the chunks
    Mutant("index/searching/rescoring", "score >= reach * matches", "score >= matches"),
    Mutant("index/searching/rescoring", "_merge(*pair)", "_merge(pair[0], [])"),
    Mutant("weighting/document", "(weigh(tf) == stored) & (", "("),
    Mutant("weighting/document", "(weigh(np.maximum(tf - 1, 0)) < stored)", "True"),
    # Copies
    Mutant("index/maintenance/copying", "    original.require_equal(counted)\n", ""),
    Mutant("index/maintenance/copying", "later_than=log.new_batch()", 'later_than=""'),
    Mutant("index/maintenance/verification", "sorted({*totals, *recount})", "sorted(totals)"),
    # Input from outside
    Mutant("store/milvus/expressions", '"{self.escape(text)}"', '"{text}"'),
    Mutant("store/milvus/expressions", "if comparison.path in self.mixed else written", "if False else written"),
    Mutant("store/milvus/expressions", '">": "<="', '">": "<"'),
    Mutant("ingestion/obsolete", " or source in checker.rejected:", ":"),
    Mutant("ingestion/unchanged", "stored.digest(source) == digest.stored", "True"),
    Mutant("ingestion/unchanged", " or num_writes != self._expected_writes()", ""),
    Mutant("ingestion/unchanged", "is_named or written[source] == num_chunks", "True"),
    Mutant("ingestion/unchanged", " and _stamp_of(self._files[source]) == contents.stamp", ""),
    Mutant("ingestion/source_options", " if root.name in own else inner", ""),
    Mutant("ingestion/owners", "former if former in self.partly_read else self._owner(row)", "self._owner(row)"),
    Mutant("ingestion/owners", " or source.startswith(COLLECTION)", ""),
    Mutant("ingestion/collection_rows", "        self.ids.add(id_)\n", ""),
    Mutant("ingestion/pruning", "if self.gone and not self.there:", "if False:"),
    Mutant("ingestion/opening", "flags | _FILE", "flags"),
    Mutant("ingestion/contextualizing", "piece.text == chunk.text and", ""),
    Mutant("hits/highlights", " if name != CONTEXT", ""),
    Mutant("ingestion/splitting", "header = outline.breaks.header(start, self.longest // HEADER_SHARE)", 'header = ""'),
    Mutant("ingestion/formats/running", ' and words.issuperset(_units(_LEADERS.sub(" ", line)))', ""),
    Mutant("ingestion/formats/pdf", "is_pair if is_word != is_pair else ", ""),
    Mutant("ingestion/formats/html", " and has_text", ""),
    Mutant("ingestion/opening", "if not stat.S_ISREG(os.fstat(descriptor).st_mode):", "if False:"),
    Mutant("serving/gate", "_Lane(1, MAX_WRITES_WAITING)", "_Lane(2, MAX_WRITES_WAITING)"),
    Mutant("serving/gate", "with limited(check):", "with limited(print):"),
    Mutant("serving/app", "if operation.call.writes and not settings.allow_writes:", "if False:"),
    Mutant("index/searching/finding", "self._shape(text).find(", "text.find("),
    Mutant("index/searching/finding", "row.id) + SLOTS[-1]", "row.id) + SLOTS[0]"),
    Mutant("serving/fields", "one.within(LIMITS)", "one"),
    Mutant("serving/fields", "if name not in without", "if name"),
    # What the engines acknowledge, and clocks
    Mutant("store/milvus/lite2", "and not is_stored_after(before, self.path)", "and False"),
    Mutant("store/milvus/lite2", "if behind > PATIENCE:", "if False:"),
    Mutant("store/milvus/lite2", "if self._has_written:", "if False:"),
    Mutant("store/milvus/sqlite_file", "if seconds > now:", "if False:"),
    Mutant("store/milvus/lite3", "self._is_broken = True", "pass"),
    Mutant("statistics/log/life_signs", "None if self._signs is None else time.monotonic()", "None"),
    Mutant("statistics/log/life_signs", "if not is_of_the_future(stamp)]", "]"),
]


def main(wanted: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if all(text in " ".join(mutant) for text in wanted)]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = copied_tree(Path(folder, "tree"))
        if not wanted and (broken := first_failure(tree, TESTS)):
            print(f"the tests fail without any mutant: {broken}")
            return 2
        noticed = [report(mutant, try_out(tree, mutant)) for mutant in chosen]
    print(f"{sum(noticed)} of {len(chosen)} mutants were noticed")
    return 0 if all(noticed) else 1


def copied_tree(folder: Path) -> Path:
    folder.mkdir()
    for name in TREE:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder)
    return folder


def report(mutant: Mutant, failure: str) -> bool:
    print(f"{mutant.module}: {mutant.old.strip()!r} -> {mutant.new.strip()!r}: {failure or 'SURVIVED'}", flush=True)
    return bool(failure)


def try_out(tree: Path, mutant: Mutant) -> str:
    """Apply a mutant, run the tests, undo it; return the test that failed."""
    path = tree / "rag_bm25" / f"{mutant.module}.py"
    nearest = [f"tests/unit/{mutant.module.split('/', maxsplit=1)[0]}"]  # which fail soonest
    sound = path.read_text(encoding="utf-8")
    path.write_text(sound.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        return first_failure(tree, nearest) or first_failure(tree, TESTS)
    finally:
        path.write_text(sound, encoding="utf-8")


def first_failure(tree: Path, tests: list[str]) -> str:
    """Return the name of the first failing test, or an empty string."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", "--hypothesis-profile=mutants"]
    command = [sys.executable, "-B", "-m", "pytest", *options, *(str(tree / test) for test in tests)]
    env = {**os.environ, "CI": "1"}  # slow tests, too
    beside = tree.parent  # processes that read files leave out the current folder, and would take what is installed
    try:
        run = subprocess.run(command, cwd=beside, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "(hangs)"
    if run.returncode == 0:
        return ""
    lines = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].split(" - ")[0].split("::", 1)[-1] if lines else "(does not run)"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Break the core on purpose, one line at a time, and see whether the tests notice.

Works on a copy of the tree in a temporary folder. Prints a line for each mutant: the first test that failed, or that
all of them passed. ``python scripts/mutants.py [text...]`` tries only the mutants whose file or code has the text.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TREE = ("rag_bm25", "tests", "scripts", "pyproject.toml")
MODULES = (
    "terms sparse fields weightings term_k1 similarity token_numbers document_encoder statistics query_encoder config "
    "chunks statistics_log chunk_writer reencoding verification expansion explanation feedback index "
    "copying reindexing events workers bulk source_roots ingestion"
)
TESTS = [
    *(f"tests/unit/test_{name}.py" for name in MODULES.split()),
    "tests/properties",
    "tests/golden/test_golden.py",
    "tests/contract/test_two_objects.py",
]
SECONDS = 300  # a mutant that hangs is noticed, too


class Mutant(NamedTuple):
    """A change of one place in one module."""

    module: str
    old: str
    new: str


MUTANTS = [
    # The formulas
    Mutant("similarity", "return 1 - b + b * relative", "return 1 - b - b * relative"),
    Mutant("similarity", "return of.weight * np.asarray(tf, np.float64) / norm", "return np.asarray(tf) / norm"),
    Mutant("similarity", "_norm(length, of.chunk_size, self._share(of.b))", "_norm(length, of.chunk_size, of.b)"),
    Mutant("similarity", "return b if own is None else own", "return b"),
    Mutant("weightings", "return tf / (tf + k1 * norm)", "return tf / (1 + tf + k1 * norm)"),
    Mutant("weightings", "return (k1 + 1) * tf / (tf + k1 * norm)", "return k1 * tf / (tf + k1 * norm)"),
    Mutant("weightings", "shifted = _ratio(tf, norm) + delta", "shifted = tf + delta"),
    Mutant("weightings", "_elasticsearch(tf, norm, k1, delta) + delta", "_elasticsearch(tf, norm, k1, delta)"),
    Mutant("weightings", "np.log(_ratio(tf, norm) + delta)", "np.log(_ratio(tf, norm) + 1)"),
    Mutant("weightings", "np.minimum(tf, 1) + np.log(np.maximum(tf, 1))", "1 + np.log(tf)"),
    Mutant("weightings", "np.maximum(norm, SMALLEST_NORM)", "norm"),
    Mutant("weightings", "lambda k1, delta: (delta, k1 + 1 + delta)", "lambda k1, delta: (0.0, k1 + 2 + delta)"),
    Mutant("term_k1", "np.floor(frequencies + 0.5)", "np.floor(frequencies)"),
    Mutant("term_k1", "df[:, ::-1].cumsum(axis=1)[:, ::-1]", "df"),
    Mutant("term_k1", "rising & (df[:, 1:-1] > 0)", "rising"),
    Mutant("term_k1", "np.logical_and.accumulate(", "np.asarray("),
    Mutant("term_k1", "(GRID + 1) * r", "GRID * r"),
    Mutant("term_k1", "tried / (tried - 1)", "tried / (tried + 1)"),
    Mutant("reencoding", "if row.pk[:-1] == digest:", "if True:"),
    Mutant("reencoding", "size + more > MAX_BATCH_BYTES", "size > MAX_BATCH_BYTES"),
    Mutant("chunk_writer", "if vector != rows[digest].vector]", "]"),
    Mutant("statistics_log", '_KEPT | {"k1"} if self._has_sound_term_k1() else _KEPT', "_KEPT"),
    Mutant("statistics_log", "if newest > self._k1_table:", "if not self._k1_table:"),
    Mutant("document_encoder", "term_k1.get_many(ids, self.weighting.k1) if per_term", "None if per_term"),
    Mutant("fields", "if not _is_text(metadata.get(name)):", "if False:"),
    Mutant("fields", "for part in parts if isinstance(part, str)", "for part in parts if part"),
    Mutant(
        "similarity",
        "(num_chunks - df + 0.5) / (df + 0.5))\n\n\ndef relevance_weight",
        "(num_chunks - df + 0.5) / (df + 1.5))\n\n\ndef relevance_weight",
    ),
    Mutant(
        "similarity", "np.log1p((num_chunks - df + 0.5) / (df + 0.5))", "np.log((num_chunks - df + 0.5) / (df + 0.5))"
    ),
    Mutant("similarity", "IdfBranch(_ROBERTSON, raw > 0, raw)", "IdfBranch(_ROBERTSON, raw >= 0, raw)"),
    Mutant("similarity", "epsilon * corpus.average_idf)", "corpus.average_idf)"),
    Mutant("similarity", ", average > 0, average)", ", average > -9, average)"),
    Mutant("similarity", "smooth = epsilon * ", "smooth = "),
    Mutant("similarity", "IdfBranch(formula, values > 0, values)", "IdfBranch(formula, values >= 0, values)"),
    Mutant(
        "similarity",
        "np.log((corpus.num_chunks + 1) / np.maximum(df, 1))",
        "np.log(corpus.num_chunks / np.maximum(df, 1))",
    ),
    Mutant("similarity", "(corpus.num_chunks + 1) / (df + 1)", "(corpus.num_chunks + 1) / df"),
    Mutant("similarity", "qtf * (self.k3 + 1) / (qtf + self.k3)", "qtf * self.k3 / (qtf + self.k3)"),
    Mutant("similarity", "return self.term_weights(qtf) * idf(", "return idf("),
    Mutant("similarity", "/ num_terms", "/ len(terms)"),
    Mutant("similarity", "return mean if abs(mean) > ROUNDING else 0.0", "return mean"),
    Mutant("similarity", "k1 * scale, share / scale", "k1 * scale, share"),
    Mutant("similarity", "comparable(self.k1) >= 0", "comparable(self.k1) > 0"),
    # The chunk's side
    Mutant("document_encoder", 'self.length_unit == "terms"', 'self.length_unit != "terms"'),
    Mutant("document_encoder", "if len(starts) < len(keys):", "if False:"),
    Mutant("token_numbers", "keys.sort()", "pass"),
    Mutant("token_numbers", "prepend=~keys[:1]", "prepend=keys[:1]"),
    Mutant("token_numbers", "same = codes[found] == codes[left]", "same = found >= 0"),
    Mutant("token_numbers", "table[hashed[::-1]] = left[::-1]", "table[hashed] = left"),
    Mutant("token_numbers", "+ np.uint32(1))", ")"),
    Mutant("token_numbers", "len(ends) != counts.sum()", "False"),
    Mutant("document_encoder", "for name in sorted(self.weighting.fields):  #", "for name in []:  #"),
    Mutant("document_encoder", "_per_entry(counts, field_lengths)", "_per_entry(counts, lengths)"),
    Mutant("document_encoder", "prepend=~keys[:1]", "prepend=keys[:1]"),
    Mutant("document_encoder", "if not empty.any():", "if True:"),
    Mutant("document_encoder", "np.insert(batch.ids, at, NO_TERMS_ID)", "np.insert(batch.ids, at, 1)"),
    Mutant("document_encoder", "TermIds() if ids is None else ids", "TermIds()"),
    Mutant("workers", "if len(places) < len(batch):", "if False:"),
    Mutant("workers", "            raise self._failure\n", "            pass\n"),
    # Terms and vectors
    Mutant("terms", "% ID_SPACE or 1", "% ID_SPACE"),
    Mutant("terms", ")[:HASHED_BYTES])", "))"),
    Mutant("terms", 'return zlib.crc32(term.encode(errors="surrogatepass")[:HASHED_BYTES])', "return abs(hash(term))"),
    Mutant("terms", "id_ not in self._taken and ", ""),
    Mutant("terms", " and self._vocabulary.term(id_) is None\n", "\n"),
    Mutant("terms", "super().__init__(displaced or {})", "super().__init__()"),
    Mutant(
        "terms", "return id_ if self._terms.get(id_) == term else None", "return id_ if id_ in self._terms else None"
    ),
    Mutant("terms", "if self._terms.setdefault(id_, term) != term:", "self._terms[id_] = term\n            if False:"),
    Mutant("sparse", "order = np.argsort(ids)", "order = np.arange(len(ids))"),
    Mutant("sparse", ".astype(np.float64), other", ", other"),
    # The corpus's side
    Mutant("statistics", "int(len(ids) > 0 and ids[0] == NO_TERMS_ID)", "0"),
    Mutant("statistics", "return cls(len(all_ids), ", "return cls(len(all_ids) + 1, "),
    Mutant("statistics", "return cls(len(all_ids), int(sum(lengths)),", "return cls(len(all_ids), len(all_ids),"),
    Mutant("statistics", "self._move_in_histogram(before, after)", "pass"),
    Mutant("statistics", "((before, -1), (after, 1))", "((after, 1),)"),
    Mutant("statistics", "        self._figures = None\n\n    def contribution", "\n    def contribution"),
    Mutant("statistics", "self.total_length += change.total_length", "pass"),
    Mutant("statistics", "self._counts[at[known]] += changes[known]", "self._counts[at[known]] = changes[known]"),
    Mutant("statistics", "self._recent.get(id_, 0) + change", "change"),
    Mutant("statistics", "self._insert(recent[order], counts[order])", "self._insert(recent[order], counts)"),
    Mutant("statistics", "self._whole = _sum([self.whole, CorpusStatistics()])", "self._whole = self.whole"),
    Mutant("statistics", "self._whole.add(change)", "pass"),
    Mutant("statistics", "np.minimum(np.maximum(self._df.get(ids), 0), max(self.num_chunks, 0))", "self._df.get(ids)"),
    Mutant("statistics", "set(namespaces) >= self._by_namespace.keys()", "True"),
    Mutant("query_encoder", "known = df > 0", "known = df > 1"),
    Mutant("query_encoder", "weights.get(id_, 0.0) + weight", "weight"),
    Mutant(
        "query_encoder",
        "np.fromiter((asked.qtf for asked in wanted), np.int64, len(terms))",
        "np.ones(len(terms), np.int64)",
    ),
    Mutant("expansion", "tokens = query_tokens(self.analyzer, part.text)", "tokens = self.analyzer(part.text)"),
    # Relevance feedback
    Mutant("similarity", "(num_chunks - df - num_relevant + r + 0.5)", "(num_chunks - df - num_relevant + 0.5)"),
    Mutant("similarity", "(num_relevant - r + 0.5) * (df - r + 0.5)", "(num_relevant - r + 0.5) * (df + 0.5)"),
    Mutant("similarity", "(1 + np.exp(np.asarray(weight, np.float64))) - 0.5", "(1 + np.exp(np.asarray(weight)))"),
    Mutant("query_encoder", "np.where(held[at] == ids, counts[at], 0)", "counts[at]"),
    Mutant("query_encoder", "num_relevant = min(num_relevant, num_chunks)", "num_relevant = max(num_relevant, 0)"),
    Mutant("query_encoder", "return max(0.0, self.keep", "return (self.keep"),
    Mutant("query_encoder", "if np.float32(weight) > 0:", "if weight > 0:"),
    Mutant(
        "query_encoder", "return product if self.feedback is None else product * self.feedback.value", "return product"
    ),
    Mutant("feedback", "prior = scores / scores.sum()", "prior = np.full(len(scores), 1 / len(scores))"),
    Mutant(
        "feedback",
        "length = table.per_chunk(usable.astype(np.float64))",
        "length = table.per_chunk(np.ones(len(usable)))",
    ),
    Mutant("feedback", "covered = float(model[kept].sum())", "covered = 1.0"),
    Mutant("feedback", "(1 - self.original_query_weight) * query_length", "(1 - self.original_query_weight)"),
    Mutant("feedback", "np.where(usable, added * table.idf, 0.0)", "np.where(usable, added, 0.0)"),
    Mutant("feedback", "-self.gamma, norm", "self.gamma, norm"),
    Mutant("feedback", "factor * norm / (len(chunks) * length)", "factor * norm / length"),
    Mutant("feedback", "table.norms()[len(evidence.relevant) :]", "table.norms()"),
    Mutant("feedback", "offer[new] = counts.r * counts.weights", "offer[new] = counts.weights"),
    Mutant("reencoding", "setdefault(digest, MAX_TEXT_BYTES)", "get(digest, MAX_TEXT_BYTES)"),
    Mutant("expansion", "if part.prefix), MAX_LOOKUPS)", "if part.prefix), None)"),
    Mutant("feedback", "(self.df >= min_df) & ", ""),
    Mutant("feedback", "(self.df <= max_df * self.num_chunks)", "(self.df <= self.num_chunks)"),
    Mutant("feedback", " and not is_bigram(term)", ""),
    Mutant("feedback", "(worth[order] > 0)", "(worth[order] >= 0)"),
    Mutant("feedback", "new[:fb_terms]))", "new))"),
    Mutant("feedback", "boost * evidence.encoder.weighting.term_weights(qtf)", "boost * qtf"),
    Mutant("feedback", "float(asked.own[asked.is_word].sum())", "float(asked.own.sum())"),
    Mutant("feedback", "if isinstance(method, BIM) else None", "if method is None else None"),
    Mutant("feedback", "if not evidence.relevant and not evidence.irrelevant:", "if not evidence.relevant:"),
    Mutant("query_options", "method = Rocchio()", "method = RM3()"),
    Mutant("searcher", "method.fb_docs, where, namespaces, options)", "method.fb_docs, None, namespaces, options)"),
    Mutant("searcher", "                if match.row.pk in rows", "                if True"),
    # The log
    Mutant("log_rows", "        if len(parts) == parts[0].parts\n", ""),
    Mutant("log_rows", "if id_ != term_id(term)}", "if False}"),
    Mutant("log_rows", "_counts(ids[df < 0], -df[df < 0])", "_counts(ids[df < 0], df[df < 0])"),
    Mutant("log_rows", "dict.fromkeys(totals, 0) if part else totals", "totals"),
    Mutant("log_rows", "added - removed", "added"),
    Mutant("statistics_log", "self._counted.add(intent.batch)\n", "pass\n"),
    Mutant(
        "statistics_log",
        "self.statistics.add(intent.namespace, after - intent.before)",
        "self.statistics.add(intent.namespace, after)",
    ),
    Mutant("statistics_log", "self._vocabulary.add(self._decoded(terms_of, row))", "pass"),
    Mutant("statistics_log", "self.displaced.update(self._decoded(displaced_of, row))", "pass"),
    Mutant("statistics_log", "self.displaced.update(self.vocabulary().displaced)", "pass"),
    Mutant("statistics_log", 'int(self._last_batch[:16] or "0", 16) + 1', "0"),
    Mutant("statistics_log", "self._last_batch = max(self._last_batch, _batch(key))", "pass"),
    Mutant("statistics_log", "if name not in self._counted}", "}"),
    Mutant("statistics_log", "key.name in self._counted", "True"),
    Mutant("statistics_log", "return key.name < self._base", "return True"),
    Mutant("statistics_log", "self._insert_in_pieces(terms_rows(name, terms))", "pass"),
    Mutant(
        "statistics_log",
        "few = [key for keys in small for key in keys]",
        "few = [key for keys in entries.values() for key in keys[-1:]]",
    ),
    Mutant("statistics_log", "if len(small) <= above:", "if True:"),
    Mutant("statistics_log", "> REMAINDER_SECONDS", ">= 0"),
    Mutant("statistics_log", "if self._parts_of_terms():", "if False:"),
    Mutant("statistics_log", "number = self._num_deltas + 1", "number = 0"),
    Mutant("statistics_log", "self._num_missing_deltas, self._head.nameless)", "0, self._head.nameless)"),
    Mutant("statistics_log", "- self._head.nameless)", ")"),
    Mutant("statistics", "int(np.count_nonzero(after < 0))", "0"),
    Mutant("index", "if self._log.position == position:", "if True:"),
    Mutant("index", "self._log.check_terms()\n", "pass\n"),
    Mutant("index", "        if not lock.acquire(blocking=False):", "        if not lock.acquire():"),
    Mutant("chunk_writer", "self._unfinished and not self.is_busy", "self._unfinished"),
    Mutant("chunk_writer", "self._log.require_terms()", "pass"),
    Mutant("verification", "if differing > len(rows) / 2:", "if False:"),
    # The write protocol
    Mutant("chunk_writer", '"b" if occupied == "a" else "a"', '"a"'),
    Mutant(
        "chunk_writer",
        'Change(digest, "b" if occupied == "a" else "a", occupied)',
        'Change(digest, "b" if occupied == "a" else "a", "")',
    ),
    Mutant("chunk_writer", "list(changes), _contribution(before))", "list(changes), _contribution([]))"),
    Mutant("chunk_writer", "_contribution([*kept, *rows])", "_contribution(rows)"),
    Mutant("chunk_writer", "            self.recover()\n", ""),
    Mutant(
        "chunk_writer",
        "        if self._log.has_delta(intent.batch):\n            self._log.drop(intent)\n            return\n",
        "",
    ),
    Mutant("chunk_writer", "stored[change.insert].batch != batch):", "False):"),
    Mutant("chunk_writer", "stored[slot].batch < batch]", "True]"),
    Mutant("chunk_writer", "row.text == chunk.text\n        and ", ""),
    Mutant("chunk_writer", "        and _canonical(row.metadata) == _canonical(chunk.metadata)\n", ""),
    Mutant("chunk_writer", "json.dumps(metadata, sort_keys=True)", "json.dumps(metadata)"),
    Mutant("chunk_writer", "self._store.exclusive or intent.writer == self._writer or _is_expired(intent)", "True"),
    Mutant(
        "chunk_writer",
        "self._store.exclusive or intent.writer == self._writer or _is_expired(intent)",
        "_is_expired(intent)",
    ),
    Mutant("chunks", 'f"{len(namespace)}:{namespace}{id_}"', 'f"{namespace}{id_}"'),
    Mutant("chunks", "size + more > MAX_BATCH_BYTES", "size > MAX_BATCH_BYTES"),
    Mutant("chunks", "if size > limit:", "if size >= limit:"),
    Mutant("chunks", "not math.isfinite(value)", "math.isnan(value)"),
    Mutant("config", "if value != document[name]", "if False"),
    Mutant("config", "found += differences(contract, contract_of(given.build_analyzer()))", "pass"),
    # The index
    Mutant("index", "            self._writer.recover()\n        self.refresh()", "        self.refresh()"),
    Mutant("index", "self._writer.recover()  # the last", "pass  # the last"),
    Mutant("index", "                self._writer.recover()\n        except", "                pass\n        except"),
    Mutant("index", "(self._others_wrote() or self._log.has_intents)", "self._log.has_intents"),
    Mutant("index", "(self._others_wrote() or self._log.has_intents)", "self._others_wrote()"),
    Mutant(
        "index", "with self._log.events.held(), self._lock:\n            seen", "with self._lock:\n            seen"
    ),
    Mutant(
        "index",
        "with self._store.write_lock, self._lock:\n            if recovering",
        "with self._lock:\n            if recovering",
    ),
    Mutant("index", "with store.write_lock:", "if True:"),
    Mutant("ranking", "and (namespaces is None or match.row.namespace in namespaces)", ""),
    Mutant("ranking", "        if newest[match.row.namespace, match.row.id] == match.row.batch\n", "        if True\n"),
    Mutant("ranking", "min(2 * limit, MAX_K)", "limit + 1"),
    Mutant("ranking", "    if lacking:\n", "    if False:\n"),
    Mutant("searcher", "self._store.exclusive and all_of_them", "all_of_them"),
    Mutant("index", "if is_due:", "if False:"),
    Mutant(
        "index", "self._others_wrote() if self._store.exclusive else time.monotonic() >= self._next_refresh", "False"
    ),
    Mutant(
        "searcher", "{row.id: row for row in sorted(rows, key=lambda row: row.batch)}", "{row.id: row for row in rows}"
    ),
    Mutant("searcher", "if len(question.vector)]", "]"),
    Mutant("explanation", "Explanation(weight * stored,", "Explanation(weight,"),
    Mutant("explanation", "next(branch for branch in branches if branch.applies)", "branches[0]"),
    Mutant("verification", "if vocabulary.term(id_) is None]\n    differences", "if False]\n    differences"),
    Mutant("verification", "{*counted.namespaces, *stored.namespaces}", "{*stored.namespaces}"),
    Mutant("verification", "{*counted.namespaces, *stored.namespaces}", "{*counted.namespaces}"),
    # Copies
    Mutant("copying", "    original.require_equal(counted)\n", ""),
    Mutant("filling", ".begin_copy(self.source, self.fingerprint)", ""),
    Mutant("copying", "later_than=log.new_batch()", 'later_than=""'),
    Mutant("copying", "target.delete_chunks(superseded)", "pass"),
    Mutant("copying", "target.delete_chunks(strays)", "pass"),
    Mutant("copying", "target.delete_chunks([row.pk for row in wrong])", "pass"),
    Mutant("copying", "np.array_equal(row.dense, other.dense)", "True"),
    Mutant("filling", "if begun[1] != self.fingerprint:", "if False:"),
    Mutant("filling", "if target.log_keys() or target.count_chunks():", "if target.log_keys():"),
    Mutant("filling", "if len(term_k1):", "if False:"),
    Mutant("bulk/encoding", "self.vocabulary.add(staged.new)", "pass"),
    Mutant("bulk/encoding", "if chunk.id not in seen:", "if True:"),
    Mutant("bulk/merging", "self.vocabulary.add(staged.new)", "pass"),
    Mutant("bulk/merging", "order = np.argsort(keys)", "order = np.arange(len(keys))"),
    Mutant("bulk/merging", "ids = np.where(old[at] == vectors.ids, new[at], vectors.ids)", "ids = vectors.ids"),
    Mutant("bulk/merging", "_require_distinct(folder, merging.heads)", "pass"),
    Mutant("bulk/merging", "_require_same(heads[0], head)", "pass"),
    Mutant("bulk/merging", "(folder / MANIFEST).unlink(missing_ok=True)", "pass"),
    Mutant("bulk/loading", "missing = _missing(target, rows) if resumes else rows", "missing = rows"),
    Mutant("bulk/loading", "if found != wanted:", "if False:"),
    Mutant("bulk/loading", "_wait_for_others(target, sleep)", "pass"),
    Mutant("filling", "        log.end_copy()\n", ""),
    Mutant("index", "if not exists and not is_lost and store.log_keys():", "if False:"),
    Mutant("statistics_log", 'if any(_kind(key) == "copy" for key in keys):', "if False:"),
    Mutant("statistics_log", 'frozenset({"config", "copy", "root"})', 'frozenset({"config", "root"})'),
    Mutant("statistics_log", '"copy", "root"})', '"copy"})'),
    Mutant("source_roots", "if claim.replaces == current.version:", "if True:"),
    Mutant("source_roots", "    if _are_current(claims, known):", "    if True:"),
    Mutant("source_roots", "        if _have_rivals(claims, known, stored):", "        if False:"),
    Mutant("source_names", "if found is not None and found.steps == 0 and name in", "if found is not None and name in"),
    Mutant("source_names", "(name, *_above(name))", "(name,)"),
    Mutant("ingestion", "source in self.unreadable or source.startswith(within)", "source.startswith(within)"),
    Mutant("reindexing", "return target.delete(strays, namespace=namespace) if strays else 0", "return 0"),
    Mutant("reindexing", "if source.config.dense_field() != target.config.dense_field():", "if False:"),
    Mutant("reindexing", "metadatas=[chunk.metadata for chunk in distinct]", "metadatas=None"),
    Mutant("events", "if self._on_event is not None:", "if False:"),
    Mutant("events", "except Exception:", "except KeyError:"),
]


def main(wanted: list[str]) -> int:
    chosen = [
        mutant for mutant in MUTANTS if all(text in f"{mutant.module} {mutant.old} {mutant.new}" for text in wanted)
    ]
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = copied_tree(Path(folder))
        if not wanted and (broken := first_failure(tree, TESTS)):
            print(f"the tests fail without any mutant: {broken}")
            return 2
        for mutant in chosen:
            verdict = try_out(tree, mutant)
            survivors += verdict in {"SURVIVED", "STALE"}
            print(f"{mutant.module:17} {shown(mutant.old):45} -> {shown(mutant.new):45} {verdict}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants were noticed")
    return 1 if survivors else 0


def copied_tree(folder: Path) -> Path:
    for name in TREE:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder)
    return folder


def try_out(tree: Path, mutant: Mutant) -> str:
    """Apply a mutant, run the tests, and undo it; return what noticed it."""
    path = tree / "rag_bm25" / f"{mutant.module}.py"
    sound = path.read_text(encoding="utf-8")
    if sound.count(mutant.old) != 1:
        return "STALE"
    path.write_text(sound.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        own = [test for test in TESTS if test.endswith(f"/test_{mutant.module.split('/')[0]}.py")]
        return (first_failure(tree, own) if own else "") or first_failure(tree, TESTS) or "SURVIVED"
    finally:
        path.write_text(sound, encoding="utf-8")


def first_failure(tree: Path, tests: list[str]) -> str:
    """Return the name of the first test that fails, "" where all pass."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", "--hypothesis-profile=mutants"]
    command = [sys.executable, "-B", "-m", "pytest", *options, *tests]
    try:
        run = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "(hangs)"
    if run.returncode == 0:
        return ""
    lines = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].split(" - ")[0].split("::", 1)[-1] if lines else "(does not run)"


def shown(code: str) -> str:
    line = " ".join(code.split())
    return line if len(line) <= 45 else line[:42] + "..."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

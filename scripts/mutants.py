"""Break the core on purpose, one place at a time, and see whether the tests notice.

These are the mutants that no operator makes: they drop a step of a protocol, a lock, a condition or a factor, swap an
order, or take one function for another. ``make mutants`` tries them after those that mutmut makes of comparisons,
arithmetic, constants and arguments (`[tool.mutmut]` in pyproject.toml).

Works on a copy of the tree in a temporary folder. Prints a line for each mutant: the first test that failed, or that
all of them passed. ``python scripts/mutants.py [text...]`` tries only the mutants whose file or code has the text.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
TREE = ("rag_bm25", "tests", "scripts", "docs", "pyproject.toml")
UNIT = "tests/unit"
TESTS = [
    UNIT,
    "tests/properties",
    "tests/golden/test_golden.py",
    "tests/contract/test_two_objects.py",
    "tests/contract/test_hits.py",
    "tests/contract/test_conditions.py",
]
SECONDS = 900  # a mutant that hangs is noticed, too


class Mutant(NamedTuple):
    """A change of one place in one module."""

    module: str
    old: str
    new: str


MUTANTS = [
    # The formulas
    Mutant("analysis/analyzer", "tokens[0][0] != BIGRAM_MARK:", "True:"),
    Mutant("analysis/words", "<= MAX_PREFIX_LENGTH or", "< MAX_PREFIX_LENGTH or"),
    Mutant("analysis/words", '.replace("-", "").isalpha()', '.replace("-", "").replace(".", "").isalpha()'),
    Mutant("analysis/words", "not compound.islower() and _CAMEL_HUMPS.search(compound) is not None", "False"),
    Mutant("analysis/words", "        if is_sign(run):\n            return ()\n", ""),
    Mutant("analysis/words", "is_simple(run) and not self.rules.split_camel_case", "is_simple(run)"),
    Mutant("analysis/runs", "len(run) == 1 and _RUNS.match(run) is None", "not run[0].isalnum()"),
    Mutant("analysis/word_bigrams", "() if self._rules.split_camel_case else terms", "terms"),
    Mutant("analysis/words", "return [] if _number(compound) else _in_run", "return _in_run"),
    Mutant("analysis/words", "places[end - 1] + 1", "places[end - 1]"),
    Mutant("analysis/segmentation", "at + 1 if len(word) == length else 0", "0"),
    Mutant("analysis/normalization", "origin += start - self._starts[first]", "pass"),
    Mutant("analysis/word_bigrams", "self._linked_words(before[0])[-1].start", "0"),
    Mutant("analysis/word_bigrams", "if before and first:", "if first:"),
    Mutant("analysis/word_bigrams", "or is_number(word) or", "or"),
    Mutant("analysis/word_bigrams", "            before = last\n", "            before = last or before\n"),
    Mutant("documents/lengths", "SHORT_LENGTH * others + 0.5", "SHORT_LENGTH * others"),
    Mutant("documents/lengths", "(?:{CJK}|\\d)+", "{CJK}+"),
    Mutant("documents/lengths", "    kinds[ord(BIGRAM_MARK)] = _BIGRAM\n", ""),
    Mutant("documents/lengths", "_LAST_CJK + 2", "_LAST_CJK + 1"),
    Mutant(
        "index/stored_config",
        "length_unit=_FORMER_LENGTH_UNIT) if is_default and was_default else given",
        "length_unit=_FORMER_LENGTH_UNIT) if was_default else given",
    ),
    Mutant("index/stored_config", "_FORMER_BIGRAM_WEIGHT = 0.4", "_FORMER_BIGRAM_WEIGHT = 0.5"),
    Mutant("index/stored_config", '    "compounds": "all",\n', ""),
    Mutant("index/stored_config", '    "query_stop_words": (),\n', ""),
    Mutant("index/stored_config", '    "query_stop_structures": False,\n', ""),
    Mutant("index/stored_config", '    "distinct_bigrams": False,\n', ""),
    Mutant("analysis/config", '    "distinct_bigrams": False,\n', ""),
    Mutant("analysis/bigrams", "after[sentences[before] == sentences[after]]", "after"),
    Mutant("analysis/bigrams", "<< _PLACE_BITS | places", "<< _PLACE_BITS"),
    Mutant("analysis/bigrams", "for sentence in split_sentences(text)", "for sentence in [text]"),
    Mutant("analysis/runs", "kinds[points_in(_SENTENCE_ENDS)] = _END", "pass"),
    Mutant("analysis/stop_structures", "words[0] in _HOW", "False"),
    Mutant("analysis/stop_structures", "while words and words[-1] not in _LAST", "while False"),
    Mutant("analysis/stop_structures", "following[1].lower() not in wanted", "False"),
    Mutant("analysis/stop_structures", "(len(word) > 1 and match[1].isupper())", "False"),
    Mutant("analysis/stop_structures", 're.search(r"\\w", topic)', "True"),
    Mutant("analysis/analyzer", "skip_stop_structures(self._normal_form(text), ", "skip_stop_structures(text, "),
    Mutant("index/stored_config", "getattr(config, name) == value", "True"),
    Mutant("index/stored_config", "return _renew(config, _FORMER_DEFAULTS)", "return config"),
    Mutant("cli/moving", "renew_defaults(source.config) if new_defaults else source.config", "source.config"),
    Mutant("query/encoder", "_WORD_BIGRAM if is_word_bigram(term) else _CJK_BIGRAM", "_CJK_BIGRAM"),
    Mutant("query/encoder", "self._kind_boosts[_CJK_BIGRAM in kinds]", "self._kind_boosts[False]"),
    Mutant("query/encoder", "self._kind_boosts[_CJK_BIGRAM in kinds]", "self._kind_boosts[True]"),
    Mutant("query/encoder", "or not weighting.bigram_weight", ""),
    Mutant("query/encoder", "(of_word_bigrams, of_latin)", "(of_word_bigrams,)"),
    Mutant("query/terms", "if weight > ZERO_AS_FLOAT32", "if weight > 0"),
    Mutant("index/searching/weigher", "key = weighting, _key_of(counted)", "key = _key_of(counted)"),
    Mutant("index/searching/weigher", "self._sides.get(key, view,", "self._sides.get(key, None,"),
    Mutant("weighting/document", "return weight * np.asarray(tf, np.float64)", "return np.asarray(tf)"),
    Mutant("weighting/document", "self.norm(length, field), SMALLEST_NORM", "self.norm(length), SMALLEST_NORM"),
    Mutant("weighting/document", "of.b if fixed is None else fixed", "of.b"),
    Mutant("weighting/formulas", "return tf / (tf + k1 * norm)", "return tf / (1 + tf + k1 * norm)"),
    Mutant("weighting/formulas", "return (k1 + 1) * tf / (tf + k1 * norm)", "return k1 * tf / (tf + k1 * norm)"),
    Mutant("weighting/formulas", "shifted = _ratio(tf, norm) + delta", "shifted = tf + delta"),
    Mutant("weighting/formulas", "_elasticsearch(tf, norm, k1, delta) + delta", "_elasticsearch(tf, norm, k1, delta)"),
    Mutant("weighting/formulas", "np.log(_ratio(tf, norm) + delta)", "np.log(_ratio(tf, norm) + 1)"),
    Mutant("weighting/formulas", "np.minimum(tf, 1) + np.log(np.maximum(tf, 1))", "1 + np.log(tf)"),
    Mutant("weighting/formulas", "np.maximum(norm, SMALLEST_NORM)", "norm"),
    Mutant(
        "weighting/formulas", "lambda k1, delta: (delta, k1 + 1 + delta)", "lambda k1, delta: (0.0, k1 + 2 + delta)"
    ),
    Mutant("documents/term_k1", "self._mean_norm + 0.5)", "self._mean_norm)"),
    Mutant("documents/term_k1", "df[:, ::-1].cumsum(axis=1)[:, ::-1]", "df"),
    Mutant("documents/term_k1", "rising & (df[:, 1:-1] > 0)", "rising"),
    Mutant("documents/term_k1", "np.logical_and.accumulate(", "np.asarray("),
    Mutant("documents/term_k1", "(GRID + 1) * r", "GRID * r"),
    Mutant("documents/term_k1", "np.concatenate(k1) / self._mean_norm", "np.concatenate(k1)"),
    Mutant("documents/term_k1", "np.log1p(frequencies * self._mean_norm)", "np.log1p(frequencies)"),
    Mutant("documents/term_k1", "mean_log, GRID) / self._mean_norm", "mean_log, GRID)"),
    Mutant("documents/term_k1", ".clip(max=MAX_TERM_K1)", ""),
    Mutant("index/maintenance/reencoding", "if row.pk[:-1] == digest:", "if True:"),
    Mutant("index/maintenance/reencoding", "size + more > MAX_BATCH_BYTES", "size > MAX_BATCH_BYTES"),
    Mutant("index/writing/chunk_writer", "if vector != rows[digest].vector]", "]"),
    Mutant("statistics/log/repair", 'SETTINGS | {"k1"} if _has_sound_term_k1(table) else SETTINGS', "SETTINGS"),
    Mutant("statistics/log/log", "if newest > self._k1_table:", "if not self._k1_table:"),
    Mutant("documents/encoder", "term_k1.get_many(ids, self.weighting.k1) if per_term", "None if per_term"),
    Mutant("documents/checks", "if not _is_text(metadata.get(field)):", "if False:"),
    Mutant("weighting/fields", "if isinstance(item, str)]", "if item]"),
    Mutant(
        "weighting/idf",
        "np.log1p((num_chunks - df + 0.5) / (df + 0.5))",
        "np.log((num_chunks - df + 0.5) / (df + 0.5))",
    ),
    Mutant("weighting/idf", "epsilon * average, df.shape", "average, df.shape"),
    Mutant("weighting/idf", ", floor > 0, floor)", ", floor > -9, floor)"),
    Mutant("weighting/idf", "smooth = epsilon * ", "smooth = "),
    Mutant(
        "weighting/idf",
        "lambda df, n: np.log((n + 1) / df)",
        "lambda df, n: np.log(n / df)",
    ),
    Mutant("weighting/idf", "np.log((n + 1) / (df + 1))", "np.log((n + 1) / df)"),
    Mutant("weighting/query", "qtf * (self.k3 + 1) / (qtf + self.k3)", "qtf * self.k3 / (qtf + self.k3)"),
    Mutant("weighting/query", "return self.term_weights(qtf) * idf(", "return idf("),
    Mutant("weighting/idf", "/ counts.sum()", "/ len(counts)"),
    Mutant("weighting/idf", "return mean if abs(mean) > ROUNDING else 0.0", "return mean"),
    Mutant("weighting/calibration", "k1 * scale, share / scale", "k1 * scale, share"),
    # The chunk's side
    Mutant("vectors/sparse", "if len(starts) < len(keys):", "if False:"),
    Mutant("documents/token_numbers", "keys.sort()", "pass"),
    Mutant("documents/token_numbers", "same = codes[found] == codes[left]", "same = found >= 0"),
    Mutant("documents/token_numbers", "table[hashed[::-1]] = left[::-1]", "table[hashed] = left"),
    Mutant("documents/token_numbers", "+ np.uint32(1))", ")"),
    Mutant("documents/token_numbers", "len(ends) != counts.sum()", "False"),
    Mutant("documents/encoder", "_per_entry(tf, lengths), name or None", "_per_entry(tf, lengths), None"),
    Mutant(
        "documents/encoder", "(tf, lengths) in self.parts.items()}", "(tf, lengths) in list(self.parts.items())[:1]}"
    ),
    Mutant("documents/encoder", "if not empty.any():", "if True:"),
    Mutant("documents/encoder", "np.insert(batch.ids, at, NO_TERMS_ID)", "np.insert(batch.ids, at, 1)"),
    Mutant("documents/encoder", "TermIds() if ids is None else ids", "TermIds()"),
    Mutant("index/writing/counting_ahead", "if len(places) < len(batch):", "if False:"),
    Mutant("index/writing/counting_ahead", "            raise self._failure\n", "            pass\n"),
    # Terms and vectors
    Mutant("vectors/terms", "% ID_SPACE or 1", "% ID_SPACE"),
    Mutant("vectors/terms", ")[:HASHED_BYTES])", "))"),
    Mutant(
        "vectors/terms",
        'return zlib.crc32(term.encode(errors="surrogatepass")[:HASHED_BYTES])',
        "return abs(hash(term))",
    ),
    Mutant("vectors/terms", "id_ not in self._taken and ", ""),
    Mutant("vectors/terms", "self._displaced.get(term) or term_id(term)", "term_id(term)"),
    Mutant(
        "vectors/terms",
        "return id_ if self._terms.get(id_) == term else None",
        "return id_ if id_ in self._terms else None",
    ),
    Mutant(
        "vectors/terms",
        "if self._terms.setdefault(id_, term) != term:",
        "self._terms[id_] = term\n            if False:",
    ),
    Mutant("vectors/sparse", "order = np.argsort(ids)", "order = np.arange(len(ids))"),
    Mutant("vectors/sparse", "return ids[order], numbers[order]", "return ids[order], numbers"),
    Mutant("vectors/sparse", ".astype(np.float64), other", ", other"),
    # The corpus's side
    Mutant("statistics/corpus", "int(len(ids) > 0 and ids[0] == NO_TERMS_ID)", "0"),
    Mutant("statistics/corpus", "return cls(len(all_ids), ", "return cls(len(all_ids) + 1, "),
    Mutant(
        "statistics/corpus", "return cls(len(all_ids), int(sum(lengths)),", "return cls(len(all_ids), len(all_ids),"
    ),
    Mutant("statistics/corpus", "(changes & 1) * 2 - 1", "changes & 1"),
    Mutant("statistics/count_table", "at += step * (", "at += 0 * ("),
    Mutant("store/milvus/combining", "            self._wake(turn)\n            return\n", "            raise\n"),
    Mutant("store/milvus/combining", "            lane.in_flight -= turn.in_flight\n", ""),
    Mutant("store/milvus/combining", "if turn.in_flight + len(following.queries) > most:", "if False:"),
    Mutant(
        "statistics/corpus", "        self._collection_stats = None\n\n    def contribution", "\n    def contribution"
    ),
    Mutant("statistics/corpus", "self.total_length += change.total_length", "pass"),
    Mutant("statistics/count_table", "self.marked[at] * (self.ids[at] == ids)", "self.marked[at]"),
    Mutant("statistics/count_table", "np.add.reduceat(counts[order], starts)", "np.add.reduceat(counts, starts)"),
    Mutant("statistics/count_table", "np.add.reduceat(self.df[order], starts)", "np.add.reduceat(self.df, starts)"),
    Mutant("statistics/count_table", "        for level in levels[1:]:\n", "        for level in levels[2:]:\n"),
    Mutant("statistics/corpus", "            self._whole = self._whole.plus(change)", "            pass"),
    Mutant("statistics/corpus", "self.of_one(namespace).plus(change)", "self.of_one(namespace)"),
    # The channels
    Mutant("statistics/corpus", "after[~is_bigram])", "after)"),
    Mutant("statistics/corpus", "was_bigram | change.is_bigram", "change.is_bigram"),
    Mutant("statistics/corpus", "self._df.copy(), self._num_negative", "self._df, self._num_negative"),
    Mutant("statistics/count_table", "some + others - (some & others & 1)", "some + others"),
    Mutant("statistics/count_table", "np.logical_or.reduceat", "np.logical_and.reduceat"),
    Mutant("statistics/count_table", "if len(marks) == len(pieces) else None", "if marks else None"),
    Mutant("statistics/log/log", "change.marked(known)", "change"),
    Mutant("statistics/log/repair", "total.marked(vocabulary)", "total"),
    Mutant("statistics/log/runs", "piece.marked(self._channels)", "piece"),
    Mutant("statistics/log/stored_statistics", "found.plus(self._marked(change))", "found.plus(change)"),
    Mutant("statistics/log/stored_statistics", "[self._marked(some) for some in read]", "read"),
    Mutant("statistics/log/channels", "if key not in self._read", "if not self._read"),
    Mutant("statistics/log/packing", "MARKED + pack(plain", "pack(plain"),
    Mutant("vectors/known_terms", "marks << _HASH_BITS", "marks"),
    Mutant("weighting/idf", "np.where(is_bigram, corpus.average_bigram_idf, corpus.average_idf)", "corpus.average_idf"),
    Mutant("query/encoder", "collection, epsilon, are_bigrams)", "collection, epsilon)"),
    # One moment, and nobody waits
    Mutant("statistics/corpus", "old[old > 0] << 1, new[new > 0] << 1 | 1", "old << 1, new << 1 | 1"),
    Mutant("statistics/log/terms", "self.displaced = {**self.displaced, **terms}", "pass"),
    Mutant("index/live_statistics", "_acquired(self._log_lock, wait=False)", "_acquired(self._log_lock, wait=True)"),
    Mutant(
        "index/live_statistics",
        "_acquired(self._refreshing, wait=self._store.exclusive)",
        "_acquired(self._refreshing, wait=True)",
    ),
    Mutant(
        "index/live_statistics",
        "_acquired(self._refreshing, wait=self._store.exclusive)",
        "_acquired(self._refreshing, wait=False)",
    ),
    Mutant("index/searching/memo", "if self._view is not view:", "if False:"),
    Mutant("index/searching/memo", "if self._view is view:", "if True:"),
    Mutant(
        "statistics/corpus",
        "np.minimum(np.maximum(self._df.get(ids), 0), max(self.num_chunks, 0))",
        "self._df.get(ids)",
    ),
    Mutant("statistics/corpus", "set(namespaces) >= self._by_namespace.keys()", "True"),
    Mutant("statistics/corpus", "set(namespaces) >= self._by_namespace.keys()", "False"),
    Mutant("query/terms", "weights.get(id_, 0.0) + weight", "weight"),
    Mutant(
        "query/encoder",
        "np.array([repeats for _, repeats, _ in boosted], np.int64)",
        "np.ones(len(terms), np.int64)",
    ),
    Mutant(
        "query/expansion",
        "text = AnalysedText.of_query(self.analyzer, part.text)",
        "text = AnalysedText.of(self.analyzer(part.text))",
    ),
    Mutant("query/additions", "if term not in self.own and boost", "if boost"),
    Mutant("query/additions", "if not is_bigram(term):", "if True:"),
    # Relevance feedback
    Mutant("weighting/idf", "(num_chunks - df - num_relevant + r + 0.5)", "(num_chunks - df - num_relevant + 0.5)"),
    Mutant("weighting/idf", "(num_relevant - r + 0.5) * (df - r + 0.5)", "(num_relevant - r + 0.5) * (df + 0.5)"),
    Mutant("weighting/idf", "(1 + np.exp(np.asarray(weight, np.float64))) - 0.5", "(1 + np.exp(np.asarray(weight)))"),
    Mutant("query/encoder", "np.where(held[at] == ids, counts[at], 0)", "counts[at]"),
    Mutant("evaluation/tuning", "grid[max(at - 1, 0) : at + 2]", "grid[at : at + 2]"),
    Mutant("evaluation/tuning", "if not values and name in REFINED", "if name in REFINED"),
    Mutant("analysis/text", "if 1 < len(self.words) <= len(across) + 1 else ()", "if 1 < len(self.words) else ()"),
    Mutant("analysis/text", "if not any(term_text(bigram) in word for word in self.words)]", "]"),
    Mutant("analysis/text", "return tuple(bigrams) if 1", "return tuple(across) if 1"),
    Mutant("query/encoder", "_WORD_OF[kind] if term.source.of_phrase else kind", "kind"),
    Mutant("query/additions", "return self.phrase or self.text.words", "return self.text.words"),
    Mutant("weighting/idf", "values + risen > 0, values + risen)", "values > 0, values)"),
    Mutant("query/terms", "num_relevant = min(num_relevant, num_chunks)", "num_relevant = max(num_relevant, 0)"),
    Mutant("query/terms", "return max(0.0, self.keep", "return (self.keep"),
    Mutant(
        "query/terms", "return product if self.feedback is None else product * self.feedback.value", "return product"
    ),
    Mutant("query/learning", "prior = scores / scores.sum()", "prior = np.full(len(scores), 1 / len(scores))"),
    Mutant(
        "query/learning",
        "length = table.per_chunk(usable.astype(np.float64))",
        "length = table.per_chunk(np.ones(len(usable)))",
    ),
    Mutant("query/learning", "covered = float(model[kept].sum())", "covered = 1.0"),
    Mutant("query/learning", "(1 - method.original_query_weight) * query_length", "(1 - method.original_query_weight)"),
    Mutant("query/learning", "np.where(usable, added * table.idf, 0.0)", "np.where(usable, added, 0.0)"),
    Mutant("query/learning", "-method.gamma, norm", "method.gamma, norm"),
    Mutant("query/learning", "factor * norm / (len(chunks) * length)", "factor * norm / length"),
    Mutant("query/learning", "table.norms()[len(evidence.relevant) :]", "table.norms()"),
    Mutant("query/learning", "offer[new] = of_counts * counts.weights", "offer[new] = counts.weights"),
    Mutant("index/maintenance/reencoding", "setdefault(digest, MAX_TEXT_BYTES)", "get(digest, MAX_TEXT_BYTES)"),
    Mutant("query/evidence", "(self.df >= min_df) & ", ""),
    Mutant("query/evidence", "(self.df <= max_df * self.num_chunks)", "(self.df <= self.num_chunks)"),
    Mutant("query/evidence", " and not is_bigram(term)", ""),
    Mutant("query/evidence", "new[:fb_terms]))", "new))"),
    Mutant("query/evidence", "boost * evidence.encoder.weighting.term_weights(qtf)", "boost * qtf"),
    Mutant("query/learning", "float(asked.own[asked.is_word].sum())", "float(asked.own.sum())"),
    Mutant("index/searching/fusion", "DEFAULT_FUSION: Fusion = Weighted()", "DEFAULT_FUSION: Fusion = RRF()"),
    Mutant("index/searching/fusion", "if self.high > self.low else 1.0", "if self.high > self.low else 0.0"),
    Mutant("index/searching/fusion", "return 1 / (k + rank)", "return 1 / (k + rank - 1)"),
    Mutant("index/searching/fusion_explanation", "list(arm.scores).index(chunk) + 1", "list(arm.scores).index(chunk)"),
    Mutant("index/searching/fusion_explanation", "(arm.weight * normalized, f", "(normalized, f"),
    Mutant("index/searching/hybrid", "lexical if pk in sparse else None", "lexical"),
    Mutant("index/searching/hybrid", "(fusion.sparse, fusion.dense) if", "(fusion.dense, fusion.sparse) if"),
    Mutant("query/learning", "np.log(np.maximum(counts.r, 1))", "counts.r.astype(np.float64)"),
    Mutant("query/learning", '(("new_term_weight", method.new_term_weight),), ', "(), "),
    Mutant("query/learning", "if isinstance(method, BIM | BM25PRF) else None", "if isinstance(method, BIM) else None"),
    Mutant("query/learning", "if isinstance(method, BIM | BM25PRF) else None", "if method is None else None"),
    Mutant("query/axiomatic", "np.clip((table.df - r) / max", "np.clip(table.df / max"),
    Mutant("query/axiomatic", "min(background * table.rows, num_others)", "background * table.rows"),
    Mutant("query/axiomatic", " + drawn * np.outer(rate[queried], rate)", ""),
    Mutant("query/axiomatic", "attracts[np.arange(len(self.queried)), self.queried] = False", "pass"),
    Mutant("query/axiomatic", "where=attracts & (own > 0)", "where=own > 0"),
    Mutant("query/axiomatic", "asked.own[at_asked] * table.idf[queried]", "asked.own[at_asked]"),
    Mutant("query/axiomatic", "added[at] / table.idf[at]", "added[at]"),
    Mutant("query/axiomatic", "1 + boost / own)", "1 + boost)"),
    Mutant("query/learning", "if not evidence.relevant and not evidence.irrelevant:", "if not evidence.relevant:"),
    Mutant("query/options", "method = Rocchio()", "method = FEEDBACK_METHODS[0]()"),
    Mutant(
        "index/searching/searcher",
        "method.fb_docs, scope, options)",
        "method.fb_docs, replace(scope, where=None), options)",
    ),
    Mutant("index/searching/searcher", "                if match.row.pk in rows", "                if True"),
    Mutant("index/searching/searcher", "rarest = int(df.argmin())", "rarest = int(df.argmax())"),
    Mutant("index/searching/searcher", "scored, key=rank_of)", "scored, key=lambda match: match.row.id)"),
    Mutant("query/conditions", "return frozenset().union(*of_must, ", "return frozenset().union("),
    Mutant("query/conditions", "if wanted.ids <= ids:", "if wanted.ids & ids:"),
    Mutant("analysis/phrases", "+ signs[after] - allowed\n", "\n"),
    Mutant("analysis/phrases", "values[ends[some] - width]", "values[starts[some]]"),
    Mutant("analysis/phrases", "reached[reached <= slop]", "np.zeros_like(reached[reached <= slop])"),
    Mutant("analysis/phrases", "words - signs[before])", "words)"),
    Mutant("hits/highlights", "end = min(end, starts[until])", "pass"),
    Mutant("analysis/marks", "starts[1:] >= ends[:-1]", "starts[1:] > ends[:-1]"),
    Mutant("hits/highlights", "while ends[last - 1] > end:", "while False:"),
    Mutant("hits/highlights", "score = self._scores[before[-1] | after]", "score = self._scores[after]"),
    Mutant("hits/highlights", "map(self._strip, self._sentences())", "self._sentences()"),
    Mutant(
        "hits/highlights",
        "bisect_right(self._ends, self._starts[at] + self._size, end",
        "bisect_right(self._starts, self._starts[at] + self._size, end",
    ),
    Mutant("index/searching/highlighting", "and ignored.intersection(term)", "and False"),
    Mutant(
        "analysis/analyzer",
        "if self._other_words is None:\n            return Locator",
        "if True:\n            return Locator",
    ),
    Mutant("analysis/locator", "(word, offset, offset + len(word)) in self._within[longer]", "True"),
    Mutant("analysis/locator", "moved.append(start - at)", "moved.append(start)"),
    Mutant("analysis/locator", "length += end - start + len(BORDER)", "length += end - start"),
    Mutant("analysis/locator", "(starts == first) & (ends == last)", "ends == last"),
    Mutant("analysis/locator", "if bigram in self._bigrams and start + first < end", "if bigram in self._bigrams"),
    Mutant("analysis/locator", "{first for first, _ in pairs}.union(bigrams)", "set(bigrams)"),
    Mutant("analysis/locator", "stretches[at + 1] in ends", "False"),
    Mutant("analysis/stretches", "are_between | are_han(points)", "are_between"),
    Mutant("analysis/locator", "places[:, 0] + self._lengths[which[at]]", "places[:, 0] + 2"),
    Mutant("analysis/marks", "marks.ends - before", "marks.ends"),
    Mutant(
        "analysis/marks",
        "borders = marks.starts.searchsorted(starts)",
        "borders = marks.starts.searchsorted(starts, 'right')",
    ),
    Mutant("analysis/normalization", ", [comma.end() for comma in _COMMA_IN_NUMBER.finditer(joined)]", ""),
    Mutant("analysis/normalization", "max(at, part.start() - 1)", "part.start()"),
    Mutant("analysis/analyzer", "token not in self._stop_terms", "True"),
    Mutant("analysis/analyzer", "if token in bigrams", "if is_bigram(token)"),
    # The log
    Mutant("statistics/log/keys", " if len(some) == parts\n", "\n"),
    Mutant("statistics/log/writes", "added - removed", "added"),
    Mutant("statistics/log/terms", "self._add_displaced(self._table.decode(TermsRow.decode_displaced, row))", "pass"),
    Mutant("statistics/log/batches", "self._last = max(self._last, batch)", "pass"),
    Mutant("statistics/log/terms", "if len(small) <= above:", "if True:"),
    Mutant("statistics/log/terms", "> REMAINDER_SECONDS", ">= 0"),
    Mutant("statistics/corpus", "int(np.count_nonzero(after < 0))", "0"),
    Mutant("index/live_statistics", "if self.log.position == position:", "if True:"),
    Mutant("store/memory", "    return at <= end", "    return True"),
    Mutant("store/memory", "at = found + len(part)", "at = found"),
    Mutant("store/milvus/lite2", "if seen >= stored:", "if False:"),
    Mutant("store/milvus/lite2", "for _ in range(COUNT_ATTEMPTS):", "for _ in range(1):"),
    Mutant("store/milvus/lite2", "and not is_stored_after(before, self.path)", "and False"),
    Mutant("store/milvus/lite2", "if behind > PATIENCE:", "if False:"),
    Mutant("store/milvus/lite2", "if self._has_written:", "if False:"),
    Mutant("store/milvus/sqlite_file", "if seconds > now:", "if False:"),
    Mutant("store/milvus/lite3", "self._is_broken = True", "pass"),
    Mutant("statistics/log/life_signs", "None if self._signs is None else time.monotonic()", "None"),
    Mutant("statistics/log/life_signs", "if not is_of_the_future(stamp)]", "]"),
    Mutant("index/live_statistics", "self.log.check_terms()\n", "pass\n"),
    Mutant(
        "index/live_statistics",
        "_acquired(self._store.write_lock, wait=False)",
        "_acquired(self._store.write_lock, wait=True)",
    ),
    Mutant("index/writing/chunk_writer", "self._log.require_terms()", "pass"),
    Mutant("index/maintenance/verification", "if differing > len(rows) / 2:", "if False:"),
    # The write protocol
    Mutant("index/writing/chunk_writer", '"b" if occupied == "a" else "a"', '"a"'),
    Mutant(
        "index/writing/chunk_writer",
        'Change(digest, "b" if occupied == "a" else "a", occupied)',
        'Change(digest, "b" if occupied == "a" else "a", "")',
    ),
    Mutant("index/writing/chunk_writer", "list(changes), _contribution(before))", "list(changes), _contribution([]))"),
    Mutant("index/writing/chunk_writer", "_contribution([*kept, *rows])", "_contribution(rows)"),
    Mutant("index/writing/chunk_writer", "            self.recover()\n", ""),
    Mutant("index/writing/chunk_writer", "stored[change.insert].batch != batch):", "False):"),
    Mutant("index/writing/chunk_writer", "stored[slot].batch < batch]", "True]"),
    Mutant("index/writing/chunk_writer", "row.text == chunk.text\n        and ", ""),
    Mutant("index/writing/chunk_writer", "and canonical_json(row.metadata) == canonical_json(chunk.metadata)", ""),
    Mutant("documents/checks", "ensure_ascii=False, sort_keys=True)", "ensure_ascii=False)"),
    Mutant(
        "index/writing/chunk_writer",
        "self._store.exclusive or intent.writer == self._writer or intent.silence > LEASE_SECONDS",
        "True",
    ),
    Mutant(
        "index/writing/chunk_writer",
        "self._store.exclusive or intent.writer == self._writer or intent.silence > LEASE_SECONDS",
        "intent.silence > LEASE_SECONDS",
    ),
    Mutant("store/deferred", "find(list(rows)) if self._is_doubtful else ()", "()"),
    Mutant("store/deferred", "self._is_doubtful = bool(rows)", "pass"),
    Mutant("store/deferred", "self._rows | {row.key: row for row in rows}", "{row.key: row for row in rows}"),
    Mutant("store/deferred", " or any(low < key < high for low, high in ranges)]", "]"),
    Mutant("store/milvus/log_store", "[*deferred, *rows]", "[*rows, *deferred]"),
    Mutant("store/milvus/log_store", "list(dict.fromkeys([*stored, *deferred]))", "stored"),
    Mutant("store/milvus/log_store", "        self._deferred.clear()\n", ""),
    Mutant("store/milvus/engine", "                if rows.is_sure:\n", "                if False:\n"),
    Mutant(
        "statistics/log/log", "DeltaRow.encode(intent.batch, delta), defer=True", "DeltaRow.encode(intent.batch, delta)"
    ),
    Mutant(
        "index/writing/chunk_writer", "max(rows.values(), key=lambda row: row.batch)", "min(rows.values(), key=str)"
    ),
    Mutant("index/writing/chunk_writer", "superseded += len(_flatten(stored)) - len(newest)", "pass"),
    Mutant("index/live_statistics", "        if self._read_only:\n", "        if False:\n"),
    Mutant("index/live_statistics", "self.log if self._num_superseded is None else", "self.log if True else"),
    Mutant(
        "index/maintenance/copying",
        "return len(intents) if count_unfinished(source, log) else 0",
        "return len(intents)",
    ),
    Mutant("documents/chunks", 'f"{len(namespace)}:{namespace}{id_}"', 'f"{namespace}{id_}"'),
    Mutant("documents/chunks", "size + more > MAX_BATCH_BYTES", "size > MAX_BATCH_BYTES"),
    Mutant("documents/checks", "not math.isfinite(value)", "math.isnan(value)"),
    Mutant("documents/checks", 'isinstance(given, str) and of.startswith("str")', "isinstance(given, str)"),
    Mutant("documents/checks", 'isinstance(given, str) and of.startswith("str")', 'of.startswith("str")'),
    Mutant("query/query", 'if isinstance(texts, str) else ""', "if texts else ''"),
    Mutant("index/stored_config", "if value != document[name]", "if False"),
    Mutant("index/stored_config", "found += differences(contract, contract_of(given.build_analyzer()))", "pass"),
    # The index
    Mutant(
        "index/live_statistics", "            self._writer.recover()\n        self.refresh()", "        self.refresh()"
    ),
    Mutant("index/live_statistics", "self._writer.recover()  # the last", "pass  # the last"),
    Mutant(
        "index/live_statistics",
        "                    self._recover()\n            except",
        "                    pass\n            except",
    ),
    Mutant("index/live_statistics", "(self._others_wrote() or self.log.has_intents)", "self.log.has_intents"),
    Mutant("index/live_statistics", "(self._others_wrote() or self.log.has_intents)", "self._others_wrote()"),
    Mutant(
        "index/live_statistics",
        "with self.events.defer(), self._refreshing, self._using_log():\n            self._next",
        "with self._refreshing, self._using_log():\n            self._next",
    ),
    Mutant(
        "index/live_statistics",
        "with self.events.defer(), self._refreshing, self._using_log():\n            self._next",
        "with self.events.defer(), self._using_log():\n            self._next",
    ),
    Mutant(
        "index/live_statistics",
        "with self.events.defer(), self._refreshing, self._using_log():\n            return",
        "with self.events.defer(), self._using_log():\n            return",
    ),
    Mutant(
        "index/live_statistics", "if not self._has_log:\n            self._read()", "if True:\n            self._read()"
    ),
    Mutant(
        "index/live_statistics",
        "            with self._using_log():\n                if changed:\n",
        "            with self._log_lock:\n                if changed:\n",
    ),
    Mutant(
        "index/live_statistics",
        "with self._store.write_lock:\n            changed",
        "if True:\n            changed",
    ),
    Mutant("index/index", "with store.write_lock:", "if True:"),
    Mutant("index/searching/rows", "and (namespaces is None or match.row.namespace in namespaces)", ""),
    Mutant(
        "index/searching/rows",
        "        if newest[match.row.namespace, match.row.id] == match.row.batch\n",
        "        if True\n",
    ),
    # Hits
    Mutant("hits/selection", "ranking.below * largest_factor(plan.boosts)", "ranking.below"),
    Mutant("hits/selection", "if hit.score > below]", "if hit.score > 0]"),
    Mutant(
        "hits/selection",
        "for hit, factor in scored if factor > 0]",
        "for hit, factor in scored if hit.score * factor > 0]",
    ),
    Mutant("query/explanation", "return score * factor if score > 0 else score", "return score * factor"),
    Mutant("hits/selection", "depth *= 2", "depth = len(ranking.hits)"),
    Mutant("hits/selection", "len(found.units) < wanted", "len(found.units) < 1"),
    Mutant("hits/selection", "return not must_refill_groups(plan) or not", "return True or not"),
    Mutant("hits/groups", "else (kind_of(value), value)", "else (value,)"),
    Mutant("hits/groups", '("alone", hit.namespace, hit.id) if value is None', '("alone",) if value is None'),
    Mutant("hits/diversity", ">= threshold - ROUNDING", "> threshold + ROUNDING"),
    Mutant("hits/diversity", "postings[columns] += 1", "postings[columns] = 1"),
    Mutant("hits/diversity", "redundancy = np.maximum(redundancy, similarity[chosen[-1]])", "pass"),
    Mutant("hits/neighbors", "return after.number == before.number + 1", "return True"),
    Mutant("hits/neighbors", "if chunk.text.startswith(text[begin : begin + len(chunk.text)]):", "if True:"),
    Mutant("hits/boosts", "max(0.0, distance - self.offset) / self.scale", "distance / self.scale"),
    Mutant("hits/boosts", "self.floor + (1 - self.floor) * factor", "max(self.floor, factor)"),
    Mutant("hits/boosts", "{(isinstance(value, bool), value): factor", "{(False, value): factor"),
    Mutant("query/similar", "statistics.df(chunk.ids) >= MIN_DF", "statistics.df(chunk.ids) >= 0"),
    Mutant("index/searching/selecting", "if unit in wanting else unit", "if False else unit"),
    Mutant("index/searching/contexts", "read.stop - 1 > span.number and", "True and"),
    Mutant("index/searching/ranking", "min(2 * limit, MAX_K)", "limit + 1"),
    Mutant("index/searching/ranking", "    if lacking:\n", "    if False:\n"),
    Mutant("index/searching/searcher", "self._store.exclusive and all_of_them", "all_of_them"),
    Mutant("index/live_statistics", "if free and self._is_due():", "if False:"),
    Mutant(
        "index/live_statistics",
        "self._others_wrote() if self._store.exclusive else time.monotonic() >= self._next_refresh",
        "False",
    ),
    Mutant(
        "index/searching/rows",
        "row for row in sorted(rows, key=lambda row: row.batch)}",
        "row for row in rows}",
    ),
    Mutant("index/searching/searcher", "if len(query.vector)]", "]"),
    Mutant("query/explanation", "weights[at])) * chunk.vector.get(int(query.terms.ids[at]))", "weights[at]))"),
    Mutant("query/explanation", "next(branch for branch in branches if branch.applies)", "branches[0]"),
    Mutant(
        "index/maintenance/verification",
        "if vocabulary.term(id_) is None]\n    differences",
        "if False]\n    differences",
    ),
    # Explanations, and reasons for what is not found
    Mutant("query/scores", "sorted(terms, key=lambda term: -term.contribution)", "terms"),
    Mutant("query/explanation", "boosted(score.value, math.prod(", "boosted(1.0, math.prod("),
    Mutant("query/scores", "value=placement.rerank_score,", "value=explained.value,"),
    Mutant("query/scores", 'return 2 if unicodedata.east_asian_width(character) in "WF" else 1', "return 1"),
    Mutant(
        "index/searching/placing",
        "for rank, hit in enumerate(hits, 1) if (hit.namespace, hit.id) == chunk)",
        "for rank, hit in enumerate(hits, 1) if hit.id == explained.id)",
    ),
    Mutant("index/searching/inquiry", "and best < least:", "and best > least:"),
    Mutant(
        "index/searching/inquiry",
        "        if self._asked.elsewhere and self._scope.namespaces is not None:",
        "        if True:",
    ),
    Mutant("index/searching/inquiry", "if df.any() and not terms.df[df > 0].any():", "if False:"),
    Mutant("index/searching/inquiry", "holding = [text for text in texts if", "holding = [text for text in [] if"),
    Mutant("index/searching/inquiry", "if len(left) > 1 and not alone and not", "if len(left) > 1 and"),
    Mutant("index/searching/chunk_inquiry", "return at + 1, hits[at]", "return at, hits[at]"),
    Mutant("index/searching/chunk_inquiry", "if self._asked.elsewhere and self._scope", "if self._scope"),
    Mutant("index/searching/chunk_inquiry", "and self._is_found_without(name, row):", "and False:"),
    Mutant("index/searching/chunk_inquiry", "return any(each.id == row.id for", "return any(True for"),
    # Copies
    Mutant("index/maintenance/copying", "    original.require_equal(counted)\n", ""),
    Mutant("index/maintenance/pending", "        begin_copy(target, self.source, self.fingerprint)\n", ""),
    Mutant("index/maintenance/copying", "later_than=log.new_batch()", 'later_than=""'),
    Mutant("index/maintenance/copying", "target.delete_chunks(superseded)", "pass"),
    Mutant("index/maintenance/copying", "target.delete_chunks(strays)", "pass"),
    Mutant("index/maintenance/copying", "target.delete_chunks([row.pk for row in wrong])", "pass"),
    Mutant("index/maintenance/copying", "np.array_equal(row.dense, other.dense)", "True"),
    Mutant("index/maintenance/pending", "if begun.fingerprint != self.fingerprint:", "if False:"),
    Mutant("index/maintenance/pending", "if target.log_keys() or target.count_chunks():", "if target.log_keys():"),
    Mutant("index/maintenance/pending", "if len(term_k1):", "if False:"),
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
    Mutant("index/maintenance/pending", "        end_copy(target)\n", ""),
    Mutant("index/opening", "if not exists and not is_lost and store.log_keys():", "if False:"),
    Mutant("statistics/log/settings", 'if keys_of(keys, "copy"):', "if False:"),
    Mutant("statistics/log/keys", 'frozenset({"config", "copy", "root"})', 'frozenset({"config", "root"})'),
    Mutant("statistics/log/keys", '"copy", "root"})', '"copy"})'),
    Mutant("statistics/log/source_roots", "if claim.replaces == current.version:", "if True:"),
    Mutant("statistics/log/source_roots", "    if _are_current(claims, known):", "    if True:"),
    Mutant("statistics/log/source_roots", "        if _have_rivals(claims, known, stored):", "        if False:"),
    Mutant(
        "ingestion/source_names",
        "if found is not None and found.steps == 0 and name in",
        "if found is not None and name in",
    ),
    Mutant("ingestion/source_names", "(name, *_prefixes(name))", "(name,)"),
    Mutant("ingestion/obsolete", "source in self.unreadable or source.startswith(", "source.startswith("),
    Mutant("ingestion/reindexing", "return target.delete(strays, namespace=namespace) if strays else 0", "return 0"),
    Mutant("ingestion/reindexing", "if source.config.dense_field() != target.config.dense_field():", "if False:"),
    Mutant("ingestion/reindexing", "metadatas=[chunk.metadata for chunk in distinct]", "metadatas=None"),
    Mutant("ingestion/splitting", "return not has_words or self.length(", "return self.length("),
    Mutant("ingestion/splitting", "belongs_before = following is None or ", "belongs_before = "),
    Mutant(
        "ingestion/splitting",
        "self._reach(text, body, reach, self.least)",
        "self._reach(text, start, reach, self.least)",
    ),
    Mutant("ingestion/splitting", "min(reach, self._leave(text, end))", "reach"),
    Mutant("ingestion/splitting", "paths = [section.path for section in own or within]", "paths = [within[0].path]"),
    Mutant("ingestion/markup", "if lines.starts[at] < after:", "if False:"),
    Mutant("ingestion/encodings", 'if utf8 is not None and "\\0" not in utf8:', "if utf8 is not None:"),
    Mutant("ingestion/encodings", 'if sixteen or b"\\0" in data:', "if sixteen:"),
    Mutant("ingestion/encodings", "return SUPERSETS.get(info.name, info.name)", "return info.name"),
    Mutant("ingestion/encodings", "if shares[best] >= MIN_COMMON else", "if True else"),
    Mutant("ingestion/obsolete", " or source in checker.rejected:", ":"),
    Mutant(
        "ingestion/obsolete",
        "names.source_of(path) for path, is_folder in found.given.items() if not",
        "None for path, is_folder in () if not",
    ),
    Mutant("ingestion/ingesting", "    if embed is None and dim is not None:", "    if False:"),
    Mutant("analysis/word_files", "        if known != frequency:", "        if False:"),
    Mutant("analysis/word_files", "(?:[a-z]{1,2}|nrt|nrfg|eng)", "[a-zA-Z]+"),
    Mutant("cli/embedding", "if (dim := self._dimension()) != config.dense_dim:", "if False:"),
    Mutant("cli/importing", 'return _KEY.sub("***", _LOGIN.sub("***@", text))', "return text"),
    Mutant("cli/watching", "        if now == before:\n", "        if True:\n"),
    Mutant("cli/watching", "if now.get(file.path) != known.get(file.path)]", "]"),
    Mutant("cli/watching", "*(path for path in known if path not in now)", ""),
    Mutant("cli/shell", "            vars(self).update(before)\n", ""),
    Mutant(
        "cli/listing",
        'return index.chunks(filter={"$and": both} if both else None',
        "return index.chunks(filter=of_source",
    ),
    Mutant("cli/maintaining", 'return {"source": {"$in": sources}}', 'return {"source": sources[0]}'),
    Mutant("index/searching/term_listing", "stored[one.term] * one.idf, stored", "stored[one.term], stored"),
    Mutant("ingestion/patterns", "            if decided is not None:", "            if decided:"),
    Mutant(
        "ingestion/formats/extraction",
        "            except BaseException as error:\n                self._stop()",
        "            except BaseException as error:",
    ),
    Mutant("events", "if self._on_event is not None:", "if False:"),
    Mutant("events", "except Exception:", "except KeyError:"),
    # The second format of the log, and the views of readers
    Mutant(
        "vectors/terms",
        "        return id_ not in self._taken and not self._known.taken([id_])[0]",
        "        return id_ not in self._taken",
    ),
    Mutant("vectors/terms", "if is_taken or id_ in self._taken:", "if is_taken:"),
    Mutant("vectors/terms", "if term not in known and term not in self}", "if term not in known}"),
    Mutant("vectors/terms", "encoded = [each[:HASHED_BYTES] for each in encoded]", "pass"),
    Mutant("vectors/terms", "np.maximum(ids, 1, out=ids)", "ids"),
    Mutant(
        "analysis/word_bigrams", "filter(may_hold_word_bigrams, parts_without_han(text))", "parts_without_han(text)[:1]"
    ),
    Mutant("vectors/known_terms", "prints |= hashes & ", "prints |= np.uint64(0) & "),
    Mutant("vectors/known_terms", "last = prints[~self._has(prints)]", "last = prints"),
    Mutant("vectors/known_terms", "while levels and len(levels[-1]) < self.FACTOR * len(last):", "while False:"),
    Mutant("statistics/log/stored_statistics", "        self._next = changes, following\n", "        pass\n"),
    Mutant(
        "statistics/log/stored_statistics",
        "following.put(part, self._changed(part, found, changes))",
        "following.put(part, found)",
    ),
    Mutant(
        "statistics/log/stored_statistics",
        "            found = self._changed(part, found, changes)\n            moment.put",
        "            moment.put",
    ),
    Mutant(
        "statistics/log/stored_statistics",
        "undone = [NamespaceChange(namespace, -change)",
        "undone = [NamespaceChange(namespace, change)",
    ),
    Mutant(
        "statistics/log/stored_statistics",
        "found += [self._marked(change) for namespace, change in self._changes if",
        "found += [change for namespace, change in () if",
    ),
    Mutant(
        "statistics/log/stored_statistics",
        "if part is None or part == namespace:\n                found",
        "if True:\n                found",
    ),
    Mutant(
        "statistics/log/stored_statistics",
        "for part in self._loaded.keys() - following._loaded.keys():  # read meanwhile",
        "for part in ():",
    ),
    Mutant(
        "statistics/log/sums",
        "if not is_first and (head.base != self._base or not self.counted >= set(head.covers)):",
        "if False:",
    ),
    Mutant("statistics/log/sums", "head.base != self._base or not", "not"),
    Mutant(
        "statistics/log/sums",
        "head.base != self._base or not self.counted >= set(head.covers)",
        "head.base != self._base",
    ),
    Mutant(
        "statistics/log/sums",
        "self._counted = covers | (self._counted - set(self.head.covers))",
        "self._counted = covers",
    ),
    Mutant(
        "statistics/log/sums",
        "for batch, change in self._unfolded.items() if batch not in covers}",
        "for batch, change in self._unfolded.items()}",
    ),
    Mutant("statistics/log/sums", "if name not in self._counted}", "}"),
    Mutant("statistics/log/sums", "            self._counted.update(changes)\n", ""),
    Mutant("statistics/log/sums", "        if self.num_missing > num_missing:\n            return False\n", ""),
    Mutant(
        "statistics/log/sums",
        "        superfluous = set(self.head.covers)\n",
        "        superfluous = set(head.covers)\n",
    ),
    Mutant("statistics/log/sums", "(*self.head.runs, *head.runs)", "head.runs"),
    Mutant("statistics/log/sums", 'key.kind == "snapshot" or key.name in covers', "True"),
    Mutant("statistics/log/sums", "missing=self.num_missing", "missing=0"),
    Mutant("statistics/log/sums", "nameless=self.head.nameless", "nameless=0"),
    Mutant(
        "statistics/log/sums",
        "while levels.count(level) >= FAN - 1:",
        "while False:",
    ),
    Mutant(
        "statistics/log/runs",
        "            for _ in counts:  # the next part follows in the streams\n                pass\n",
        "",
    ),
    Mutant(
        "statistics/log/runs",
        "return next(iter(source.totals), None), source.stream()",
        "return next(iter(source.totals), None), stream",
    ),
    Mutant("statistics/log/runs", "        if run in read_head(table).runs:", "        if False:"),
    Mutant("statistics/log/table", "earlier(mark, OVERLAP_SECONDS)", "mark"),
    Mutant("statistics/log/table", "ranges += [range_of(*entry) for entry in watched]", "pass"),
    Mutant("statistics/log/open_write", 'batch > self._ended.get(writer, "")', "True"),
    Mutant(
        "statistics/log/log",
        "for batch in self._sums.counted:  # the rows of some may be deleted, or lost",
        "for batch in ():",
    ),
    Mutant(
        "statistics/log/log",
        'return coming | {("delta", batch) for batch in self.open_batches.batches}',
        "return coming",
    ),
    Mutant(
        "statistics/log/log",
        "change.marked(known), self._sums.num_deltas + 1, num_terms)",
        "change.marked(known), 0, num_terms)",
    ),
    Mutant(
        "statistics/log/log",
        "change.marked(known), self._sums.num_deltas + 1, num_terms)",
        "change.marked(known), self._sums.num_deltas + 1, 0)",
    ),
    Mutant("statistics/log/log", "        return len(dead) == len(keys)", "        return True"),
    Mutant(
        "statistics/log/log",
        "dead = [key for some in marks.values() if self._is_dead(some) for key in some]",
        "dead = []",
    ),
    Mutant("statistics/log/log", 'if any(kind == "terms" for kind, _ in self._incomplete):', "if False:"),
    Mutant(
        "statistics/log/log",
        "        self._require_this_format()\n        self._store.insert_log([*TermsRow",
        "        self._store.insert_log([*TermsRow",
    ),
    Mutant(
        "statistics/log/terms", "        self._table.insert(TermsRow.encode(name, terms, replaced=list(small)))\n", ""
    ),
    Mutant("statistics/log/terms", "replaced=list(small)", "replaced=()"),
    Mutant(
        "statistics/log/terms",
        "terms.add(self._table.decode(TermsRow.decode, row))",
        "pass",
    ),
    Mutant(
        "statistics/log/settings",
        "        store.delete_log(keys)\n    elif",
        "        pass\n    elif",
    ),
    Mutant("statistics/log/settings", "other_than=numbers", "other_than=()"),
    Mutant("statistics/log/batches", 'int(self._last[:CLOCK_DIGITS] or "0", 16) + 1', "0"),
    Mutant("statistics/log/repair", "num_terms=max(len(vocabulary), whole.num_counts - nameless),", "num_terms=0,"),
    Mutant(
        "index/live_statistics",
        "if not is_left_alone and self._is_due() and not self._has_log:",
        "if not is_left_alone and self._is_due():",
    ),
    Mutant(
        "index/background_refresh",
        "while not self._ended.wait(self._interval) and self._is_used():",
        "while not self._ended.wait(self._interval):",
    ),
    Mutant("index/maintenance/verification", "for name in sorted({*totals, *recount}):", "for name in sorted(totals):"),
    Mutant(
        "index/maintenance/verification", "for name in sorted({*totals, *recount}):", "for name in sorted(recount):"
    ),
    # The server: who may ask, and how much
    Mutant("serving/guard", "hmac.compare_digest(given, self._token)", "given.startswith(self._token[:9])"),
    Mutant("serving/guard", "host_name(host) not in self._hosts", "host_name(host) is None"),
    Mutant("serving/guard", "parts.netloc == host.lower()", "parts.netloc"),
    Mutant("serving/guard", 'not in ("none", "same-origin")', "in ()"),
    Mutant("serving/gate", "if lane.is_full:", "if False:"),
    Mutant("serving/gate", "if future.cancel():", "if False:"),
    Mutant("serving/gate", "_Lane(1, MAX_WRITES_WAITING)", "_Lane(2, MAX_WRITES_WAITING)"),
    Mutant("serving/app", "if operation.call.writes and not settings.allow_writes:", "if False:"),
    Mutant("serving/app", "if len(body) > most:", "if False:"),
    Mutant("serving/answers", "if size > most:", "if False:"),
    Mutant("serving/answers", "strict=strict)", "strict=False)"),
    Mutant("serving/settings", "if self.certificate is None and not self.behind_proxy:", "if False:"),
    Mutant("serving/settings", "if is_any(self.host) and not self.hosts:", "if False:"),
    Mutant("serving/served", 'refusal.message.replace(self._name, "the index")', "refusal.message"),
    Mutant("serving/jobs", "if self.stopped.is_set():", "if False:"),
    Mutant("serving/agents", "if allow_writes or not tool.call.writes}", "if tool}"),
    Mutant("serving/running", "socket.SOCK_STREAM, socket.IPPROTO_TCP", "socket.SOCK_STREAM, 0"),
    # Coroutines, and LangChain
    Mutant("index/coroutines", "ThreadPoolExecutor(1, ", "ThreadPoolExecutor(2, "),
    Mutant("index/coroutines", "self._executor if os.getpid() == self._pid else None", "self._executor"),
    Mutant("index/coroutines", "self._executor if os.getpid() == self._pid else None", "None"),
    Mutant("index/coroutines", "return partial(copy_context().run, call)", "return call"),
    Mutant("index/coroutines", "asyncio.to_thread(lambda: list(islice(items, PAGE)))", "asyncio.sleep(0, list(items))"),
    Mutant("index/coroutines", "        self._executor.shutdown()", "        self._executor.shutdown(wait=False)"),
    Mutant("index/index", "            self._write_thread.close()\n", ""),
    Mutant("langchain/searching", '"filter": filter_of("dense", options)', '"filter": filter_of("sparse", options)'),
    Mutant("langchain/searching", 'options.get("search_params") if params is None else params', "params"),
    Mutant("langchain/self_query", 'parts[0] if len(parts) == 1 else {"$and": parts}', "parts[-1]"),
    Mutant("langchain/tools", "        room -= len(passage) + 2\n", ""),
    Mutant("langchain/tools", '" ".join(cite(document).split())', "cite(document)"),
    Mutant("langchain/tools", "documents[: max_characters // MIN_PASSAGE]", "documents"),
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
    """Apply a mutant, run the tests, undo it; return the test that failed."""
    path = tree / "rag_bm25" / f"{mutant.module}.py"
    sound = path.read_text(encoding="utf-8")
    if sound.count(mutant.old) != 1:
        return "STALE"
    path.write_text(sound.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        failures = (first_failure(tree, tests) for tests in (*nearest_tests(tree, mutant.module), TESTS) if tests)
        return next(filter(None, failures), "SURVIVED")
    finally:
        path.write_text(sound, encoding="utf-8")


def nearest_tests(tree: Path, module: str) -> Iterator[list[str]]:
    """Yield the tests that fail soonest: those that import a module, and those of its room."""
    name, room = f"rag_bm25.{module.replace('/', '.')}", module.split("/", maxsplit=1)[0]
    homes = [folder for folder in (f"{UNIT}/{room}", f"tests/{room}") if (tree / folder).is_dir()]
    files = (path for home in (UNIT, *homes) for path in sorted((tree / home).rglob("test_*.py")))
    tests = dict.fromkeys(path for path in files if f"{name} import" in path.read_text("utf-8"))
    yield [str(path.relative_to(tree)) for path in tests]
    yield homes


def first_failure(tree: Path, tests: list[str]) -> str:
    """Return the name of the first failing test, or an empty string."""
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

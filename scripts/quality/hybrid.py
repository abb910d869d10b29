"""The fusions of hybrid search, on judged sets, with models and with stand-ins for weaker and better ones.

    pip install '.[eval]'
    python scripts/quality/hybrid.py path/to/covidfaq path/to/cacm ... --vectors FOLDER [--json docs/quality.json]

Of each set, `embeddings.py` chooses a sample and has made vectors of it, in the folder of `--vectors`; a pair is a set
and a model. The index is in memory, with the default configuration. A stand-in is the similarity of wordllama, moved
towards the judgements or blurred until the dense arm alone has the nDCG@10 of the lexical one plus -.20, -.05, 0, .08
or .18; of each strength there are two, one of which is blurred more for some queries than for others.

The default is chosen on the pairs of one half of the sets, with 100 candidates of each arm and with 20, as a narrow
filter leaves them, and shown on those of the other half.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from quality import ours
from quality.embeddings import MODELS, sample, vectors_of
from quality.report import put, short, short_p
from quality.sets import load
from rag_bm25 import RRF, BM25Index, Weighted
from rag_bm25.evaluation import BeirDataset, paired_test
from rag_bm25.evaluation.comparison import PairedTest
from rag_bm25.evaluation.fusion import MIN_QUESTIONS, TRIED, best_fusion
from rag_bm25.evaluation.running import add_corpus
from rag_bm25.hits.fusion import DEFAULT_FUSION, Fusion

Matrix: TypeAlias = "NDArray[np.float64]"  # queries x documents
Values: TypeAlias = "NDArray[np.float64]"  # nDCG@10, query by query
Rank: TypeAlias = "Callable[[Fusion], Values]"

K, HEAD, FEW = 10, 100, 20
CHOSEN_ON = {
    *("cacm", "concode", "cosqa-dev", "covidfaq", "domainrag-zh", "longdocs-en-wiki", "longdocs-zh-law", "npl"),
    *("qbqtc", "xquad-de"),
}
NAMES = ("z-score .4", "z-score .45", "z-score .5")  # of the fusions that the default is chosen from
FORMER: Fusion = Weighted(0.5, 0.5, "min-max")
FUSIONS: dict[str, Fusion] = {
    "sparse": Weighted(1, 0),
    "dense": Weighted(0, 1),
    "RRF, k 60": RRF(),
    "RRF, k 1": RRF(1),
    "min-max .4": Weighted(0.4, 0.6, "min-max"),
    "min-max .5": FORMER,
    "z-score .3": Weighted(0.3, 0.7),
    "z-score .4": Weighted(0.4, 0.6),
    "z-score .45": Weighted(0.45, 0.55),
    "z-score .5": Weighted(0.5, 0.5),
    "z-score .6": Weighted(0.6, 0.4),
}
MEASURED, ON_SIXTY = "the default, or weights measured on 60 questions", 20  # draws of 60
STRENGTHS = {"-.20": -0.20, "-.05": -0.05, "=": 0.0, "+.08": 0.08, "+.18": 0.18}
CEILING = 0.97  # of the nDCG@10 that a stand-in is to have
STEPS, LARGEST = 14, 64.0  # of a bisection
SIGNIFICANT = 0.05


@dataclass
class Arms:
    """The scores of both arms of a sample, and its judgements."""

    sparse: Matrix
    dense: Matrix
    gains: Matrix

    @cached_property
    def orders(self) -> list[list[list[int]]]:
        """The first documents of each arm, query by query; those without a word of the query are not in the first."""
        sparse, dense = (best(of, HEAD).tolist() for of in (self.sparse, self.dense))
        found = np.count_nonzero(self.sparse, axis=1)
        return [[words[:count], similar] for words, count, similar in zip(sparse, found, dense, strict=True)]

    def values(self, fusion: Fusion, head: int = HEAD) -> Values:
        """Return the nDCG@10 of each query by the library's own fusion of the first candidates of each arm."""
        ranked = [self._fused(at, fusion, head) for at in range(len(self.gains))]
        return ndcg([gains[ids] for gains, ids in zip(self.gains, ranked, strict=True)], self.gains)

    def _fused(self, at: int, fusion: Fusion, head: int) -> list[int]:
        found = [order[:head] for order in self.orders[at]]
        if not isinstance(fusion, RRF):  # each arm scores what the other one has found, unless it has found nothing
            union = sorted({*found[0], *found[1]})
            found = [union if some else [] for some in found]
        sparse, dense = (
            dict(zip(map(str, some), of[at][some].tolist(), strict=True))
            for of, some in zip((self.sparse, self.dense), found, strict=True)
        )
        fused = fusion.fuse(sparse, dense)
        return sorted(map(int, fused), key=lambda n: (-fused[str(n)], n))[:K]


@dataclass(eq=False)
class Pair:
    """A set and a dense arm: the nDCG@10 of each fusion, query by query."""

    set: str
    arm: str
    values: dict[str, Values]
    few: dict[str, Values] = field(default_factory=dict)  # with 20 candidates of each arm

    @property
    def better_arm(self) -> Values:
        return max(self.values["sparse"], self.values["dense"], key=lambda values: float(values.mean()))


def best(scores: Matrix, count: int) -> NDArray[np.int64]:
    """Return the places of the highest scores of each query, best first, equal ones in the order of the documents."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :count]


def ndcg(ranked: Sequence[Values], gains: Matrix) -> Values:
    """Return the nDCG@10 of rankings, given the gains of their documents and of all."""
    discounts = 1 / np.log2(np.arange(2, K + 2))
    values = [some[:K] @ discounts[: len(some[:K])] for some in (*ranked, *-np.sort(-gains, axis=1))]
    return np.array(values[: len(gains)]) / np.array(values[len(gains) :])


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--vectors", type=Path, required=True, metavar="FOLDER", help="what embeddings.py has made")
    parser.add_argument("--kept", type=Path, metavar="FOLDER", help="keep there what was measured, set by set")
    parser.add_argument("--json", type=Path, metavar="FILE", help="put the table there, beside what else it has")
    given = parser.parse_args()
    pairs = [pair for folder in given.sets for pair in measured(folder, given.vectors, given.kept)]
    result = summary(pairs)
    print("\n".join(report(result)))
    if given.json:
        put(given.json, [result])


def measured(folder: Path, vectors: Path, kept: Path | None) -> list[Pair]:
    """Measure all pairs of a set, or read what is kept of them."""
    name, file = folder.name, kept / f"{folder.name}.json" if kept else None
    known = json.loads(file.read_text()) if file and file.exists() else {}
    pairs = {arm: Pair(name, arm, *map(_to_arrays, values)) for arm, values in known.items()}
    found = {model: arrays for model in MODELS if (arrays := vectors_of(vectors, model, name))}
    if found.keys() - pairs.keys():
        dataset = sample(load(folder))
        sparse, gains = lexical_scores(dataset), gains_of(dataset)
        judged = gains.any(axis=1)
        arms = {model: queries @ documents.T for model, (documents, queries) in found.items()}
        wanted = {arm: Arms(sparse[judged], dense[judged].astype(float), gains[judged]) for arm, dense in arms.items()}
        for arm, both in with_stand_ins(wanted):
            if arm not in pairs:
                pairs[arm] = measure_pair(name, arm, both)
                print(f"{name}, {arm}: {pairs[arm].values['dense'].mean():.3f}", file=sys.stderr, flush=True)
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            plain = {arm: [_to_lists(pair.values), _to_lists(pair.few)] for arm, pair in pairs.items()}
            file.write_text(json.dumps(plain))
    return list(pairs.values())


def _to_arrays(values: Mapping[str, list[float]]) -> dict[str, Values]:
    return {name: np.array(some) for name, some in values.items()}


def _to_lists(values: Mapping[str, Values]) -> dict[str, list[float]]:
    return {name: some.round(6).tolist() for name, some in values.items()}


def lexical_scores(dataset: BeirDataset) -> Matrix:
    """Return the BM25 score of each document for each query by the default configuration; 0 without a common word."""
    config = ours.sized(ours.CHOICES[ours.DEFAULT], dataset)
    places = {id_: at for at, id_ in enumerate(dataset.corpus)}
    scores = np.zeros((len(dataset.queries), len(places)))
    with BM25Index.open(":memory:", "hybrid", config=config) as index:
        add_corpus(index, dataset.corpus, None, dataset.fields(config.fields))
        for row, hits in zip(scores, index.search_batch(list(dataset.queries.values()), len(places)), strict=True):
            row[[places[hit.id] for hit in hits]] = [hit.score for hit in hits]
    return scores


def gains_of(dataset: BeirDataset) -> Matrix:
    """Return the grade of each document for each query."""
    grades = [dataset.qrels[query] for query in dataset.queries]
    return np.array([[max(of.get(id_, 0), 0) for id_ in dataset.corpus] for of in grades], float)


def measure_pair(name: str, arm: str, both: Arms) -> Pair:
    """Measure all fusions, and weights that are measured on sixty of the queries."""
    values = {fusion: both.values(one) for fusion, one in FUSIONS.items()}
    few = {fusion: both.values(one, FEW) for fusion, one in FUSIONS.items() if isinstance(one, Weighted)}
    tried = {one: both.values(one) for one in (DEFAULT_FUSION, *TRIED)}
    values[MEASURED] = values_on_others(tried)
    return Pair(name, arm, values, few)


def values_on_others(values: Mapping[Fusion, Values]) -> Values:
    """Choose a fusion on sixty queries by chance, and measure the others; return the mean of draws, query by query."""
    (usual, *_), rng = values.values(), np.random.default_rng(0)
    size = len(usual)
    if size <= MIN_QUESTIONS:
        return usual
    sums, counts = np.zeros(size), np.zeros(size)
    for _ in range(ON_SIXTY):
        sixty = rng.choice(size, MIN_QUESTIONS, replace=False)
        others = np.setdiff1d(np.arange(size), sixty)
        chosen = best_fusion({fusion: some[sixty] for fusion, some in values.items()})
        sums[others] += values[chosen][others]
        counts[others] += 1
    return np.where(counts > 0, sums / np.maximum(counts, 1), usual)


def with_stand_ins(arms: Mapping[str, Arms]) -> Iterator[tuple[str, Arms]]:
    """Yield the models, and the stand-ins that are made of the first one."""
    yield from arms.items()
    first = arms.get("wordllama")
    for kind, (name, distance) in ((kind, one) for kind in (0, 1) for one in STRENGTHS.items() if first):
        made = stand_in(first, distance, kind)  # type: ignore[arg-type]
        if made is not None:
            yield f"stand-in {name} {'AB'[kind]}", made


def stand_in(arms: Arms, distance: float, kind: int) -> Arms | None:
    """Move or blur the similarities until they find as much as the lexical arm plus a distance."""
    alone = partial(_alone, arms.gains)
    target = float(alone(arms.sparse).mean()) + distance
    if not 0 < target <= CEILING:
        return None
    rng = np.random.default_rng(100 + kind)
    shape, size = arms.dense.shape, arms.dense.std(axis=1, keepdims=True)
    push = rng.exponential(size=(shape[0], 1)) * rng.uniform(0.5, 1.5, shape) * (arms.gains > 0)
    blur = rng.normal(size=shape) * (rng.lognormal(0, 0.8, (shape[0], 1)) if kind else 1.0)
    is_up = float(alone(arms.dense + 0.4 * size * blur).mean()) < target
    low, high = 0.0, LARGEST
    for _ in range(STEPS):
        middle = (low + high) / 2
        moved = 0.4 * blur + middle * push if is_up else (0.4 + middle) * blur
        is_short = float(alone(arms.dense + size * moved).mean()) < target
        low, high = (middle, high) if is_short == is_up else (low, middle)
    return Arms(arms.sparse, arms.dense + size * moved, arms.gains)


def _alone(gains: Matrix, scores: Matrix) -> Values:
    return ndcg(list(np.take_along_axis(gains, best(scores, K), axis=1)), gains)


def group_of(pair: Pair) -> str:
    """Return the strength of a stand-in, or the model."""
    return pair.arm.removeprefix("stand-in ").removesuffix(" A").removesuffix(" B")


def summary(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return the table: of each fusion and group of pairs, its mean, its gain and how often it is worse or better."""
    groups = [name for name in (*STRENGTHS, *MODELS) if any(group_of(pair) == name for pair in pairs)]
    halves: dict[str, list[Pair]] = {"chosen on": [], "shown on": []}
    for pair in pairs:
        halves["chosen on" if pair.set in CHOSEN_ON else "shown on"].append(pair)
    chosen = max(NAMES, key=partial(_mean_of_both, halves["chosen on"]))
    return {
        "name": "hybrid",
        "language": "of all sets",
        "values": {},
        "sets": {half: sorted({pair.set for pair in some}) for half, some in halves.items()},
        "chosen": chosen,
        "groups": {name: sum(group_of(pair) == name for pair in pairs) for name in groups},
        "fusions": {
            name: {group: against_arms(name, [pair for pair in pairs if group_of(pair) == group]) for group in groups}
            for name in (*FUSIONS, MEASURED)
        },
        "against the former default": {
            name: {half: against_former(name, some) for half, some in (*halves.items(), ("all", list(pairs)))}
            for name in (*FUSIONS, MEASURED)
        },
        "with 20 candidates": {
            name: {half: against_former(name, some, few=True) for half, some in halves.items()}
            for name in FUSIONS
            if isinstance(FUSIONS[name], Weighted)
        },
        "pairs": {
            f"{pair.set}, {pair.arm}": {name: round(float(some.mean()), 4) for name, some in pair.values.items()}
            for pair in pairs
        },
    }


def _mean_of_both(pairs: Sequence[Pair], name: str) -> float:
    """Return the mean nDCG@10 of a fusion, half of it with twenty candidates of each arm."""
    return float(np.mean([(pair.values[name].mean() + pair.few[name].mean()) / 2 for pair in pairs]))


def against_arms(name: str, pairs: Sequence[Pair]) -> dict[str, float]:
    """Compare a fusion with the better arm of each pair."""
    tests = [paired_test(pair.better_arm, pair.values[name]) for pair in pairs]
    return {
        "ndcg@10": round(float(np.mean([pair.values[name].mean() for pair in pairs])), 4),
        "gain": round(float(np.mean([test.difference for test in tests])), 4),
        **_significant(tests),
    }


def against_former(name: str, pairs: Sequence[Pair], *, few: bool = False) -> dict[str, float]:
    """Compare a fusion with the former default, pair by pair, and over the means of the sets."""
    tests = [_test(pair, name, few=few) for pair in pairs]
    by_set: dict[str, list[float]] = {}
    for pair, test in zip(pairs, tests, strict=True):
        by_set.setdefault(pair.set, []).append(test.difference)
    means = [float(np.mean(some)) for some in by_set.values()]
    return {
        "difference": round(float(np.mean([test.difference for test in tests])), 4),
        "sets": len(means),
        "p over sets": round(paired_test(np.zeros(len(means)), means).p_value, 4),
        **_significant(tests),
    }


@cache
def _test(pair: Pair, name: str, *, few: bool) -> PairedTest:
    values = pair.few if few else pair.values
    return paired_test(values["min-max .5"], values[name])


def _significant(tests: Sequence[PairedTest]) -> dict[str, int]:
    sure = [test.difference for test in tests if test.p_value < SIGNIFICANT]
    return {"worse": sum(one < 0 for one in sure), "better": sum(one > 0 for one in sure)}


def report(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tables as Markdown."""
    groups = result["groups"]
    heads = " | ".join(f"{name} ({pairs})" for name, pairs in groups.items())
    yield f"| nDCG@10, worse / better than the better arm | {heads} |"
    yield "|---" * (1 + len(groups)) + "|"
    for name, cells in result["fusions"].items():
        shown = [f"{short(cell['ndcg@10'])}, {cell['worse']} / {cell['better']}" for cell in cells.values()]
        yield f"| {name} | {' | '.join(shown)} |"
    for title in ("against the former default", "with 20 candidates"):
        yield from ("", f"| {title} | {' | '.join(next(iter(result[title].values())))} |", "|---|---|---|---|")
        for name, cells in result[title].items():
            shown = [
                f"{cell['difference']:+.4f}, p {short_p(cell['p over sets'])}, {cell['worse']} / {cell['better']}"
                for cell in cells.values()
            ]
            yield f"| {name} | {' | '.join(shown)} |"
    yield from ("", f"Chosen: {result['chosen']}", *(f"{half}: {', '.join(s)}" for half, s in result["sets"].items()))


if __name__ == "__main__":
    main()

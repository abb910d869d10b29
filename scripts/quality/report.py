"""The tables: measures by system and set, and the default against the best peer, query by query."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from compact import in_lines
from numpy.typing import NDArray

from quality.ours import CHOICES, DEFAULT
from rag_bm25.evaluation import paired_test

Values: TypeAlias = "NDArray[np.float64]"

SAMPLES = 10_000
LEAST_P = 0.001


@dataclass
class Column:
    """What was measured on a set: of each system, a value for each query by measure."""

    name: str
    language: str
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # system -> measure -> by query

    def of(self, system: str, measure: str) -> Values:
        return np.array(self.values[system][measure])

    def best_peer(self) -> str | None:
        """Return the peer with the highest mean nDCG@10, of those that got every query."""
        size = len(self.of(DEFAULT, "ndcg@10"))
        whole = [name for name in self.values if name not in CHOICES and len(self.of(name, "ndcg@10")) == size]
        return max(whole, key=lambda name: float(self.of(name, "ndcg@10").mean()), default=None)


def put(file: Path, measured: Sequence[Mapping[str, Any]]) -> None:
    """Write what was measured into a file of JSON, in place of what has the same names; the rest stays."""
    names = {one["name"] for one in measured}
    kept = [one for one in json.loads(file.read_text("utf-8")) if one["name"] not in names] if file.exists() else []
    file.write_text(in_lines([*kept, *measured], 3), encoding="utf-8")  # a line for each system of a set


def interval(differences: Values, *, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % interval of a mean by the bootstrap over queries."""
    rng = np.random.default_rng(seed)
    means = [rng.choice(differences, len(differences)).mean() for _ in range(SAMPLES)]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def section(columns: list[Column]) -> str:
    """Return all tables as Markdown."""
    stars = "A star: p < .05 against the default, by a paired randomisation test over the queries."
    best = "The default against the peer that is best on the set, chosen after the fact, with the 95 % interval of the"
    parts = {
        f"nDCG@10. {stars}": table(columns, "ndcg@10"),
        f"{best} mean difference (bootstrap over the queries).": against_peers(columns),
        "Recall of the first 100.": table(columns, "recall@100"),
    }
    return "\n\n".join("\n\n".join((text, "\n".join(rows))) for text, rows in parts.items())


def table(columns: list[Column], measure: str) -> Iterator[str]:
    """Yield a row for each system, with the means over the sets of a language."""
    groups = ("English", "Chinese")
    yield f"| | {' | '.join(column.name for column in columns)} | {' | '.join(groups)} |"
    yield "|---" * (1 + len(columns) + len(groups)) + "|"
    systems = [name for name in (*CHOICES, *columns[0].values) if all(name in column.values for column in columns)]
    for system in dict.fromkeys(systems):
        cells = [_cell(column, system, measure) for column in columns]
        for language in groups:
            means = [column.of(system, measure).mean() for column in columns if column.language == language]
            cells.append(short(np.mean(means)) if means else "")
        yield f"| {system} | {' | '.join(cells)} |"


def _cell(column: Column, system: str, measure: str) -> str:
    values, default = column.of(system, measure), column.of(DEFAULT, measure)
    differs = len(values) == len(default) and paired_test(default, values).p_value < 0.05
    return short(values.mean()) + "*" * differs


def short(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def short_p(value: float) -> str:
    return short(value) if value >= LEAST_P else "< .001"


def against_peers(columns: list[Column]) -> Iterator[str]:
    """Yield a row for each set: the best peer, and the difference to it."""
    yield "| set | queries | best peer | it | the default | difference | better / worse | p |"
    yield "|---|---|---|---|---|---|---|---|"
    for column in columns:
        best = column.best_peer()
        if best is None:
            continue
        theirs, ours = column.of(best, "ndcg@10"), column.of(DEFAULT, "ndcg@10")
        test, (low, high) = paired_test(theirs, ours), interval(ours - theirs)
        p_value = short_p(test.p_value)
        yield (
            f"| {column.name} | {len(ours):,} | {best} | {short(theirs.mean())} | {short(ours.mean())} | "
            f"{test.difference:+.4f} ({low:+.4f} to {high:+.4f}) | {test.better} / {test.worse} | {p_value} |"
        )

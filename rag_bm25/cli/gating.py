"""A gate for judged queries: a run that is worse than another, or too bad, ends with exit code 1."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_bm25.analysis.contract import list_differences
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import print_error, print_note, show
from rag_bm25.cli.rendering import render_changes
from rag_bm25.errors import InputError
from rag_bm25.evaluation import BeirDataset
from rag_bm25.evaluation.baseline import Baseline
from rag_bm25.evaluation.changes import ALPHA, Changes, compare
from rag_bm25.evaluation.measures import MEASURES
from rag_bm25.index.arguments import list_first

FEWEST_QUERIES = 6
"""With fewer, no fall is significant, even if every query is worse."""


def require_folder(file: Path | None) -> None:
    """Refuse a file that cannot be written, before the work."""
    if file is not None and not file.parent.is_dir():
        raise InputError(f"there is no folder {file.parent} to put {file.name} in")


@dataclass(frozen=True)
class Outcome:
    """What a run is compared with, and what is wrong with it."""

    changes: Changes | None = None
    settings: list[str] = field(default_factory=list)  # that differ
    failures: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return it in JSON values, nothing where nothing was asked for."""
        compared = {} if self.changes is None else {"changes": {"settings": self.settings, **asdict(self.changes)}}
        return {**compared, **({"failures": self.failures} if self.failures else {})}

    def tell(self, *, as_json: bool) -> bool:
        """Print the comparison for people, and what is wrong; return whether nothing is."""
        if self.changes is not None and not as_json:
            self._show(self.changes)
        for failure in self.failures:
            print_error(failure)
        return not self.failures

    def _show(self, changes: Changes) -> None:
        show("", *render_changes(changes))
        if self.settings:
            show(f"other settings: {list_first(self.settings)}")
        if changes.num_queries < FEWEST_QUERIES:
            print_note(f"no fall of fewer than {FEWEST_QUERIES} queries is significant")


def compare_runs(before: Baseline, after: Baseline, name: str) -> Outcome:
    """Compare two runs; `name` says in messages what the earlier one is."""
    changes = compare(before, after)
    failures = [
        f"{measure} is significantly worse than {name}: {one.before:.4f} -> {one.after:.4f}, "
        f"p = {one.test.p_value:.4f} < {ALPHA}"
        for measure, one in changes.measures.items()
        if one.is_worse
    ]
    return Outcome(changes, list_differences(before.settings, after.settings, after.settings), failures)


@dataclass(frozen=True)
class GateOptions:
    """The options of a gate."""

    save: Annotated[
        Path | None,
        opt.option(
            "Write a baseline for later runs: measures, first hits and weights of each query. A run that fails is not "
            "saved.",
            metavar="FILE",
        ),
    ] = None
    baseline: Annotated[
        Path | None,
        opt.option(
            f"Compare with a file of --save, query by query, with reasons; exit code 1 if a measure is worse, p < "
            f"{ALPHA}.",
            metavar="FILE",
        ),
    ] = None
    minimum: Annotated[
        list[str] | None,
        opt.option("Exit code 1 if a measure is lower; may be repeated.", "--min", metavar="MEASURE=VALUE"),
    ] = None

    @property
    def records(self) -> bool:
        """Whether runs are saved or compared."""
        return self.save is not None or self.baseline is not None

    def bounds(self) -> dict[str, float]:
        """Return the minimum of each measure."""
        return dict(map(_parse_bound, self.minimum or ()))

    def read(self, dataset: BeirDataset) -> Baseline | None:
        """Read the baseline, which must be of the same set."""
        if self.baseline is None:
            return None
        baseline = Baseline.read(self.baseline)
        baseline.require_same_set(self.baseline, dataset)
        return baseline

    def measures(self, given: Iterable[str], bounds: Mapping[str, float], earlier: Baseline | None) -> list[str]:
        """Return the further measures: those that are given or have bounds, and those of the baseline."""
        kept = [] if earlier is None else earlier.measures
        if earlier is not None and (missing := [name for name in given if name not in kept]):
            raise InputError(f"{self.baseline} does not have {missing[0]}: save a new one with --measure {missing[0]}")
        return [name for name in dict.fromkeys((*given, *bounds, *kept)) if name not in MEASURES]

    def judge(
        self, record: Baseline, earlier: Baseline | None, bounds: Mapping[str, float], means: Mapping[str, float]
    ) -> Outcome:
        """Compare a run with the baseline and the bounds, and save it if nothing is wrong."""
        outcome = Outcome() if earlier is None else compare_runs(earlier, record, f"in {self.baseline}")
        low = [name for name, bound in bounds.items() if means[name] < bound]
        outcome.failures.extend(f"{name} is {means[name]:.6g}, below the minimum of {bounds[name]:g}" for name in low)
        if self.save is not None and not outcome.failures:
            record.write(self.save)
        return outcome


def _parse_bound(text: str) -> tuple[str, float]:
    """Read ``measure=value``; the names of the usual measures may have capitals."""
    name, _, value = (part.strip() for part in text.rpartition("="))
    try:
        bound = float(value)
    except ValueError:
        bound = float("nan")
    if not (name and isfinite(bound)):
        msg = f"must be MEASURE=VALUE, such as ndcg@10=0.8, got {text!r}"
        raise typer.BadParameter(msg, param_hint="--min")
    return name.lower() if name.lower() in MEASURES else name, bound

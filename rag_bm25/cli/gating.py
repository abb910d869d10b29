"""A gate for judged queries: what is worse than another run, or too bad, ends with exit code 1."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import isfinite, nan
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_bm25 import evaluation
from rag_bm25.analysis.contract import list_differences
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import print_error, print_note, show
from rag_bm25.cli.judgements import note_missing
from rag_bm25.cli.rendering import render_changes
from rag_bm25.cli.settings import as_usage
from rag_bm25.definitions import once
from rag_bm25.errors import InputError
from rag_bm25.evaluation import BeirDataset
from rag_bm25.evaluation.baseline import Baseline, RunRecorder
from rag_bm25.evaluation.changes import ALPHA, Changes, compare
from rag_bm25.evaluation.measures import MEASURES, highest
from rag_bm25.evaluation.running import Search
from rag_bm25.index import dry_run
from rag_bm25.index.arguments import list_first
from rag_bm25.index.index import BM25Index

FEWEST_QUERIES = 6
"""With fewer, no fall is significant, even if every query is worse."""


@dataclass
class Outcome:
    """How a run compares with an earlier one, and what is wrong with it."""

    dry_run: bool = False
    changes: Changes | None = None
    settings: list[str] = field(default_factory=list)  # that differ
    failures: list[str] = field(default_factory=list)

    def compare(self, before: Baseline, after: Baseline, name: str) -> None:
        """Compare two runs; `name` is that of the earlier one in messages."""
        self.changes = compare(before, after)
        self.settings = list_differences(before.settings, after.settings, after.settings)
        self.failures = [
            f"{measure} is significantly worse than {name}: {one.before:.4f} -> {one.after:.4f}, "
            f"p = {one.test.p_value:.4f} < {ALPHA}"
            for measure, one in self.changes.measures.items()
            if one.is_worse
        ]
        if not self.failures and not after.finds_judged:
            when = " any more" if before.finds_judged else ", before or after"
            rule = "chunks or their documents must have the ids of the judgements"
            self.failures = [f"no hit of any query is judged relevant{when}: {rule}"]

    def to_dict(self) -> dict[str, Any]:
        """Return it in JSON values, nothing where nothing was asked for."""
        compared = {} if self.changes is None else {"changes": {"settings": self.settings, **asdict(self.changes)}}
        rest = {"dry_run": self.dry_run, "failures": self.failures}
        return {**compared, **{name: value for name, value in rest.items() if value}}

    def tell(self, *, as_json: bool) -> bool:
        """Print the comparison for people, and what is wrong; return whether nothing is."""
        if self.dry_run and not as_json:
            print_note("dry run: nothing was written")
        if self.changes is not None and not as_json:
            show("", *render_changes(self.changes))
            if self.settings:
                show(f"other settings: {list_first(self.settings)}")
            if self.changes.num_queries < FEWEST_QUERIES:
                print_note(f"no fall of fewer than {FEWEST_QUERIES} queries is significant")
        for failure in self.failures:
            print_error(failure)
        return not self.failures


@dataclass(frozen=True)
class Bounds:
    """What measures must be at least."""

    minimum: Annotated[
        list[str] | None,
        opt.option("Exit code 1 if a measure is lower; may be repeated.", "--min", metavar="MEASURE=VALUE"),
    ] = None

    @cached_property
    def bounds(self) -> dict[str, float]:
        """The minimum of each measure."""
        with as_usage("--min"):
            return once(map(_parse_bound, self.minimum or ()))

    def list_low(self, means: Mapping[str, float]) -> list[str]:
        """Say which measures are too low."""
        low = {name: bound for name, bound in self.bounds.items() if means[name] < bound}
        return [f"{name} is {means[name]:.6g}, below the minimum of {low[name]:g}" for name in low]


@dataclass(frozen=True)
class GateOptions(Bounds):
    """The options of a gate."""

    save: Annotated[
        Path | None,
        opt.option("Write what later runs are compared with; nothing if this run fails.", metavar="FILE"),
    ] = None
    baseline: Annotated[
        Path | None,
        opt.option(
            f"Compare with a file of --save, query by query; exit code 1 if a measure is worse, p < {ALPHA}.",
            metavar="FILE",
        ),
    ] = None

    def read(self, dataset: BeirDataset) -> Baseline | None:
        """Read the baseline, which must be of the same set."""
        if self.baseline is None:
            return None
        earlier = Baseline.read(self.baseline)
        earlier.require_same_set(self.baseline, dataset)
        return earlier

    def measures(self, given: Iterable[str], earlier: Baseline | None) -> list[str]:
        """Return the further measures: those that are given, those that have bounds, and those of the baseline."""
        kept = [] if earlier is None else earlier.measures
        if earlier is not None and (missing := [name for name in given if name not in kept]):
            raise InputError(f"{self.baseline} does not have {missing[0]}: save a new one with --measure {missing[0]}")
        return [name for name in dict.fromkeys((*given, *self.bounds, *kept)) if name not in MEASURES]

    def judge(self, record: Baseline, earlier: Baseline | None, means: Mapping[str, float]) -> Outcome:
        """Compare a run with the baseline and the bounds, and save it if nothing is wrong."""
        outcome = Outcome()
        if earlier is not None:
            outcome.compare(earlier, record, f"in {self.baseline}")
        outcome.failures += self.list_low(means)
        if self.save is not None and outcome.failures:
            outcome.failures.append(f"{self.save} was not written, since a run that fails is not saved")
        elif self.save is not None:
            record.write(self.save)
        return outcome


def _parse_bound(text: str) -> tuple[str, float]:
    """Read ``measure=value``; the names of the usual measures may have capitals."""
    name, _, value = (part.strip() for part in text.rpartition("="))
    try:
        bound = float(value)
    except ValueError:
        bound = nan
    if not (name and isfinite(bound)):
        msg = f"must be MEASURE=VALUE, such as ndcg@10=0.8, got {text!r}"
        raise typer.BadParameter(msg, param_hint="--min")
    if bound > highest(name):
        raise typer.BadParameter(f"{name} is {highest(name):g} at most, got {text!r}", param_hint="--min")
    return name.lower() if name.lower() in MEASURES else name, bound


@dataclass(frozen=True)
class RehearsalOptions(Bounds):
    """The options of an ingestion that writes nothing."""

    dry_run: Annotated[bool, opt.option("Show what would be written, and write nothing.", "--dry-run")] = False
    judged: Annotated[
        Path | None,
        opt.option(
            "With --dry-run: show which queries of a judged set would get other hits, and why. It needs no corpus.",
            metavar="DIR",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.judged is not None and not self.dry_run:
            raise typer.BadParameter("it compares what would be written: add --dry-run", param_hint="--judged")
        if self.bounds and self.judged is None:
            raise typer.BadParameter("it is of judged queries: add --judged", param_hint="--min")

    @contextmanager
    def target(self, index: BM25Index, namespace: str, search: Search, outcome: Outcome) -> Iterator[BM25Index]:
        """Yield the index to write to; after a dry run, compare what judged queries give with before."""
        if not self.dry_run:
            yield index
            return
        dataset = None if self.judged is None else evaluation.load_beir(self.judged, corpus=False)
        with dry_run(index) as trial:
            if dataset is None:
                yield trial
                return
            before, _ = self._record(trial, RunRecorder(dataset, namespace, {}), search)
            yield trial
            after, means = self._record(trial, RunRecorder(dataset, namespace, {}, earlier=before.queries), search)
            note_missing(trial, dataset, namespace)
            outcome.compare(before, after, "before")
            outcome.failures += self.list_low(means)

    def _record(self, index: BM25Index, recorder: RunRecorder, search: Search) -> tuple[Baseline, dict[str, float]]:
        """Return what the queries give, and the means of the measures."""
        how: dict[str, Any] = {"measures": self.bounds, "search": search, "inspect": recorder.record}
        result = evaluation.evaluate(index, recorder.dataset, **how)
        return Baseline.of(recorder.dataset, {}, recorder.queries), result.measures.to_dict()

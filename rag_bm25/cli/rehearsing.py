"""A rehearsal of ``rag-bm25 ingest``: nothing is written, and judged queries show what would change."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_bm25 import evaluation
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import print_note
from rag_bm25.cli.embedding import DenseSearch, Model
from rag_bm25.cli.evaluating import search_judged
from rag_bm25.cli.gating import Outcome, compare_runs
from rag_bm25.evaluation import BeirDataset
from rag_bm25.evaluation.baseline import Baseline, RecordedQuery, Recorder
from rag_bm25.index import dry_run
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.index import BM25Index


@dataclass(frozen=True)
class RehearsalOptions:
    """The options of a rehearsal."""

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

    def load(self, model: Model | None, namespace: str) -> "Rehearsal":
        """Read the judged set, if there is one."""
        dataset = None if self.judged is None else evaluation.load_beir(self.judged, corpus=False)
        return Rehearsal(self.dry_run, dataset, model, namespace)


@dataclass
class Rehearsal:
    """An ingestion that writes nothing if it is a dry run, and compares what judged queries would give."""

    dry_run: bool
    dataset: BeirDataset | None
    model: Model | None
    namespace: str
    outcome: Outcome = field(default_factory=Outcome)

    def open(self, place: opt.IndexAddress, *, config: IndexConfig | None = None, **options: Any) -> BM25Index:
        """Open an index that is written to; in a dry run one that is read, and a new one in memory."""
        if not self.dry_run:
            return place.open(config=config, **options)
        if config is not None:
            return BM25Index.open(":memory:", place.collection, config=config)
        return place.open(read_only=True, consistency="Strong", **options)

    @contextmanager
    def target(self, index: BM25Index) -> Iterator[BM25Index]:
        """Yield the index to write to."""
        if not self.dry_run:
            yield index
            return
        before = self._record(index, {})
        with dry_run(index) as trial:
            yield trial
            if before is not None and (after := self._record(trial, before.queries)):
                self.outcome = compare_runs(before, after, "before")

    def _record(self, index: BM25Index, earlier: Mapping[str, RecordedQuery]) -> Baseline | None:
        """Record what the judged queries give."""
        if self.dataset is None:
            return None
        recorder = Recorder(self.dataset, self.namespace, {}, earlier=earlier)
        search = partial(search_judged, DenseSearch(), self.model, {"namespace": self.namespace})
        evaluation.evaluate(index, self.dataset, search=search, inspect=recorder.record)
        return Baseline.of(self.dataset, {}, recorder.queries)

    def to_dict(self) -> dict[str, Any]:
        """Return the result in JSON values, nothing where something is written."""
        return {"dry_run": True, **self.outcome.to_dict()} if self.dry_run else {}

    def tell(self, *, as_json: bool) -> bool:
        """Print the result; return whether nothing is worse."""
        if self.dry_run and not as_json:
            print_note("dry run: nothing was written")
        return self.outcome.tell(as_json=as_json)

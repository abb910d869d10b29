"""Metrics for Prometheus and spans for OpenTelemetry, both made of events alone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from opentelemetry import trace
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

if TYPE_CHECKING:
    from rag_bm25.events import Event

NANOSECONDS = 1e9
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds


class Observer:
    """Counters, timings and spans of events; an instance is an ``on_event`` of an index.

    Spans go to the tracer that the program has configured; without one, they cost nothing and go nowhere. The parent
    of a span is the span of the thread that the event happens in.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        names = ["event"]
        self._seconds = Histogram(
            "rag_bm25_event_seconds", "Duration of events.", names, registry=self._registry, buckets=BUCKETS
        )
        self._counts = Counter(
            "rag_bm25_event_counts", "Sums of the counts of events.", [*names, "count"], registry=self._registry
        )
        self._tracer = trace.get_tracer("rag_bm25")

    def __call__(self, event: Event) -> None:
        """Count an event, and record its span."""
        self._seconds.labels(event.name).observe(event.seconds)
        for name, count in event.counts.items():
            self._counts.labels(event.name, name).inc(count)
        end = time.time_ns()
        start = end - int(event.seconds * NANOSECONDS)
        self._tracer.start_span(f"rag_bm25 {event.name}", start_time=start, attributes={**event.counts}).end(end)

    def metrics(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return generate_latest(self._registry)

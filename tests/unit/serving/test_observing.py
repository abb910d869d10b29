"""Metrics and spans are made of events; jobs say how far they have come; sockets send at once."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from opentelemetry import trace

from rag_bm25.events import Event, Progress
from rag_bm25.serving.answers import RefusedError
from rag_bm25.serving.jobs import MAX_KEPT, Jobs
from rag_bm25.serving.observing import Observer
from rag_bm25.serving.running import listen
from rag_bm25.serving.settings import Settings


class Span:
    def __init__(self, name: str, start_time: int, attributes: dict[str, int]) -> None:
        self.name, self.start, self.attributes = name, start_time, attributes

    def end(self, end_time: int) -> None:
        self.seconds = (end_time - self.start) / 1e9


class Tracer:
    def __init__(self) -> None:
        self.spans: list[Span] = []

    def start_span(self, name: str, **options: Any) -> Span:
        self.spans.append(Span(name, **options))
        return self.spans[-1]


def test_an_event_is_a_span_that_lasted_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    tracer = Tracer()
    monkeypatch.setattr(trace, "get_tracer", lambda name: {"rag_bm25": tracer}[name])
    Observer()(Event("search", "index", 1.5, {"queries": 1, "hits": 10}))
    (span,) = tracer.spans
    assert (span.name, span.attributes) == ("rag_bm25 search", {"queries": 1, "hits": 10})
    assert span.seconds == pytest.approx(1.5)


def test_events_are_counted_and_timed_by_their_names() -> None:
    observer = Observer()
    for hits, seconds in ((10, 0.5), (5, 0.25)):
        observer(Event("search", "http://user:secret@host", seconds, {"hits": hits}))
    metrics = observer.metrics().decode()
    assert 'rag_bm25_event_seconds_sum{event="search"} 0.75' in metrics
    assert 'rag_bm25_event_seconds_bucket{event="search",le="0.25"} 1.0' in metrics
    assert 'rag_bm25_event_counts_total{count="hits",event="search"} 15.0' in metrics
    assert "secret" not in metrics


def test_jobs_tell_progress_results_and_reasons() -> None:
    jobs = Jobs()
    with jobs.run("ingest") as job:
        job.report(Progress("bytes", 10, 40))
        job.report(Progress("chunks", 3, None))
        (told,) = jobs.to_json()
        assert told["state"] == "running"
        job.result = {"files": 2}
    (told,) = jobs.to_json()
    assert told["progress"] == [
        {"what": "bytes", "done": 10, "total": 40},
        {"what": "chunks", "done": 3, "total": None},
    ]
    assert (told["state"], told["result"]) == ("done", {"files": 2})
    with pytest.raises(OSError, match="secret"), jobs.run("add"):
        raise OSError("secret")
    assert (jobs.to_json()[0]["state"], jobs.to_json()[0]["reason"]) == ("failed", "OSError")


def test_only_the_last_jobs_are_kept() -> None:
    jobs = Jobs()
    for number in range(MAX_KEPT + 5):
        with jobs.run(str(number)):
            pass
    assert [told["kind"] for told in jobs.to_json()] == [str(number) for number in range(MAX_KEPT + 4, 4, -1)]


def test_a_stop_ends_a_long_job_at_its_next_report() -> None:
    jobs = Jobs()

    def work() -> None:
        with jobs.run("ingest") as job:
            job.report(Progress("chunks", 1, None))
            jobs.stop()
            job.report(Progress("chunks", 2, None))

    with pytest.raises(RefusedError, match="stopped"):
        work()
    (told,) = jobs.to_json()
    assert (told["state"], told["progress"][0]["done"]) == ("failed", 1)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_listener_names_tcp_so_that_asyncio_sends_at_once(host: str) -> None:
    with listen(Settings(host, 0)) as listener:
        assert listener.proto == socket.IPPROTO_TCP
        assert listener.getsockname()[1] > 0

"""Messages of searches are those that pymilvus makes, and replies are read as it reads them."""

from __future__ import annotations

import json
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymilvus import DataType, MilvusException
from pymilvus.client.call_context import CallContext
from pymilvus.client.grpc_handler import GrpcHandler
from pymilvus.client.prepare import Prepare
from pymilvus.client.search_result import SearchResult
from pymilvus.grpc_gen import milvus_pb2, schema_pb2
from support.strategies import any_terms, metadatas

from rag_bm25.store.milvus import client
from rag_bm25.store.milvus.messages import search_hits, search_request
from rag_bm25.vectors.sparse import SparseVector

FIELDS = ["pk", "id", "length", "metadata"]
ONE = SparseVector.from_dict({7: 0.5})

weights = st.floats(min_value=0, width=32, allow_infinity=False)
sparse = st.dictionaries(st.integers(0, 2**32 - 2), weights, min_size=1, max_size=5).map(SparseVector.from_dict)
dense = st.lists(st.floats(width=32, allow_nan=False), min_size=3, max_size=3).map(
    lambda row: np.array(row, np.float32)
)
batches = st.lists(sparse, min_size=1, max_size=4) | st.lists(dense, min_size=1, max_size=4)
tuning = st.dictionaries(
    st.sampled_from(["drop_ratio_search", "ignore_growing", "hints", "ef", "radius", "page_retain_order"]), st.none()
).map(
    lambda chosen: {
        name: {
            "drop_ratio_search": 0.25,
            "ignore_growing": True,
            "hints": "iterative_filter",
            "ef": 64,
            "radius": 0.5,
            "page_retain_order": True,
        }[name]
        for name in chosen
    }
)
stamps = st.fixed_dictionaries(
    {
        "use_default_consistency": st.booleans(),
        "consistency_level": st.integers(0, 3),
        "guarantee_timestamp": st.integers(0, 2**63),
    }
)


def read(request: Any) -> tuple[bytes, list[tuple[str, Any]]]:
    """A message without its parameters, and these, whose JSON may be written in several ways."""
    pairs = request.search_params
    read = [(pair.key, json.loads(pair.value) if pair.key == "params" else pair.value) for pair in pairs]
    del pairs[:]
    return request.SerializeToString(deterministic=True), read


def plain(vectors: list[Any]) -> list[Any]:
    return [vector.to_dict() if isinstance(vector, SparseVector) else vector.tolist() for vector in vectors]


class TestRequests:
    @given(batches, st.integers(1, 16_384), any_terms | st.just(""), tuning, stamps)
    def test_searches_are_those_of_pymilvus(
        self, vectors: list[Any], limit: int, clause: str, params: dict[str, Any], stamps: dict[str, Any]
    ) -> None:
        params = {"metric_type": "IP", **params}
        asked = {"anns_field": "sparse", "limit": limit, "output_fields": FIELDS, **stamps}
        ours = search_request("docs", vectors, search_params=params, filter=clause, **asked)
        theirs = Prepare.search_requests_with_expr("docs", data=plain(vectors), param=params, expr=clause, **asked)
        assert read(ours) == read(theirs)


def reply(rows: list[tuple[str, int, dict[str, Any]]], topks: list[int], **changes: Any) -> Any:
    """The reply to a search with all kinds of fields."""
    data = schema_pb2.SearchResultData(
        num_queries=len(topks), topks=topks, scores=[1 / 3 + at for at in range(len(rows))], primary_field_name="pk"
    )
    data.ids.str_id.data.extend(name for name, _, _ in rows)
    for field in ("pk", "id"):
        column = data.fields_data.add(field_name=field, type=DataType.VARCHAR)
        column.scalars.string_data.data.extend(name for name, _, _ in rows)
    column = data.fields_data.add(field_name="length", type=DataType.INT64)
    column.scalars.long_data.data.extend(number for _, number, _ in rows)
    column = data.fields_data.add(field_name="metadata", type=DataType.JSON, **changes)
    column.scalars.json_data.data.extend(json.dumps(value).encode() for _, _, value in rows)
    return data


ROWS: list[tuple[str, int, dict[str, Any]]] = [("a", 1, {"x": [1.5, None]}), ("b", 2, {})]
found_rows = st.lists(st.tuples(any_terms, st.integers(-(2**63), 2**63 - 1), metadatas), max_size=6)


class TestHits:
    @given(found_rows, st.integers(0, 6), st.integers(0, 3))
    def test_are_those_of_pymilvus(self, rows: Any, first: int, empty: int) -> None:
        first = min(first, len(rows))
        data = reply(rows, [first, *[0] * empty, len(rows) - first])
        theirs = [[{name: hit[name] for name in ("distance", "entity")} for hit in hits] for hits in SearchResult(data)]
        assert search_hits(data) == theirs

    def test_of_no_query_and_without_fields(self) -> None:
        assert search_hits(schema_pb2.SearchResultData()) == []
        data = schema_pb2.SearchResultData(topks=[1], scores=[2.0])
        assert search_hits(data) == [[{"distance": 2.0, "entity": {}}]]

    def test_flags_of_values_that_are_all_there_change_nothing(self) -> None:
        assert search_hits(reply(ROWS, [2], valid_data=[True, True])) == search_hits(reply(ROWS, [2]))

    @pytest.mark.parametrize("changes", [{"valid_data": [True, False]}, {"is_dynamic": True}])
    def test_nulls_and_dynamic_fields_are_left_to_pymilvus(self, changes: dict[str, Any]) -> None:
        assert search_hits(reply(ROWS, [2], **changes)) is None

    def test_other_types_and_short_columns_are_left_to_pymilvus(self) -> None:
        other = reply(ROWS, [2])
        other.fields_data[2].type = DataType.INT32
        short = reply(ROWS, [2])
        short.fields_data[1].scalars.string_data.data.pop()
        assert (search_hits(other), search_hits(short)) == (None, None)


def connection(answer: Any) -> Any:
    """A connection whose server always gives the same answer."""
    return SimpleNamespace(_stub=SimpleNamespace(Search=lambda *_, **__: answer), server_address="")


def sent(answer: Any) -> Any:
    request = partial(search_request, "docs", [ONE], anns_field="sparse", search_params={"metric_type": "IP"}, limit=2)
    return client._sender()(connection(answer), "docs", request, context=CallContext(), retry_times=0)


class TestSending:
    def test_this_pymilvus_has_what_it_takes(self) -> None:
        assert client._sender() is not None

    def test_connections_have_what_is_used_of_them(self) -> None:
        handler = GrpcHandler(uri="http://127.0.0.1:1")
        assert hasattr(handler, "_stub")
        assert handler.server_address == "127.0.0.1:1"
        handler.close()

    @pytest.mark.parametrize(
        "name",
        [
            "client.search_result.SearchResult",
            "client.ts_utils.construct_guarantee_ts",
            "client.utils.check_status",
            "client.call_context.CallContext",
            "decorators.retry_on_rpc_failure",
            "grpc_gen.milvus_pb2.SearchRequest",
        ],
    )
    def test_one_that_lacks_a_part_is_noticed(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(f"pymilvus.{name}")
        assert client._sender.__wrapped__() is None

    def test_one_that_sends_otherwise_is_noticed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(client, "search_request", lambda *_, **__: SimpleNamespace(nq=0))
        assert client._sender.__wrapped__() is None

    def test_hits_are_read(self) -> None:
        hits = sent(milvus_pb2.SearchResults(results=reply(ROWS, [2])))
        assert hits[0][1] == {
            "distance": pytest.approx(4 / 3),
            "entity": {"pk": "b", "id": "b", "length": 2, "metadata": {}},
        }

    def test_a_reply_with_nulls_is_read_by_pymilvus(self) -> None:
        (hits,) = sent(milvus_pb2.SearchResults(results=reply(ROWS, [2], valid_data=[False, True])))
        assert [hit["entity"]["metadata"] for hit in hits] == [None, {}]

    def test_an_error_is_that_of_pymilvus(self) -> None:
        answer = milvus_pb2.SearchResults()
        answer.status.code, answer.status.reason = 1100, "no such thing"
        with pytest.raises(MilvusException, match="no such thing") as caught:
            sent(answer)
        assert caught.value.code == 1100


class Recorder:
    """Stands for pymilvus's client."""

    def search(self, *args: Any, **kwargs: Any) -> Any:
        return args, kwargs


class TestOtherVersions:
    @pytest.fixture(autouse=True)
    def nothing_can_be_sent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(client, "_sender", lambda: None)
        monkeypatch.setattr(client._MilvusClient, "search", Recorder.search)

    def test_search_in_their_own_way(self) -> None:
        ours = client.Client.__new__(client.Client)
        row = np.ones(3, np.float32)
        args, kwargs = ours.search("docs", [ONE, row], limit=3, timeout=2.0, consistency_level="Session")
        assert args[0] == "docs"
        assert args[1][0] == {7: 0.5}
        assert args[1][1] is row
        assert kwargs == {"limit": 3, "timeout": 2.0, "consistency_level": "Session", "retry_times": None}

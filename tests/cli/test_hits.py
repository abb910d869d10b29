"""``rag-bm25 search`` with groups, boosts and contexts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from rag_bm25.hits.boosts import Boost

from support.command_line import run, run_json

from rag_bm25 import BM25Index, Decay, IndexConfig, ValueBoost

pytestmark = pytest.mark.usefixtures("databases")

LONG = "合同的第{0}条：双方应当在{0}个月之内通知对方，否则合同自动延长一年。\n\n"


@pytest.fixture
def handbook(tmp_path: Path) -> Path:
    """An ingested folder with a document of several chunks, and rows with dates."""
    folder = tmp_path / "handbook"
    folder.mkdir()
    (folder / "contract.md").write_text("".join(LONG.format(number) for number in range(1, 9)), encoding="utf-8")
    (folder / "note.md").write_text("合同范本", encoding="utf-8")
    rows = [
        {"id": "old", "text": "合同通知", "metadata": {"date": "2001-01-01", "kind": "law"}},
        {"id": "new", "text": "合同通知", "metadata": {"date": "2026-01-01", "kind": "draft"}},
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("ingest", folder, "--chunk-size", 80).exit_code == 0
    return folder


def test_groups(handbook: Path) -> None:
    plain = [hit["metadata"]["source"] for hit in run_json("search", "合同 通知", "-k", 5)]
    assert len(set(plain)) < len(plain)
    grouped = run_json("search", "合同 通知", "-k", 5, "--group-by", "source")
    sources = [hit["metadata"]["source"] for hit in grouped]
    assert sorted(sources) == ["handbook/contract.md", "handbook/note.md", "handbook/rows.jsonl"]
    assert all(hit["group_score"] == hit["score"] for hit in grouped)
    summed = run_json("search", "合同 通知", "--group-by", "source", "--group-score", "sum", "--group-size", 2)
    assert summed[0]["group_score"] > summed[0]["score"]


def test_keys_that_no_hit_has_are_noted(handbook: Path) -> None:
    search = ("search", "合同通知", "--filter", '{"kind": {"$in": ["law", "draft"]}}')
    misspelt = run(*search, "--group-by", "sorce", "--boost", "knd=law:2", "--recency", "date:30")
    assert misspelt.stderr == "no hit has knd, sorce in its metadata; the keys are chunk, date, kind, source\n"
    assert run(*search, "--group-by", "source", "--boost", "kind=law:2").stderr == ""
    with BM25Index.open("./rag_bm25.db", "bare", config=IndexConfig(chunk_size=80)) as index:
        index.add(["合同通知"])
    bare = run("search", "合同", "--collection", "bare", "--group-by", "source")
    assert bare.stderr == "no hit has source in its metadata; no hit has any\n"


def test_a_context_is_printed_whole(handbook: Path) -> None:
    whole = (handbook / "contract.md").read_text(encoding="utf-8").strip()
    (hit,) = run_json("search", "第5条", "-k", 1, "--expand", "document")
    assert hit["context"]["text"] == whole
    printed = run("search", "第5条", "-k", 1, "--expand", "neighbors").stdout
    assert "第5条" in printed
    (near,) = run_json("search", "第5条", "-k", 1, "--expand", "neighbors")
    assert near["context"]["text"] in whole
    assert len(near["context"]["chunks"]) == 3


def test_boosts_change_the_order_and_are_explained(handbook: Path) -> None:
    recent = run_json(
        "search", "合同通知", "-k", 2, "--recency", "date:365", "--filter", '{"kind": {"$in": ["law", "draft"]}}'
    )
    assert [hit["id"] for hit in recent] == ["new", "old"]
    law = run_json("search", "合同通知", "-k", 1, "--boost", "kind=law:2", "--boost", "kind=draft:0.5")
    assert law[0]["id"] == "old"
    asked = ("explain", "合同通知", "old", "--boost", "kind=law:2", "--recency", "date:365:gauss")
    assert "boosted score, product of:" in run(*asked, "--tree").stdout
    printed = run(*asked).stdout
    assert "\nboosts: " in printed
    assert "factor of 'kind' = 'law', by its value" in printed
    assert "gauss decay" in printed


ROWS: dict[str, dict[str, Any]] = {
    "a": {"date": "2026-01-31", "price": 100, "votes": 9},
    "b": {"date": "2026-01-01T00:00:00Z", "price": 400, "votes": 0},
    "c": {"date": "2020-01-01", "price": 550},
    "d": {},
}


@pytest.fixture
def offers(tmp_path: Path) -> None:
    """Ingested rows of equal texts with dates and numbers."""
    rows = [{"id": id_, "text": "trial offer", "metadata": metadata} for id_, metadata in ROWS.items()]
    (tmp_path / "offers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("ingest", tmp_path / "offers.jsonl", "--chunk-size", 80).exit_code == 0


BOOSTS = [
    (["--recency", "date:30:gauss,origin=2026-01-31T12:00:00Z"], [Decay("date", 30, "2026-01-31T12:00:00Z", "gauss")]),
    (
        ["--recency", "date:30,origin=2026-01-31,offset=7,floor=0.2"],
        [Decay("date", 30, "2026-01-31", offset=7, floor=0.2)],
    ),
    (
        ["--decay", "price:100:linear,origin=-10.5,decay=0.3,missing=0"],
        [Decay("price", 100, -10.5, "linear", decay=0.3, missing=0)],
    ),
    (
        ["--boost", "price=400:2", "--decay", "price:100,origin=500"],
        [Decay("price", 100, 500), ValueBoost("price", {400: 2})],
    ),
]


@pytest.mark.parametrize(("arguments", "boosts"), BOOSTS, ids=str)
def test_boosts_are_those_of_python(offers: None, arguments: list[str], boosts: list[Boost]) -> None:
    with BM25Index.open("./rag_bm25.db", "docs", read_only=True) as index:
        expected = [(hit.id, hit.score) for hit in index.search("trial", boosts=boosts)]
        unboosted = [(hit.id, hit.score) for hit in index.search("trial")]
        explained = index.explain("trial", "a", boosts=boosts)
    assert [(hit["id"], hit["score"]) for hit in run_json("search", "trial", *arguments)] == expected != unboosted
    assert run_json("explain", "trial", "a", *arguments) == explained.to_dict()


def test_a_key_may_have_signs_of_the_notation(offers: None) -> None:
    for key in ("a:b", "a,b", "a=b"):
        assert f"no hit has {key} in its metadata" in run("search", "trial", "--recency", f"{key}:30:gauss").stderr
    assert "no hit has stars in its metadata" in run("search", "trial", "--boost", "stars=3:2").stderr


def test_explanations_show_the_group_and_the_place_of_a_hit(handbook: Path) -> None:
    (hit,) = run_json("search", "合同通知", "-k", 1, "--group-by", "kind", "--explain")
    place = hit["explanation"]["placement"]
    assert (place["rank"], place["k"], place["group_by"]) == (1, 1, "kind")
    assert place["group"] == hit["metadata"]["kind"]
    assert place["group_score"] == hit["group_score"]
    printed = run("explain", "合同通知", hit["id"], "-k", 1, "--group-by", "kind").stdout
    assert f"grouped by 'kind': group {place['group']!r}, of score" in printed
    assert "\nplace: hit 1, with k = 1\n" in printed


def test_near_duplicates_are_left_out(handbook: Path) -> None:
    found = {hit["id"] for hit in run_json("search", "合同通知", "-k", 20, "--near-duplicates", 0.99)}
    assert len(found & {"old", "new"}) == 1


DECAY = "Invalid value for --recency / --decay:"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recency", "date"], f"{DECAY} must be KEY:SCALE[:SHAPE][,NAME=VALUE,...], got 'date'"),
        (["--recency", "date:1.2.3"], f"{DECAY} '1.2.3' is not a number"),
        (
            ["--recency", "date:9,scale=3"],
            f"{DECAY} a parameter must be one of origin, offset, decay, floor, missing, got 'scale'",
        ),
        (["--recency", "date:9,offset=far"], f"{DECAY} offset of Decay must be a finite number >= 0, got 'far'"),
        (["--boost", "kind:2"], "Invalid value for --boost: must be KEY=VALUE:FACTOR, got 'kind:2'"),
        (["--near-duplicates", "2"], "Invalid value for --near-duplicates: near_duplicates must be a number in (0, 1]"),
        (["--group-size", "2"], "Invalid value for --group-by: group_size and group_score need group_by"),
    ],
)
def test_wrong_options_are_wrong_usage(handbook: Path, arguments: list[str], message: str) -> None:
    result = run("search", "合同", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_conditions_and_terms(handbook: Path) -> None:
    assert run_json("search", "合同", "--phrase", "合同范本")[0]["text"] == "合同范本"
    assert len(run_json("search", "合同", "--must", "范本", "--statistics", '{"kind": "law"}')) == 1
    assert run_json("search", "合同范本", "--phrase", "合同通知", "--must-not", "合同") == []
    assert [hit["text"] for hit in run_json("search", "合同 -通知", "--syntax")] == ["合同范本"]
    assert run_json("search", "合同", "--phrase", "合同条") == []
    assert len(run_json("search", "合同", "--phrase", "合同条", "--slop", 3, "-k", 20)) == 4, "two articles a chunk"
    listed = run_json("terms", "合同", "--filter", '{"kind": "law"}')
    assert [(term["term"], term["df"], term["num_chunks"]) for term in listed] == [("合同", 1, 1)]
    assert run("terms", "合同", "--filter", '{"kind": "law"}').stdout.startswith("合同  df 1 of 1  IDF ")


def test_a_boost_of_a_number_is_one_of_its_spelling(handbook: Path) -> None:
    (handbook / "rows.csv").write_text("key,body,year\na,notice period,2024\nb,notice period today,2023\n", "utf-8")
    rows = ["--text-field", "body", "--id-field", "key"]
    assert run("ingest", handbook / "rows.csv", "--collection", "rows", *rows).exit_code == 0
    search = ["search", "notice", "--collection", "rows"]
    assert [hit["id"].split("#")[0] for hit in run_json(*search)] == ["a", "b"]
    assert [hit["id"].split("#")[0] for hit in run_json(*search, "--boost", "year=2023:5")] == ["b", "a"]

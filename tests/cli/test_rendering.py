"""What people see on a terminal."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len
from rich.console import Console

from rag_bm25 import Hit, IndexConfig
from rag_bm25.cli import console
from rag_bm25.cli.rendering import Highlighter, count, make_highlighter, render_hit

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIG = IndexConfig(chunk_size=500)


def marked(query: str, text: str) -> list[str]:
    return [text[start:end] for start, end in make_highlighter(query, CONFIG)(text)]


@pytest.mark.parametrize(
    ("query", "text", "words"),
    [
        ("sparse vectors", "Sparse VECTOR spaces, a vector's sparsity", ["Sparse", "VECTOR", "vector's"]),
        ("寵物", "小型宠物和寵物店", ["宠物", "寵物"]),
        ("劳动合同", "解除劳动合同的", ["劳动合同", "劳动", "合同", "动合"]),
        ("E-42", "显示 E-42，不是 F-43", ["E-42"]),
        ("v2.5.1", "fixed in v2.5.1.", ["v2.5.1"]),
        ("unheard of", "nothing to see", []),
        ("", "text", []),
    ],
)
def test_the_terms_of_a_query_are_found_in_every_form(query: str, text: str, words: list[str]) -> None:
    assert sorted(set(marked(query, text))) == sorted(words)


def rendered(hit: Hit, mark: Highlighter | None = None, width: int = 60) -> list[str]:
    plain = Console(file=io.StringIO(), width=width)
    plain.print(render_hit(1, hit, width, mark))
    return plain.file.getvalue().splitlines()


def test_title_and_source_are_shown_where_the_id_does_not_tell_them() -> None:
    plain = Hit("docs/a.md#0", 1.5, "text", {"source": "docs/a.md", "chunk": 0})
    assert rendered(plain)[0] == " 1  1.5000  docs/a.md#0"
    row = Hit("r1", 1.5, "text", {"source": "rows.jsonl", "title": "A title"})
    assert rendered(row)[0] == " 1  1.5000  r1  A title  rows.jsonl"


def test_a_long_text_is_cut_to_three_lines_around_the_first_term() -> None:
    text = "前" * 500 + "劳动合同" + "后" * 500
    lines = rendered(Hit("r1", 1.5, text), make_highlighter("劳动合同", CONFIG))
    assert len(lines) == 4
    assert lines[1].startswith("    …前")
    assert "劳动合同" in "".join(line.strip() for line in lines[1:])
    assert lines[3].rstrip().endswith("…")
    assert max(map(cell_len, lines)) <= 60


def test_lines_of_a_chunk_are_joined() -> None:
    assert rendered(Hit("r1", 1.5, "one\n\ttwo"))[1].strip() == "one  two"


def test_nouns_follow_their_numbers() -> None:
    assert [count(number, "chunk") for number in (0, 1, 1234)] == ["0 chunks", "1 chunk", "1,234 chunks"]


ESCAPES = "\x1b]0;title\x07\x1b[2J\x9b31m\x7f\x00\b"
DIRECTION = "\u202etxt.exe\u2066"


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("shown", [console.show, console.print_note, console.print_error])
def test_no_text_can_steer_the_terminal(
    shown: Callable[[str], None], terminal: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    shown(f"a{ESCAPES}b{DIRECTION}[bold]c[/bold]")
    printed = "".join(capfd.readouterr())
    visible = re.sub(r"\x1b\[[0-9;]*m", "", printed)  # the colours are ours
    assert [character for character in visible if character < " " or "\x7e" < character < "\xa0"] == ["\n"]
    assert not set("\u202e\u2066") & set(visible)
    assert "␛]0;title␇␛[2J" in visible or "␛]0;title␛[2J" in visible  # rich itself leaves the bell out
    assert "[bold]c[/bold]" in visible


def test_a_hit_cannot_steer_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    hit = Hit(f"id{ESCAPES}", 1.5, f"text{ESCAPES}", {"source": f"s{ESCAPES}", "title": f"t{DIRECTION}"})
    console.show(render_hit(1, hit, 200, None))
    assert not set("\x1b\x07\x9b\x7f\x00\b\u202e") & set(capfd.readouterr().out)


def test_json_has_no_control_characters_and_comes_back(capfd: pytest.CaptureFixture[str]) -> None:
    value = {f"key{ESCAPES}": [f"{ESCAPES}{DIRECTION}", "法律"]}
    console.print_json(value)
    printed = capfd.readouterr().out
    assert not {c for c in printed if (c < " " and c != "\n") or "\x7e" < c < "\xa0" or c in "\u202e\u2066"}
    assert json.loads(printed) == value

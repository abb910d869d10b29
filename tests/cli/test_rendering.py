"""What people see on a terminal."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence

import pytest
from rich.cells import cell_len
from rich.console import Console

from rag_bm25 import Hit, Passage
from rag_bm25.analysis import Analyzer
from rag_bm25.cli import console
from rag_bm25.cli.rendering import count, highlighting_for, render_hit
from rag_bm25.hits.highlights import Highlighter

ANALYZER = Analyzer()


def highlighted(text: str, query: str, width: int = 60) -> Hit:
    """Return a hit of a search for a query, as the command line asks for it."""
    weights = dict.fromkeys(ANALYZER.query(query), 1.0)
    return Hit("r1", 1.5, text, highlights=Highlighter(ANALYZER, weights, highlighting_for(width)).highlight(text))


def rendered(hit: Hit, marks: Sequence[tuple[int, int]] = (), width: int = 60, *, colour: bool = False) -> list[str]:
    plain = Console(file=io.StringIO(), width=width, force_terminal=colour, color_system="standard" if colour else None)
    plain.print(render_hit(1, hit, width, marks))
    return plain.file.getvalue().splitlines()


def marked(lines: Sequence[str]) -> list[str]:
    return re.findall(r"\x1b\[1;33m(.*?)\x1b", "".join(lines))


def test_title_and_source_are_shown_where_the_id_does_not_tell_them() -> None:
    plain = Hit("docs/a.md#0", 1.5, "text", {"source": "docs/a.md", "chunk": 0})
    assert rendered(plain)[0] == " 1  1.5000  docs/a.md#0"
    row = Hit("r1", 1.5, "text", {"source": "rows.jsonl", "title": "A title"})
    assert rendered(row)[0] == " 1  1.5000  r1  A title  rows.jsonl"


def test_a_long_text_is_cut_to_three_lines_around_its_terms() -> None:
    lines = rendered(highlighted("前" * 500 + "劳动合同" + "后" * 500, "劳动合同"))
    assert len(lines) == 4
    assert lines[1].startswith("    …前")
    assert "劳动合同" in "".join(line.strip() for line in lines[1:])
    assert lines[3].rstrip().endswith("…")
    assert max(map(cell_len, lines)) <= 60


def test_the_best_fragments_are_shown_in_text_order() -> None:
    filler = "Nothing is said here about it. " * 10
    text = f"{filler}Rates rise. {filler}Interest rates fall.\nLoans follow. {filler}"
    (_, *lines) = rendered(highlighted(text, "interest rates loans"), width=200)
    assert " ".join(map(str.strip, lines)) == "…Rates rise. … Interest rates fall. Loans follow.…"


def test_the_terms_are_marked_on_a_terminal() -> None:
    assert marked(rendered(highlighted("The interest rates rise.", "rate"), colour=True)) == ["rates"]
    hit = Hit("r1", 1.5, "rates", context=Passage("before rates after", 7, 12, ()))
    assert marked(rendered(hit, [(7, 12)], colour=True)) == ["rates"]
    assert "\x1b" not in "".join(rendered(highlighted("The interest rates rise.", "rate")))


def test_a_short_text_is_shown_whole() -> None:
    assert rendered(highlighted("One. Two. Three.", "two"))[1].strip() == "One. Two. Three."


def test_a_text_without_terms_is_shown_from_its_beginning() -> None:
    assert rendered(highlighted("word " * 100, "other"))[1].startswith("    word word")


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
    console.show(render_hit(1, hit, 200))
    assert not set("\x1b\x07\x9b\x7f\x00\b\u202e") & set(capfd.readouterr().out)


def test_json_has_no_control_characters_and_comes_back(capfd: pytest.CaptureFixture[str]) -> None:
    value = {f"key{ESCAPES}": [f"{ESCAPES}{DIRECTION}", "法律"]}
    console.print_json(value)
    printed = capfd.readouterr().out
    assert not {c for c in printed if (c < " " and c != "\n") or "\x7e" < c < "\xa0" or c in "\u202e\u2066"}
    assert json.loads(printed) == value

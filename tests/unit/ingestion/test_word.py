"""DOCX: text that the converter does not know is not lost, and none is stored that nobody sees."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.office import make_docx, word_paragraph

from rag_bm25.ingestion.reading import ReadOptions, read_document

pytest.importorskip("mammoth")
SPACES = (
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:v="urn:schemas-microsoft-com:vml" '
    'xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"'
)
BOX = f"<w:txbxContent>{word_paragraph('boxed')}</w:txbxContent>"
DRAWING = f"<w:drawing><a:graphic><wps:wsp><wps:txbx>{BOX}</wps:txbx></wps:wsp></a:graphic></w:drawing>"
CHOICE = f"<mc:Choice>{DRAWING}</mc:Choice>"


def run(content: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{content}</w:t></w:r>'


def shown(path: Path, runs: str, *, hidden: bool = False) -> str:
    make_docx(path / "a.docx", f"<w:p {SPACES}>{runs}</w:p>")
    return " ".join(read_document(path / "a.docx", ReadOptions(hidden=hidden)).text.split())


BREAKS = ["<w:br w:type='page'/>", "<w:br w:type='column'/>", "<w:br/>", "<w:cr/>", "<w:ptab/>", "<w:tab/>"]
VANISH, SHOWN = "<w:vanish/>", "<w:vanish w:val='0'/>"
RUBY = f"<w:ruby><w:rt>{run('ねこ')}</w:rt><w:rubyBase>{run('猫')}</w:rubyBase></w:ruby>"
OLD = f"<mc:Fallback><w:pict><v:shape><v:textbox>{BOX}</v:textbox></v:shape></w:pict></mc:Fallback>"


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        (f"{run('Figure ')}<w:fldSimple w:instr='SEQ'>{run('3')}</w:fldSimple>{run(': pump')}", "Figure 3: pump"),
        (f"<w:dir>{run('a')}<w:bdo>{run('b')}</w:bdo></w:dir>", "ab"),
        (f"<w:r>{RUBY}</w:r>{run('は')}", "猫は"),
        *((f"<w:r><w:t>Alfa</w:t>{mark}<w:t>Beta</w:t></w:r>", "Alfa Beta") for mark in BREAKS),
        (f"<w:r>{DRAWING}</w:r>{run('after')}", "after boxed"),
        *(
            (f"<w:r><mc:AlternateContent>{CHOICE}{other}</mc:AlternateContent></w:r>", "boxed")
            for other in ("", "<mc:Fallback/>", OLD)
        ),
        (f"{run('shown')}{run('secret', VANISH)}{run('too', SHOWN)}", "showntoo"),
    ],
)
def test_what_the_page_shows_is_text_once(runs: str, text: str, tmp_path: Path) -> None:
    assert shown(tmp_path, runs) == text


def test_boxes_within_boxes_are_read_once(tmp_path: Path) -> None:
    inner = DRAWING
    for _ in range(30):  # doubled at each level, it would be 2 ** 30
        inner = DRAWING.replace(word_paragraph("boxed"), f"<w:p><w:r>{inner}</w:r></w:p>")
    assert shown(tmp_path, f"<w:r>{inner}</w:r>") == "boxed"


def test_hidden_text_is_read_on_request(tmp_path: Path) -> None:
    assert shown(tmp_path, run("secret", "<w:vanish/>"), hidden=True) == "secret"


@pytest.mark.parametrize(("value", "text"), [("1", "☒ by post"), ("0", "☐ by post")])
def test_a_ticked_box_is_told_from_an_empty_one(value: str, text: str, tmp_path: Path) -> None:
    box = f'<w:sdtPr><w14:checkbox><w14:checked w14:val="{value}"/></w14:checkbox></w:sdtPr>'
    runs = f"<w:sdt>{box}<w:sdtContent>{run('x')}</w:sdtContent></w:sdt>{run('by post')}"
    assert shown(tmp_path, runs) == text


def test_headers_and_footers_are_text_once_and_comments_on_request(tmp_path: Path) -> None:
    parts = {
        "header1": word_paragraph("Contract WV-4711") + word_paragraph("The body."),
        "header2": word_paragraph("Contract WV-4711"),
        "footer1": word_paragraph("Page 1 of 3") + word_paragraph("Nordhavn Pumps"),
        "comments": f"<w:comment w:id='0'>{word_paragraph('Ask the lawyer.')}</w:comment>",
    }
    path = make_docx(tmp_path / "a.docx", [(0, "The body.")], **parts)
    assert read_document(path).text.split("\n\n")[:-1] == ["Contract WV-4711", "The body.", "Nordhavn Pumps"]
    assert "Ask the lawyer." in read_document(path, ReadOptions(hidden=True)).text

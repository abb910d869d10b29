"""E-mail, notebooks and JSON arrays are text and rows, not their source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from email.message import EmailMessage
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path

import pytest
from support.files import write

from rag_bm25 import BM25Index
from rag_bm25.errors import InputError
from rag_bm25.ingestion.files import find_files
from rag_bm25.ingestion.ingesting import ingest
from rag_bm25.ingestion.reading import ReadOptions, read_document
from rag_bm25.ingestion.rows import RowFields


def message(subject: str, text: str = "") -> EmailMessage:
    made = EmailMessage()
    made["Subject"], made["From"], made["Date"] = subject, "a@example.org", "Mon, 5 Jan 2026 08:30:00 +0100"
    if text:
        made.set_content(text)
    return made


def read(path: Path, name: str, contents: bytes | str) -> list[str]:
    (path / name).write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    return read_document(path / name).text.split("\n\n")


HEAD = "From: a@example.org\nDate: 2026-01-05 08:30:00+01:00"


def test_a_mail_is_its_head_its_text_and_the_names_of_its_files(tmp_path: Path) -> None:
    mail = message("Größe der Pumpe", "Die Pumpe ist grün.\n" * 9)
    mail.add_alternative("<p>twice</p>", subtype="html")
    mail.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="Maße.pdf")
    shown = read(tmp_path, "a.eml", mail.as_bytes())
    assert shown[:-1] == ["Größe der Pumpe", HEAD, ("Die Pumpe ist grün.\n" * 9).strip(), "Attachment: Maße.pdf"]


def test_a_mail_of_html_is_read_as_a_page(tmp_path: Path) -> None:
    mail = message("News")
    mail.set_content("<style>p {}</style><p>AT&amp;T</p>", subtype="html")
    assert read(tmp_path, "a.eml", mail.as_bytes())[2] == "AT&T"


def test_a_mail_within_another_is_text(tmp_path: Path) -> None:
    mail = message("Fwd", "see below")
    mail.add_attachment(message("Pump", "It leaks."))
    assert read(tmp_path, "a.eml", mail.as_bytes())[:-1] == ["Fwd", HEAD, "see below", "Pump", HEAD, "It leaks."]


def text(shown: str, subtype: str = "plain") -> MIMEText:
    return MIMEText(shown, subtype)


def parts(kind: str, *children: MIMEBase) -> MIMEMultipart:
    made = MIMEMultipart(kind)
    for each in children:
        made.attach(each)
    return made


def file(name: str, kind: str = "pdf", disposition: str = "attachment") -> MIMEBase:
    made = MIMEBase("image" if kind == "png" else "application", kind)
    made.add_header("Content-Disposition", disposition, filename=name)
    return made


BOTH = parts("alternative", text("plain"), text("<p>page</p>", "html"))
PAGE = parts("related", text("<p>page</p>", "html"), file("logo.png", "png", "inline"))


@pytest.mark.parametrize(
    ("mail", "shown"),
    [
        (parts("mixed", BOTH, text("second")), ["plain", "second"]),
        (parts("mixed", text("first"), text("<p>page</p>", "html")), ["first", "page"]),
        (parts("mixed", parts("mixed", text("a"), text("b")), text("footer")), ["a", "b", "footer"]),
        (parts("mixed", parts("signed", text("a")), file("b.pdf"), text("c")), ["a", "Attachment: b.pdf", "c"]),
        (parts("alternative", text(" \n"), PAGE), ["page"]),
        (parts("alternative", text("plain"), parts("mixed", PAGE, file("b.pdf"))), ["plain", "Attachment: b.pdf"]),
    ],
)
def test_all_parts_of_a_mail_that_a_program_shows_are_text(mail: MIMEBase, shown: list[str], tmp_path: Path) -> None:
    assert read(tmp_path, "a.eml", mail.as_bytes())[:-1] == shown


def test_a_mail_whose_parts_cannot_be_told_apart_is_text(tmp_path: Path) -> None:
    head = "Content-Type: multipart/mixed; boundary=a"
    assert read(tmp_path, "a.eml", f"{head}\n\nIt leaks.\n")[0] == "It leaks."


@pytest.mark.parametrize("charset", ["iso-2022-jp", "shift_jis", "utf-8", "x-unknown"])
def test_a_mail_is_read_in_its_charset(charset: str, tmp_path: Path) -> None:
    text = "ポンプが漏れている。".encode("utf-8" if charset == "x-unknown" else charset)
    head = f"Subject: a\nContent-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: 8bit\n\n"
    assert read(tmp_path, "a.eml", head.encode() + text)[1] == "ポンプが漏れている。"


def test_a_mail_without_a_head_or_with_a_wrong_date_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, "a.eml", "Date: soon\n\nhello") == ["Date: soon", "hello", ""]
    assert read(tmp_path, "b.eml", "\nhello") == ["hello", ""]


def notebook(*cells: Mapping[str, object]) -> str:
    return json.dumps({"cells": cells, "metadata": {}})


def test_a_notebook_is_its_markdown_and_its_code_with_what_it_printed(tmp_path: Path) -> None:
    outputs = [
        {"name": "stdout", "text": ["\x1b[31m4\x1b[0m\n"]},
        {"name": "stderr", "text": ["Warning"]},
        {"data": {"text/plain": ["<Figure size 640x480>"], "image/png": "iVBORw0"}},
        {"data": {"text/plain": "   rows\n0  17"}},
    ]
    code = {"cell_type": "code", "source": ["def f():\n", "    return 4"], "outputs": outputs}
    shown = read(tmp_path, "a.ipynb", notebook({"cell_type": "markdown", "source": "# Pumps"}, code))
    assert shown == ["# Pumps", "```\ndef f():\n    return 4\n```", "```\n4\n```", "```\n   rows\n0  17\n```"]


def test_what_a_notebook_shows_as_markdown_or_a_page_is_text(tmp_path: Path) -> None:
    page = {"text/html": ["<script>x</script><table><tr><td>rows<td>17<tr><td>a<td>b</table>"]}
    markdown = {"text/plain": "<IPython.core.display.Markdown object>", "text/markdown": "**4** bar", **page}
    figure = {"text/plain": "<Figure size 640x480>", "text/html": "<div></div><script>plot()</script>"}
    outputs = [{"data": data} for data in (page, markdown, figure, {"text/plain": "17", **page})]
    shown = read(tmp_path, "a.ipynb", notebook({"cell_type": "code", "source": "f()", "outputs": outputs}))
    assert shown == ["```\nf()\n```", "```\nrows | 17\na | b\n```", "**4** bar", "```\n17\n```"]


def test_what_no_index_stores_is_no_text_of_a_notebook(tmp_path: Path) -> None:
    code = {"cell_type": "code", "source": "f()", "outputs": [{"name": "stdout", "text": "a\0b\ud83d"}]}
    assert read(tmp_path, "a.ipynb", notebook(code))[1] == "```\nab\n```"


def test_the_headings_of_a_notebook_are_those_of_its_markdown(tmp_path: Path) -> None:
    cells = {"cell_type": "code", "source": "# no heading\n```"}, {"cell_type": "markdown", "source": "## Seals"}
    read(tmp_path, "a.ipynb", notebook(*cells))
    assert [heading.title for heading in read_document(tmp_path / "a.ipynb").headings] == ["Seals"]


@pytest.mark.parametrize("contents", ["{}", "[1]", "{", '{"cells": 1}', "[" * 100_000])
def test_what_is_no_notebook_is_refused(contents: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.ipynb"):
        read(tmp_path, "a.ipynb", contents)


def ingested(path: Path, index: BM25Index, contents: object, text: str = "text") -> dict[str, str]:
    (path / "a.json").write_text(contents if isinstance(contents, str) else json.dumps(contents))
    report = ingest(index, find_files([path / "a.json"]), options=ReadOptions(fields=RowFields(text=text)))
    assert not report.failed
    return {chunk.id: chunk.text for chunk in index.chunks()}


def test_an_array_of_objects_is_rows(tmp_path: Path, index: BM25Index) -> None:
    rows = [{"id": "p", "text": "pump"}, {"part": "seal", "price": 4, "tags": ["a"]}]
    assert ingested(tmp_path, index, rows) == {"p": "pump", "a.json#1": "part: seal\nprice: 4"}
    assert ingested(tmp_path, index, rows[:1]) == {"p": "pump"}


@pytest.mark.parametrize("contents", ['{"a": 1}', "[1, 2]"])
def test_other_json_is_a_text(contents: str, tmp_path: Path, index: BM25Index) -> None:
    assert ingested(tmp_path, index, contents) == {"a.json#0": contents}


def test_items_that_are_no_objects_are_rejected(tmp_path: Path, index: BM25Index) -> None:
    (tmp_path / "a.json").write_text('[{"text": "a"}, 2]')
    report = ingest(index, find_files([tmp_path / "a.json"]))
    assert (report.chunks, report.rejected) == (1, {"a.json": 1})
    assert report.reasons == [f"{tmp_path / 'a.json'} item 2: a row must be a JSON object, got int"]


@pytest.mark.parametrize("value", ["9" * 5_000, '[{"b": -%s}]' % ("9" * 5_000)])
def test_a_row_with_an_integer_that_is_too_long_is_rejected_alone(value: str, tmp_path: Path, index: BM25Index) -> None:
    first, second = f'{{"id": 1, "text": "a", "n": {value}}}', '{"id": 2, "text": "b", "n": 3}'
    array = write(tmp_path / "a.json", f"[{first}, {second}]")
    lines = write(tmp_path / "b.jsonl", f"{first}\n{second.replace('2', '4')}\n")
    report = ingest(index, find_files([array, lines]))
    rule = "an integer must have at most 4,300 digits"
    assert report.reasons == [f"{array} item 1: {rule}", f"{lines} line 1: not JSON: {rule}"]
    assert {chunk.id: chunk.metadata["n"] for chunk in index.chunks()} == {"2": 3, "4": 3}


@pytest.mark.parametrize("contents", ['[{"text": 1}', '[{"a":' * 100_000])
def test_an_array_that_is_cut_off_or_too_deep_fails(contents: str, tmp_path: Path, index: BM25Index) -> None:
    (tmp_path / "a.json").write_text(contents)
    assert "a.json: not JSON" in ingest(index, find_files([tmp_path / "a.json"])).failed["a.json"]


def test_a_folder_has_json_for_other_purposes(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text("[{}]")
    assert find_files([tmp_path]).skipped == [tmp_path / "package.json"]
    assert [file.path.name for file in find_files([tmp_path], include=["*.json"]).files] == ["package.json"]

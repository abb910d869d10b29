"""Extract the text of e-mail: what is at its head, its text, and the names of its attachments."""

from __future__ import annotations

from email.message import MIMEPart
from email.parser import BytesParser
from email.policy import default
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, cast

from rag_bm25.ingestion.encodings import decode
from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.formats.html import write_html

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import EmailMessage
    from typing import BinaryIO

    from rag_bm25.ingestion.documents import Document

HEAD = ("From", "To", "Cc", "Date")
SHOWN = ("text/plain", "text/html")


def extract(file: BinaryIO, *, hidden: bool, repeated: bool, **_options: object) -> Document:
    """Extract the text of a file, with the messages that it forwards."""
    message: EmailMessage = BytesParser(policy=default).parse(file)
    builder = TextBuilder(hidden=hidden, repeated=repeated)
    _write(builder, message)
    return builder.build(builder.first_heading)


def _write(builder: TextBuilder, message: EmailMessage) -> None:
    builder.heading(1, str(message["Subject"] or ""))
    builder.paragraph("\n".join(f"{name}: {_header(message, name)}" for name in HEAD if message[name]))
    _write_part(builder, message)


def _header(message: EmailMessage, name: str) -> str:
    """Return a line of the head; a date as filters and people sort it."""
    text = " ".join(str(message[name]).split())
    try:
        return parsedate_to_datetime(text).isoformat(" ") if name == "Date" else text
    except ValueError:
        return text


def _write_part(builder: TextBuilder, part: MIMEPart) -> None:
    """Write a message, a text that is shown, or what parts have of them; of a file, write its name."""
    kind, is_broken = part.get_content_type(), part.get_content_maintype() == "multipart" and not part.is_multipart()
    if kind == "message/rfc822":
        _write(builder, cast("EmailMessage", part.get_payload(0)))
    elif is_broken or (kind in SHOWN and not part.is_attachment()):
        _write_text(builder, part)
    elif kind.startswith("multipart/"):
        for each in _shown_parts(part):
            _write_part(builder, each)
    elif name := part.get_filename():
        builder.paragraph(f"Attachment: {name}")


def _shown_parts(part: MIMEPart) -> Iterator[MIMEPart]:
    """Yield the parts that a program shows: of alternatives one, and the files of the others; no pictures of a page."""
    parts = list(part.iter_parts())
    if part.get_content_subtype() == "alternative":
        best = next((each for kind in SHOWN for each in parts if _has_text(each, kind)), None)
        for each in parts:
            yield from [each] if each is best else filter(MIMEPart.is_attachment, each.walk())
    else:
        is_page = part.get_content_subtype() == "related"
        yield from (each for each in parts if each.is_attachment() or not (is_page and _is_picture(each)))


def _has_text(part: MIMEPart, kind: str) -> bool:
    texts = (each for each in part.walk() if each.get_content_type() == kind and not each.is_attachment())
    return any(bytes(each.get_payload(decode=True)).strip() for each in texts)


def _is_picture(part: MIMEPart) -> bool:
    return part.get_content_maintype() == "image"


def _write_text(builder: TextBuilder, part: MIMEPart) -> None:
    text, _ = decode(bytes(part.get_payload(decode=True)), "the message", declared=part.get_content_charset())
    if part.get_content_subtype() == "html":
        write_html(text, builder)
    else:
        builder.paragraph(text.replace("\r\n", "\n"))

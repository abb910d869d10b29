"""Extract the text of e-mail: what is at its head, its text, and the names of its attachments."""

from __future__ import annotations

from email.parser import BytesParser
from email.policy import default
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, cast

from rag_bm25.ingestion.encodings import decode
from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.formats.html import write_html

if TYPE_CHECKING:
    from email.message import EmailMessage, MIMEPart
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
    body = message.get_body(("plain", "html"))
    if body is not None:
        _write_text(builder, body)
    for part in message.iter_attachments() if message.is_multipart() else ():
        _write_attachment(builder, part)


def _header(message: EmailMessage, name: str) -> str:
    """Return a line of the head; a date as filters and people sort it."""
    text = " ".join(str(message[name]).split())
    try:
        return parsedate_to_datetime(text).isoformat(" ") if name == "Date" else text
    except ValueError:
        return text


def _write_attachment(builder: TextBuilder, part: MIMEPart) -> None:
    """Write a message or a text that is shown with another, or else the name of a file."""
    if part.get_content_type() == "message/rfc822":
        _write(builder, cast("EmailMessage", part.get_payload(0)))
    elif part.get_content_type() in SHOWN and not part.is_attachment():
        _write_text(builder, part)
    elif name := part.get_filename():
        builder.paragraph(f"Attachment: {name}")


def _write_text(builder: TextBuilder, part: MIMEPart) -> None:
    text, _ = decode(bytes(part.get_payload(decode=True)), "the message", declared=part.get_content_charset())
    if part.get_content_subtype() == "html":
        write_html(text, builder)
    else:
        builder.paragraph(text.replace("\r\n", "\n"))

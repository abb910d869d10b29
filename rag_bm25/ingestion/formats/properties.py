"""Read the properties of Office documents."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    import zipfile

MAX_PROPERTIES = 1 << 20  # bytes
TITLE = "{http://purl.org/dc/elements/1.1/}title"


def core_title(archive: zipfile.ZipFile) -> str:
    """Return the title of a document, "" without one."""
    try:
        with archive.open("docProps/core.xml") as file:
            title = ET.fromstring(file.read(MAX_PROPERTIES)).findtext(TITLE)  # noqa: S314  # expat bounds entities
    except (KeyError, ET.ParseError):
        return ""
    return (title or "").strip()

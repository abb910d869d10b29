"""Extract the text of EPUB, in the order of reading."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from rag_bm25.errors import InputError
from rag_bm25.ingestion.encodings import decode
from rag_bm25.ingestion.formats.archives import open_archive
from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.formats.html import write_html

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet
    from typing import BinaryIO

    from rag_bm25.ingestion.documents import Document

CONTAINER = "META-INF/container.xml"
PAGES = frozenset({"application/xhtml+xml", "text/html"})


def extract(file: BinaryIO, *, encoding: str | None, hidden: bool, repeated: bool) -> Document:
    """Extract the text of a file."""
    with open_archive(file) as archive:
        if "META-INF/encryption.xml" in archive.namelist() and not _only_fonts(archive):
            raise InputError("it is encrypted")
        package = _package_path(archive)
        root = _parse(archive, package)
        builder = TextBuilder(hidden=hidden, repeated=repeated)
        for name in dict.fromkeys(_pages(root, posixpath.dirname(package), set(archive.namelist()))):
            text, _ = decode(archive.read(name), name, encoding, "utf-8")
            write_html(text, builder)
            builder.new_line(2)
        return builder.build(root.findtext(".//{*}title") or "", builder.first_heading)


def _only_fonts(archive: zipfile.ZipFile) -> bool:
    return all(
        "fonts" in (each.get("Algorithm") or "").lower() or "obfuscation" in (each.get("Algorithm") or "").lower()
        for each in _parse(archive, "META-INF/encryption.xml").iterfind(".//{*}EncryptionMethod")
    )


def _package_path(archive: zipfile.ZipFile) -> str:
    rootfile = _parse(archive, CONTAINER).find(".//{*}rootfile")
    if rootfile is None or not rootfile.get("full-path"):
        raise InputError(f"damaged: {CONTAINER} names no package")
    return str(rootfile.get("full-path"))


def _parse(archive: zipfile.ZipFile, name: str) -> ET.Element:
    try:
        return ET.fromstring(archive.read(name))  # noqa: S314  # expat bounds entities
    except KeyError:
        raise InputError(f"damaged, or of another format: it has no {name}") from None
    except ET.ParseError as error:
        raise InputError(f"damaged: {name}: {error}") from None


def _pages(package: ET.Element, folder: str, names: AbstractSet[str]) -> Iterator[str]:
    """Yield the names of the pages in the order of reading, also of one of whose parts an entry is."""
    items = {item.get("id"): item for item in package.iterfind(".//{*}manifest/{*}item")}
    for reference in package.iterfind(".//{*}spine/{*}itemref"):
        item = items.get(reference.get("idref"))
        if item is not None and item.get("media-type") in PAGES and "nav" not in (item.get("properties") or "").split():
            href = item.get("href") or ""
            forms = (form for given in (href, href.partition("#")[0]) for form in (unquote(given), given))
            paths = (posixpath.normpath(posixpath.join(folder, form)) for form in forms)
            yield from [path for path in paths if path in names][:1]

"""Extract the text of documents, in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from rag_bm25.errors import install_extra


@dataclass(frozen=True)
class Format:
    """A kind of documents that need a parser."""

    name: str
    module: str  # of this package, with a function `extract` of a file and options
    package: str = ""  # that the extra brings, as it is imported
    project: str = ""  # the same, as it is installed

    @property
    def missing(self) -> str:
        """What is not installed, and how to install it; "" if nothing is missing."""
        if not self.package or find_spec(self.package) is not None:
            return ""
        return f"reading {self.name} needs {self.project}: {install_extra('documents')}"


FORMATS = {
    ".pdf": Format("PDF", "pdf", "pypdfium2", "pypdfium2"),
    ".docx": Format("DOCX", "docx", "mammoth", "mammoth"),
    ".pptx": Format("PPTX", "pptx", "pptx", "python-pptx"),
    ".xlsx": Format("XLSX", "xlsx", "openpyxl", "openpyxl"),
    ".epub": Format("EPUB", "epub"),
    ".html": Format("HTML", "html"),
    ".htm": Format("HTML", "html"),
    ".xhtml": Format("HTML", "html"),
    ".eml": Format("e-mail", "mail"),
    ".ipynb": Format("notebooks", "notebook"),
}
"""The formats that are read in another process, by suffix."""

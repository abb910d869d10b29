"""Extract documents for another process, within bounds: a hostile file must not end the process that ingests it."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import InputError
from rag_bm25.ingestion.formats import FORMATS
from rag_bm25.ingestion.opening import open_regular

if TYPE_CHECKING:
    from rag_bm25.ingestion.documents import Document

MAX_MEMORY = 2 << 30  # bytes, beside what the process has when it starts


def answer(path: str, real: str, **options: Any) -> dict[str, Any]:
    """Extract one file, whose format takes the options that it knows; each failure is an answer."""
    file = Path(path)
    form = FORMATS[file.suffix.lower()]
    if form.missing:
        return {"missing": form.missing}
    module = import_module(f"rag_bm25.ingestion.formats.{form.module}")
    try:
        with open_regular(file, Path(real)) as opened:
            document: Document = module.extract(opened, **options)
    except InputError as error:
        return {"error": str(error)}
    except (MemoryError, RecursionError) as error:
        reason = "more memory" if isinstance(error, MemoryError) else "deeper nesting"
        return {"error": f"reading it needs {reason} than is allowed"}
    except OSError as error:
        return {"error": str(error.strerror or error)}
    except Exception as error:  # noqa: BLE001  # parsers of other packages raise anything on damaged files
        return {"error": f"damaged, or of another format: {type(error).__name__}: {str(error)[:200]}"}
    return {
        "text": document.text,
        "title": document.title,
        "headings": document.headings,
        "pages": document.pages,
        "encoding": document.encoding,
    }


def _limit_memory() -> None:
    """Bound the memory of this process, where the system can."""
    if sys.platform != "linux":
        return
    import resource

    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MAX_MEMORY, used + MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Answer requests, a JSON object a line, until the input ends."""
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # what parsers print is no answer
    _limit_memory()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        reply = json.dumps(answer(**request)).encode()
        answers.write(len(reply).to_bytes(8, "big") + reply)
        answers.flush()


if __name__ == "__main__":
    main()

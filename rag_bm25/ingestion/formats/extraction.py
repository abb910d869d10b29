"""Have documents extracted by a process that is bounded in time and memory: a hostile file must end no other."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import TIMEOUT_MAX, Lock, Timer
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import InputError, MissingExtraError
from rag_bm25.ingestion.documents import Document, Heading
from rag_bm25.ingestion.formats import FORMATS
from rag_bm25.ingestion.opening import open_regular
from rag_bm25.safe_path import SAFE_PATH, safe_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


MAX_MEMORY = 2 << 30  # bytes, beside what the process has when it starts
MAX_FILE_BYTES = 512 << 20
DEFAULT_TIMEOUT = 120.0  # seconds for one file

_CHUNK = 1 << 20
_WORKER = "import sys; sys.path[:] = sys.argv[1:]; from rag_bm25.ingestion.formats.extraction import main; main()"


class _TimedOutError(Exception):
    """The process did not answer in time."""


class Extractor:
    """A process that extracts documents, one at a time; it starts with the first, and again after one that failed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0  # process id: a fork must not share the pipes

    def extract(self, path: Path, real: Path, timeout: float, options: Mapping[str, Any]) -> Document:
        """Extract the text of a file with the options of its format, or say why not."""
        with open_regular(path, real) as file:
            size = os.fstat(file.fileno()).st_size
        if size > MAX_FILE_BYTES:
            raise InputError(f"{path}: it has {size:,} bytes; at most {MAX_FILE_BYTES:,} are read")
        with self._lock:
            try:
                reply = self._ask({"path": str(path), "real": str(real), **options}, timeout)
            except BaseException as error:
                self._stop()
                if isinstance(error, _TimedOutError):
                    raise InputError(f"{path}: not read within {timeout:g} s") from None
                if isinstance(error, EOFError):
                    raise InputError(f"{path}: it made the parser crash") from None
                raise
        if "missing" in reply:
            raise MissingExtraError(f"{path}: {reply['missing']}")
        if "error" in reply:
            raise InputError(f"{path}: {reply['error']}")
        headings = tuple(Heading(*heading) for heading in reply.pop("headings"))
        pages, unreadable = (tuple(reply.pop(name)) for name in ("pages", "unreadable"))
        return Document(headings=headings, pages=pages, unreadable=unreadable, **reply)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._stop()

    def _ask(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        with _killed_after(timeout, process):
            try:
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
            except OSError:  # Windows has another one for a broken pipe
                raise EOFError from None
            size = int.from_bytes(_read(process.stdout.fileno(), 8), "big")
            reply: dict[str, Any] = json.loads(_read(process.stdout.fileno(), size))
        return reply

    def _started(self) -> subprocess.Popen[bytes]:
        if self._owner != os.getpid():
            self._process = None
        if self._process is None:
            self._owner = os.getpid()
            self._process = subprocess.Popen(  # noqa: S603  # this Python, this package
                [sys.executable, SAFE_PATH, "-c", _WORKER, *safe_path()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


@contextmanager
def _killed_after(timeout: float, process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill a process that does not answer in time, which ends its answer; Windows cannot wait for a pipe otherwise."""
    is_late: list[bool] = []

    def kill() -> None:
        is_late.append(True)
        process.kill()

    timer = Timer(min(timeout, TIMEOUT_MAX), kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    except EOFError:
        if not is_late:
            raise
    finally:
        timer.cancel()
        timer.join()  # it may be killing at this moment
    if is_late:
        raise _TimedOutError


def _read(descriptor: int, size: int) -> bytes:
    """Read exactly so many bytes."""
    data = bytearray()
    while len(data) < size:
        part = os.read(descriptor, min(_CHUNK, size - len(data)))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


EXTRACTOR = Extractor()
"""The one of this process."""

atexit.register(EXTRACTOR.close)


# In the process that extracts


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
    return dict(vars(document))


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

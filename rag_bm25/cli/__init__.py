"""The command line ``rag-bm25``.

Typer reads annotations at run time: no ``from __future__ import annotations`` in modules with commands.
"""

from __future__ import annotations

import os
import sys

from rag_bm25._version import __version__

NEEDED = ("typer", "rich")
INTERRUPTED = 130  # as shells have it


def main() -> None:
    """Run the command line, or say which extra it needs."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed: no other file may take its place
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
    if sys.getfilesystemencoding() == "ascii":  # arguments have no characters beyond it, only surrogates
        sys.exit("error: arguments and file names are read as ASCII here: set PYTHONUTF8=1")
    if sys.argv[1:] == ["--version"]:  # as scripts ask for it
        sys.stdout.write(f"rag-bm25 {__version__}\n")
        return
    try:
        _run()
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        from rag_bm25.errors import install_extra

        sys.exit(f"error: the command line needs {error.name}: {install_extra('cli')}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _run() -> None:
    from rag_bm25.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    app(prog_name="rag-bm25", windows_expand_args=False)  # an argument may have a star

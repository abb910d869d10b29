"""Search for inputs that break a rule.

    python scripts/fuzz analyzer --minutes 20
    python scripts/fuzz log_rows --minutes 20 --seed 7 --corpus /tmp/corpus
    python scripts/fuzz filters --input crash-0a1b2c

Hypothesis makes the values of each target from the bytes of an input. With atheris (``pip install atheris``), inputs
are changed so that they reach other lines; without, they are random. An input that breaks a rule is kept in a file
``crash-...`` (``timeout-...``, ``oom-...``) in the folder, by default the current one, and tried again by ``--input``.
The exit code is then not 0.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
import time
import warnings
from contextlib import nullcontext
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:1] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "tests")]

if TYPE_CHECKING:
    from collections.abc import Callable

TARGETS = ["analyzer", "engine", "files", "filters", "log_rows", "queries", "vectors"]
MAX_LENGTH = 2_000  # bytes of an input
SECONDS_PER_INPUT = 120
MEGABYTES = 3_000


def main() -> None:
    """Run one target, for a time or with one input."""
    options = _options()
    warnings.simplefilter("error", RuntimeWarning)  # numpy's, of numbers that are none
    atheris = _atheris()
    with atheris.instrument_imports(include=["rag_bm25"]) if atheris else nullcontext():
        check = importlib.import_module(f"fuzz.{options.target}").check
    run = check.hypothesis.fuzz_one_input
    if options.input:
        run(options.input.read_bytes())
    elif atheris:
        check()  # loads what is loaded once: dictionaries, the engine
        atheris.Setup(_arguments(options), run)
        atheris.Fuzz()  # ends the program
    else:
        _run_random(run, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, help="folder of inputs that reach different lines, read and written")
    parser.add_argument("--folder", type=Path, default=Path(), help="where inputs that break a rule go")
    parser.add_argument("--input", type=Path, help="try only this file")
    return parser.parse_args()


def _atheris() -> Any:
    try:
        return importlib.import_module("atheris")
    except ImportError:
        sys.stderr.write("atheris is not installed: random inputs\n")
        return None


def _arguments(options: argparse.Namespace) -> list[str]:
    """Return the arguments of libFuzzer."""
    if options.corpus:
        options.corpus.mkdir(parents=True, exist_ok=True)
    return [
        sys.argv[0],
        f"-max_total_time={max(1, round(60 * options.minutes))}",
        f"-seed={options.seed}",
        f"-max_len={MAX_LENGTH}",
        "-len_control=0",
        f"-timeout={SECONDS_PER_INPUT}",
        f"-rss_limit_mb={MEGABYTES}",
        f"-artifact_prefix={options.folder.resolve()}/",
        "-print_final_stats=1",
        *([str(options.corpus)] if options.corpus else []),
    ]


def _run_random(run: Callable[[bytes], object], options: argparse.Namespace) -> None:
    """Try random inputs until the time is over."""
    source = random.Random(options.seed)
    end = time.monotonic() + 60 * options.minutes
    executions = 0
    while time.monotonic() < end:
        data = source.randbytes(source.randrange(MAX_LENGTH))
        executions += 1
        try:
            run(data)
        except Exception:
            path = options.folder / f"crash-{blake2b(data, digest_size=8).hexdigest()}"
            path.write_bytes(data)
            sys.stderr.write(f"after {executions:,} inputs, {path} breaks a rule\n")
            raise
    sys.stdout.write(f"{executions:,} inputs of {options.target}, seed {options.seed}: no rule broken\n")


if __name__ == "__main__":
    main()

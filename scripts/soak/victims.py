"""A process that reports its progress and can be killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from soak.processes import children

PROGRAM = Path(__file__).with_name("kill_test.py")
PATIENCE = 180.0


def say(tell: int, line: str) -> None:
    """Write a line to the pipe atomically."""
    os.write(tell, f"{line}\n".encode())


class Victim:
    """A process that reports its progress and can be killed."""

    def __init__(self, role: str, uri: Path, seed: str) -> None:
        self.seed = seed
        self._pipe, tell = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), "--role", role, "--uri", str(uri), "--seed", seed, "--tell", str(tell)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[tell],
        )
        os.close(tell)
        self.lines: list[str] = []
        self.complaint = ""
        self._rest = b""

    def start(self) -> None:
        """Let it begin: the database is free."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def wait_for(self, word: str, times: int = 1) -> None:
        """Wait until it has written a word a number of times."""
        end = time.monotonic() + PATIENCE
        while self.said(word) < times:
            if not self._read(end - time.monotonic()):
                raise RuntimeError(f"the process of seed {self.seed} ended without {word!r}: {self._errors()}")

    def said(self, word: str) -> int:
        """Count the words that it wrote with this prefix."""
        return sum(line.startswith(word) for line in self.lines)

    def kill(self, *, writer: bool = True, engine: bool = False) -> None:
        """Kill it, its engine, or both at once."""
        pids = [*(children(self._process.pid) if engine else []), *([self._process.pid] if writer else [])]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def end(self) -> int:
        """Read the rest of its output, and return the exit code."""
        end = time.monotonic() + PATIENCE
        while self._read(end - time.monotonic()):
            pass
        self.complaint = self._errors()
        code = self._process.wait(PATIENCE)
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        os.close(self._pipe)
        return code

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self.end()

    def _read(self, seconds: float) -> bool:
        """Read available output; False at its end."""
        ready, _, _ = select.select([self._pipe], [], [], max(seconds, 0))
        if not ready:
            raise TimeoutError(f"the process of seed {self.seed} has not come to its end in {PATIENCE:g} s")
        found = os.read(self._pipe, 1 << 16)
        *lines, self._rest = (self._rest + found).split(b"\n")
        self.lines += [line.decode() for line in lines]
        return bool(found)

    def _errors(self) -> str:
        assert self._process.stderr is not None
        if self._process.stderr.closed:
            return self.complaint
        with self._process.stderr as stream:
            return stream.read().decode()[-2000:]

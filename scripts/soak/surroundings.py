"""A small disk that fills and empties, and a wall clock that steps, around processes that are killed.

Linux only: it needs ``unshare`` (and leave to use it, or root), a C compiler for the clock, and memory for the disk.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

CLOCK = Path(__file__).parents[2] / "tests" / "support" / "shifted_clock.c"
DISK_MB = 256
AT_MOST = 3600  # seconds of a step of the clock
LEFT = (0, 0, 4096, 20_000, 200_000)  # bytes that may stay free on a full disk
PAUSE = 0.4  # seconds between two disturbances, at most


def enter(folder: Path) -> None:
    """Run this program again, to its end, with a clock of its own, and where it may mount a disk of its own."""
    if "SHIFT_FILE" in os.environ:
        return
    library, shift = folder / "clock.so", folder / "shift"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, CLOCK, "-ldl"], check=True)
    shift.write_text("0")
    again = ["unshare", "--map-root-user", "--mount", sys.executable, *sys.argv]
    sys.exit(subprocess.call(again, env={**os.environ, "LD_PRELOAD": str(library), "SHIFT_FILE": str(shift)}))


@dataclass
class Surroundings:
    """The disk and the clock of the processes."""

    folder: Path
    rng: random.Random
    full_disks: int = 0
    clock_steps: int = 0
    _right: int = field(default=0, init=False)  # seconds that the clock is ahead; it never was later than this

    def __post_init__(self) -> None:
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "none", self.disk], check=True)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "-l", self.disk], check=True)

    def disturb(self, seconds: float) -> None:
        """Change disk and clock at random for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, self.rng.uniform(0, PAUSE)))
            self.rng.choice([self._fill, self._fill, self._empty, self._step_back, self._set_right, self._step_ahead])()

    def calm(self) -> None:
        """Make room, and set the clock right."""
        self._empty()
        self._set_right()

    @property
    def _ballast(self) -> Path:
        return self.disk / "ballast"

    def _fill(self) -> None:
        self.full_disks += 1
        with self._ballast.open("ab") as file, suppress(OSError):  # the writers may be faster
            free = os.statvfs(self.disk).f_bavail * os.statvfs(self.disk).f_frsize
            os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), free - self.rng.choice(LEFT))

    def _empty(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def _step_back(self) -> None:
        self._set(self._right - self.rng.choice([2, self.rng.randint(1, AT_MOST)]))

    def _step_ahead(self) -> None:
        self._right += self.rng.randint(1, AT_MOST)
        self._set(self._right)

    def _set_right(self) -> None:
        self._set(self._right)

    def _set(self, seconds: int) -> None:
        """Set the clock ahead of the true one by so many seconds, at one moment for all processes."""
        self.clock_steps += 1
        shift = Path(os.environ["SHIFT_FILE"])
        shift.with_suffix(".new").write_text(str(seconds))
        shift.with_suffix(".new").replace(shift)

"""Machine and package versions of a run."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGES = ("rag-bm25", "pymilvus", "milvus-lite", "numpy", "jieba", "rjieba")
PEERS = ("bm25s", "rank-bm25", "tantivy", "lancedb")


def describe(command: str, data: str) -> dict[str, Any]:
    """Describe the machine and the versions of the packages."""
    languages = {"Python": platform.python_version(), "SQLite": sqlite3.sqlite_version}
    return {
        "command": command,
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{_processor()}, {_cores()} cores, {_memory()} GiB, {platform.system()}",
        "load_before": load(),
        "data": data,
        "versions": languages | versions(PACKAGES + PEERS),
    }


def versions(names: tuple[str, ...]) -> dict[str, str]:
    installed = {distribution.name for distribution in metadata.distributions()}
    return {name: metadata.version(name) for name in names if name in installed}


def missing(module: str, package: str) -> str:
    """Return why a peer cannot be measured, or an empty string."""
    return "" if find_spec(module) else f"{package} is not installed"


def load() -> str:
    """Return the load averages of 1, 5 and 15 minutes."""
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    """Return the model of the processor, or its architecture if the model is unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _memory() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)

"""Any number of texts, composed of the sentences of a corpus."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

DEMO = Path(__file__).resolve().parents[1] / "demo" / "corpus" / "corpus.jsonl"
SENTENCE_END = re.compile(r"(?<=[。！？；\n])|(?<=[.!?])\s")
SHORTEST = 8  # characters of a sentence
WITHOUT_TERMS = 200  # of so many texts, one has no terms


class Texts:
    """Texts by number and version, the same in every process."""

    def __init__(self, corpus: Path, seed: int) -> None:
        found = (part.strip() for text in read(corpus) for part in SENTENCE_END.split(text))
        self._sentences = list(dict.fromkeys(part for part in found if len(part) >= SHORTEST))
        self._seed = seed
        if not self._sentences:
            raise SystemExit(f"{corpus} has no sentence of {SHORTEST} characters or more")

    def text(self, number: int, version: int) -> str:
        """Return one to five sentences and a unique word."""
        rng = random.Random(f"{self._seed}.{number}.{version}")
        if not rng.randrange(WITHOUT_TERMS):
            return "。" * version
        return " ".join([rare_word(number, version), *rng.choices(self._sentences, k=rng.randint(1, 5))])

    def piece(self, rng: random.Random, longest: int = 12) -> str:
        """Return a piece of a sentence, as a query."""
        sentence = rng.choice(self._sentences)
        start, end = sorted(rng.sample(range(len(sentence) + 1), 2))
        return sentence[start : min(end, start + longest)]


def rare_word(number: int, version: int) -> str:
    """Return the word that only this text has, like the number of an order."""
    return f"no{number}v{version}"


def read(corpus: Path) -> Iterator[str]:
    if corpus.is_dir():
        files = sorted(path for path in corpus.rglob("*") if path.suffix in {".md", ".txt"})
        yield from (path.read_text("utf-8", errors="replace") for path in files)
        return
    with corpus.open(encoding="utf-8") as lines:
        yield from (json.loads(line)["text"] for line in lines if line.strip())


def steps_to(chunks: int) -> list[int]:
    """Return the sizes at which a growing index is checked: 1,000, 3,000, 10,000 ... and the last one."""
    sizes = [unit * 10**power for power in range(3, 9) for unit in (1, 3)]
    return [*(size for size in sizes if size < chunks), chunks]

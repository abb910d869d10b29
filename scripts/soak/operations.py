"""Operations of the writers that are killed, and the chunks that must be stored afterwards."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from support.reference import split

from rag_bm25 import BM25Index, IndexConfig

Key = tuple[str, str]  # namespace and id
Model = dict[Key, str]  # what must be stored

CHUNK_SIZE = 15
CONFIG = IndexConfig(chunk_size=CHUNK_SIZE, k3=None, length_unit="terms", analyzer=split)
NAMESPACES = ("", "law", "中文")
IDS = 400
PARTS = 20
WORDS = 2000


@dataclass(frozen=True)
class Operation:
    """One call of the index; both sides derive the same ones from a seed."""

    kind: str
    namespace: str
    texts: dict[str, str] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    part: int = 0

    def apply(self, index: BM25Index) -> None:
        if self.kind == "add":
            metadatas = [{"part": part_of(id_)} for id_ in self.texts]
            index.add(list(self.texts.values()), ids=list(self.texts), metadatas=metadatas, namespace=self.namespace)
        elif self.kind == "delete":
            index.delete(self.ids, namespace=self.namespace)
        elif self.kind == "delete part":
            index.delete(filter={"part": self.part}, namespace=self.namespace)
        else:
            index.drop_namespace(self.namespace)

    def changes(self, model: Model) -> dict[Key, str | None]:
        """Return the new text of each chunk that it touches, None for deleted ones."""
        if self.kind == "add":
            return {(self.namespace, id_): text for id_, text in self.texts.items()}
        if self.kind == "delete":
            return {(self.namespace, id_): None for id_ in self.ids}
        there = [id_ for namespace, id_ in model if namespace == self.namespace]
        hit = [id_ for id_ in there if self.kind == "drop" or part_of(id_) == self.part]
        return {(self.namespace, id_): None for id_ in hit}


def operations(seed: str, namespaces: Sequence[str] = NAMESPACES) -> Iterator[Operation]:
    """Yield the endless operations of a writer."""
    rng = random.Random(seed)
    number = 0
    while True:
        number += 1
        yield operation(rng, f"{seed}-{number}", namespaces)


def operation(rng: random.Random, name: str, namespaces: Sequence[str]) -> Operation:
    """Draw an operation; `name` is a new word, so that no two operations write the same text."""
    kind = rng.choices(["add", "delete", "delete part", "drop"], [75, 15, 8, 2])[0]
    namespace = rng.choice(namespaces)
    if kind == "add":
        size = rng.choices([rng.randint(1, 12), rng.randint(50, IDS), 3 * IDS], [70, 28, 2])[0]
        # The largest ones have ids of their own: they take two batches.
        ids = rng.sample(range(IDS), size) if size <= IDS else range(size)
        return Operation(kind, namespace, {str(id_): draw_text(rng, name) for id_ in ids})
    ids = rng.sample(range(IDS), rng.choice([1, 5, 100]))
    return Operation(kind, namespace, ids=[str(id_) for id_ in ids], part=rng.randrange(PARTS))


def draw_text(rng: random.Random, name: str) -> str:
    """Draw a text with some frequent words; sometimes an old or an empty one."""
    if rng.random() < 0.05:
        return rng.choice(["", "the same again"])
    words = [f"w{int(WORDS ** rng.random())}" for _ in range(rng.randint(2, 25))]
    return " ".join([*words, name])


def part_of(id_: str) -> int:
    """Return the part of a chunk, which filters name."""
    return zlib.crc32(id_.encode()) % PARTS


def update(model: Model, changes: Mapping[Key, str | None]) -> None:
    for key, text in changes.items():
        if text is None:
            model.pop(key, None)
        else:
            model[key] = text

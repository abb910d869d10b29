"""Judged sets in BEIR form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag_bm25.chunks import MAX_TEXT_BYTES
from rag_bm25.errors import InputError
from rag_bm25.jsonl import read_json_lines, row_id, row_text

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BeirDataset", "load_beir"]


@dataclass(frozen=True)
class BeirDataset:
    """A judged set.

    Parameters
    ----------
    corpus : dict of str to str
        Document id -> title and text.
    queries : dict of str to str
        Query id -> text, of the judged ones.
    qrels : dict of str to dict of str to int
        Query id -> document id -> grade.
    """

    corpus: dict[str, str]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]


def load_beir(folder: Path, split: str = "test") -> BeirDataset:
    """Read a set in BEIR form.

    Parameters
    ----------
    folder : Path
        With ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<split>.tsv``.
    split : str
        Which judgements.

    Returns
    -------
    BeirDataset
        With the judged queries only.

    Raises
    ------
    InputError
        A file is missing or malformed; the message names file and line.
    """
    qrels_file = folder / "qrels" / f"{split}.tsv"
    for file in (folder / "corpus.jsonl", folder / "queries.jsonl", qrels_file):
        if not file.is_file():
            msg = f"{folder} is not a set in BEIR form: there is no {file.relative_to(folder).as_posix()}"
            raise InputError(msg)
    qrels = _read_qrels(qrels_file)
    queries = _read_texts(folder / "queries.jsonl", None)
    for query in qrels:
        if query not in queries:
            msg = f"{qrels_file} judges the query {query!r}, which queries.jsonl does not have"
            raise InputError(msg)
    corpus = _read_texts(folder / "corpus.jsonl", MAX_TEXT_BYTES)
    if not corpus or not qrels:
        msg = f"{folder} has {len(corpus)} documents and {len(qrels)} judged queries: nothing to evaluate"
        raise InputError(msg)
    return BeirDataset(corpus, {query: queries[query] for query in qrels}, qrels)


def _read_texts(file: Path, limit: int | None) -> dict[str, str]:
    texts: dict[str, str] = {}
    for line in read_json_lines(file):
        id_, text = row_id(line), row_text(line)
        if id_ in texts:
            msg = f"{line.where}: the id {id_!r} was given before"
            raise InputError(msg)
        size = len(text.encode(errors="surrogatepass"))
        if limit is not None and size > limit:
            msg = f"{line.where}: the document {id_!r} has {size:,} bytes of UTF-8, at most {limit:,} are allowed"
            raise InputError(msg)
        texts[id_] = text
    return texts


def _read_qrels(file: Path) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        msg = f"{file}: not UTF-8 at byte {error.start} of the file"
        raise InputError(msg) from None
    for number, line in enumerate(lines, 1):
        if line.strip() and not (number == 1 and _is_header(line)):
            query, document, grade = _judgement(line, f"{file} line {number}")
            qrels.setdefault(query, {})[document] = grade
    return qrels


def _is_header(line: str) -> bool:
    return line.count("\t") == 2 and not line.rpartition("\t")[2].strip().lstrip("-").isdigit()


def _judgement(line: str, where: str) -> tuple[str, str, int]:
    fields = [field.strip() for field in line.split("\t")]
    try:
        query, document, grade = fields
        return query, document, int(grade)
    except ValueError:
        msg = f"{where}: must be query id, document id and a whole number, with tabs between, got {line!r}"
        raise InputError(msg) from None

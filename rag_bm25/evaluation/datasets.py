"""Judged sets in BEIR format."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from rag_bm25.documents.checks import MAX_TEXT_BYTES
from rag_bm25.errors import InputError, ParameterError
from rag_bm25.ingestion.jsonl import read_json_lines
from rag_bm25.ingestion.rows import join_title, row_id, row_parts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path


@dataclass(frozen=True)
class BeirDataset:
    """Documents, queries and relevance judgements.

    Parameters
    ----------
    texts : dict of str to str
        Document id -> text.
    queries : dict of str to str
        Query id -> text, of the judged queries.
    qrels : dict of str to dict of str to int
        Query id -> document id -> grade.
    titles : dict of str to str
        Document id -> title, of the documents that have one.

    Examples
    --------
    >>> dataset = BeirDataset({"d1": "grow on trees"}, {}, {}, {"d1": "Apples"})
    >>> dataset.corpus
    {'d1': 'Apples grow on trees'}
    >>> dataset.documents({"title"})
    ({'d1': 'grow on trees'}, {'title': {'d1': 'Apples'}})
    """

    texts: dict[str, str]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]
    titles: dict[str, str] = field(default_factory=dict)

    @cached_property
    def corpus(self) -> dict[str, str]:
        """Document id -> title and text, separated by a space."""
        return _join_titles(self.texts, self.titles)

    def documents(self, fields: Collection[str]) -> tuple[dict[str, str], dict[str, Mapping[str, str]]]:
        """Return the texts, and those of fields apart from them.

        Parameters
        ----------
        fields : collection of str
            Names of the fields of an index: none, or ``title``.

        Returns
        -------
        texts : dict of str to str
            Document id -> text, which begins with the title unless that is a field.
        fields : dict of str to mapping of str to str
            Name of each field -> document id -> its text.

        Raises
        ------
        ParameterError
            There is a field with another name.
        """
        if others := [name for name in fields if name != "title"]:
            raise ParameterError(f"a field must be 'title', the only one in BEIR format, got {others[0]!r}")
        return (self.texts, {"title": self.titles}) if fields else (self.corpus, {})


def load_beir(folder: Path, split: str = "test") -> BeirDataset:
    """Read a judged set in BEIR format.

    Parameters
    ----------
    folder : Path
        A folder with ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<split>.tsv``.
    split : str
        Name of the judgements.

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
            msg = f"{folder} is not a judged set in BEIR format: {file.relative_to(folder).as_posix()} not found"
            raise InputError(msg)
    qrels = _read_qrels(qrels_file)
    queries = _join_titles(*_read_rows(folder / "queries.jsonl", None))
    if missing := [query for query in qrels if query not in queries]:
        raise InputError(f"{qrels_file} has judgements of the query {missing[0]!r}, which is not in queries.jsonl")
    texts, titles = _read_rows(folder / "corpus.jsonl", MAX_TEXT_BYTES)
    if not texts or not qrels:
        raise InputError(f"{folder} has {len(texts)} documents and {len(qrels)} judged queries: nothing to evaluate")
    return BeirDataset(texts, {query: queries[query] for query in qrels}, qrels, titles)


def _join_titles(texts: Mapping[str, str], titles: Mapping[str, str]) -> dict[str, str]:
    return {id_: join_title(titles.get(id_, ""), text) for id_, text in texts.items()}


def _read_rows(file: Path, limit: int | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return texts and titles; `limit` is the maximum size of both together, in bytes."""
    texts: dict[str, str] = {}
    titles: dict[str, str] = {}
    with file.open("rb") as stream:
        for line in read_json_lines(stream):
            id_, (title, text) = row_id(line), row_parts(line)
            if id_ in texts:
                raise InputError(f"{line.where}: the id {id_!r} already exists")
            size = len(join_title(title, text).encode(errors="surrogatepass"))
            if limit is not None and size > limit:
                msg = f"{line.where}: the document {id_!r} has {size:,} bytes of UTF-8, at most {limit:,} are allowed"
                raise InputError(msg)
            texts[id_] = text
            titles |= {id_: title} if title else {}
    return texts, titles


def _read_qrels(file: Path) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not UTF-8 at byte {error.start} of the file") from None
    for number, line in enumerate(lines, 1):
        if not line.strip() or (number == 1 and _is_header(line)):
            continue
        try:
            query, document, grade = map(str.strip, line.split("\t"))
            qrels.setdefault(query, {})[document] = int(grade)
        except ValueError:
            msg = f"{file} line {number}: must be query id, document id and a whole number, separated by tabs, "
            msg += f"got {line!r}"
            raise InputError(msg) from None
    return qrels


def _is_header(line: str) -> bool:
    return line.count("\t") == 2 and not line.rpartition("\t")[2].strip().lstrip("-").isdigit()

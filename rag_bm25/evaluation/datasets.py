"""Judged sets in BEIR format."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, cast

from rag_bm25.documents.checks import check_chunk
from rag_bm25.errors import InputError, ParameterError
from rag_bm25.evaluation.measures import MAX_GRADE
from rag_bm25.ingestion.jsonl import read_json_lines
from rag_bm25.ingestion.rows import join_title, row_id, row_parts
from rag_bm25.weighting.fields import DEFAULT_FIELDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path
    from typing import BinaryIO

QRELS_SUFFIXES = (".tsv", ".qrels", ".txt")
HEADER = re.compile(r"[^\t]*\t[^\t]*\t\s*[^\W\d][^\t]*")  # its third column is a name


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
        Query id -> document id -> grade, at most 1,000. One below 0 counts as 0.
    titles : dict of str to str
        Document id -> title, of the documents that have one.
    skipped : list of str
        Why documents were left out that no index can store, one reason each. They remain judged.

    Examples
    --------
    >>> dataset = BeirDataset({"d1": "grow on trees"}, {}, {}, {"d1": "Apples"})
    >>> dataset.corpus
    {'d1': 'Apples grow on trees'}
    >>> dataset.fields({"title"})
    {'title': {'d1': 'Apples'}}
    """

    texts: dict[str, str]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]
    titles: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    @cached_property
    def corpus(self) -> dict[str, str]:
        """Document id -> title and text, separated by a space."""
        return _join_titles(self.texts, self.titles)

    def fields(self, names: Collection[str]) -> dict[str, Mapping[str, str]]:
        """Return the texts of the fields of an index.

        Parameters
        ----------
        names : collection of str
            Names of the fields; of the default ones, BEIR format has ``title``.

        Returns
        -------
        dict of str to mapping of str to str
            Name of each field -> document id -> its text.

        Raises
        ------
        ParameterError
            There is a field with another name.
        """
        others = [name for name in names if name not in DEFAULT_FIELDS]
        if others and self.texts:
            raise ParameterError(f"a field must be 'title', the only one in BEIR format, got {others[0]!r}")
        return {"title": self.titles} if "title" in names else {}


def load_beir(folder: Path, split: str = "test", *, corpus: bool = True) -> BeirDataset:
    """Read a judged set in BEIR format.

    Each file may be compressed, as ``corpus.jsonl.gz``. The judgements may be in TREC's format.

    Parameters
    ----------
    folder : Path
        A folder with ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<split>.tsv``, ``.qrels`` or ``.txt``.
    split : str
        Name of the judgements.
    corpus : bool
        Whether to read the documents, which an index may have already.

    Returns
    -------
    BeirDataset
        With the judged queries only, and the documents that an index can store.

    Raises
    ------
    InputError
        A file is missing or malformed; the message names file and line.
    """
    instead = "; to measure an existing index: --collection NAME, or corpus=False in Python"
    documents = [_find(folder, "corpus.jsonl", instead=instead)] if corpus else []
    queries_file = _find(folder, "queries.jsonl")
    qrels_file = _find(folder, *(f"qrels/{split}{suffix}" for suffix in QRELS_SUFFIXES))
    qrels = _read_qrels(qrels_file)
    queries = _join_titles(*_read_rows(queries_file))
    if missing := [query for query in qrels if query not in queries]:
        raise InputError(
            f"{qrels_file} has judgements of the query {missing[0]!r}, which is not in {queries_file.name}"
        )
    skipped: list[str] = []
    texts, titles = _read_rows(documents[0], skipped) if documents else ({}, {})
    if (corpus and not texts) or not qrels:
        raise InputError(f"{folder} has {len(texts)} documents and {len(qrels)} judged queries: nothing to evaluate")
    return BeirDataset(texts, {query: queries[query] for query in qrels}, qrels, titles, skipped)


def _find(folder: Path, *names: str, instead: str = "") -> Path:
    """Return the first of these files that exists, as it is or compressed; else say what to do instead."""
    for name in names:
        for file in (folder / name, folder / f"{name}.gz"):
            if file.is_file():
                return file
    raise InputError(f"{folder} is not a judged set in BEIR format: {names[0]} not found{instead}")


@contextmanager
def _open(file: Path) -> Iterator[BinaryIO]:
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            yield cast("BinaryIO", stream)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{file}: not gzip, or damaged: {error}") from None


def _join_titles(texts: Mapping[str, str], titles: Mapping[str, str]) -> dict[str, str]:
    return {id_: join_title(titles.get(id_, ""), text) for id_, text in texts.items()}


def _read_rows(file: Path, skipped: list[str] | None = None) -> tuple[dict[str, str], dict[str, str]]:
    """Return texts and titles; with `skipped`, leave out what cannot be stored, and add the reason."""
    texts: dict[str, str] = {}
    titles: dict[str, str] = {}
    with _open(file) as stream:
        for line in read_json_lines(stream):
            id_, (title, text) = row_id(line), row_parts(line)
            if id_ in texts:
                raise InputError(f"{line.where}: the id {id_!r} already exists")
            if skipped is not None and (fault := _find_fault(id_, title, text)):
                skipped.append(f"{line.where}: {fault}")
                continue
            texts[id_] = text
            titles |= {id_: title} if title else {}
    return texts, titles


def _find_fault(id_: str, title: str, text: str) -> str:
    """Say why a document cannot be stored, "" if it can."""
    try:
        check_chunk(join_title(title, text), id_, {"title": title})
    except InputError as error:
        return str(error)
    return ""


def _read_qrels(file: Path) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    try:
        with _open(file) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig") as text:
            lines = text.read().split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not UTF-8 at byte {error.start} of the file") from None
    for number, line in enumerate(lines, 1):
        if not line.strip() or (number == 1 and HEADER.fullmatch(line)):
            continue
        try:
            query, document, written = _split_judgement(line)
            grade = _read_grade(written)
        except ValueError:
            msg = f"{file} line {number}: must be query id, document id and a whole number up to {MAX_GRADE:,}, "
            msg += f"separated by tabs, or TREC's four columns, got {line!r}"
            raise InputError(msg) from None
        if (before := qrels.setdefault(query, {}).setdefault(document, grade)) != grade:
            msg = f"{file} line {number}: the document {document!r} already has the grade {before} for {query!r}"
            raise InputError(f"{msg}, not {grade}")
    return qrels


def _split_judgement(line: str) -> tuple[str, str, str]:
    """Return query id, document id and grade; the format is BEIR's, or TREC's, whose second column says nothing."""
    columns = line.split("\t")
    if len(columns) != 3:
        columns = re.split(r"[ \t]+", line.strip())
        del columns[1:2]
    query, document, grade = map(str.strip, columns)
    return query, document, grade


def _read_grade(text: str) -> int:
    """Read a whole number, which may be written as 1.0."""
    grade = float(text)
    if not grade.is_integer() or grade > MAX_GRADE:
        raise ValueError(text)
    return int(grade)

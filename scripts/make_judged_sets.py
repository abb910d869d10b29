"""Make judged sets, as scripts/quality reads them, of files in other formats.

::

    python scripts/make_judged_sets.py smart cran cran.all.1400 cran.qry cranqrel
    python scripts/make_judged_sets.py squad drcd DRCD_dev.json DRCD_test.json
    python scripts/make_judged_sets.py squad-documents covid-qa 200423_covidQA.json
    python scripts/make_judged_sets.py rgb rgb-zh zh_refine.json zh_int.json

The first argument after the format is the folder to write.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", choices=FORMATS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    FORMATS[given.format](given.folder, given.files)


def make_from_smart(folder: Path, files: list[Path]) -> None:
    """Convert documents, queries and judgments of the SMART collections: Cranfield, CISI.

    Judgments name a query by its place in the file, as those of Cranfield do, whose numbers leave some out.
    """
    documents, queries, judgments = (file.read_text(encoding="utf-8", errors="replace") for file in files)
    corpus = {number: (fields.get("T", ""), fields.get("W", "")) for number, fields in _smart_records(documents)}
    texts = {str(at): fields["W"] for at, (_, fields) in enumerate(_smart_records(queries), start=1)}
    rows = [line.split() for line in judgments.splitlines() if line.strip()]
    trec = {row[1] for row in rows} == {"0"}  # query, 0, document, relevance; else query, document, ...
    relevant = [(row[0], row[2] if trec else row[1]) for row in rows if not trec or int(row[3]) > 0]
    _write_beir(folder, corpus, texts, relevant)


def _smart_records(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the number of each record and its fields, each on one line."""
    for record in re.split(r"^\.I\s+", text, flags=re.MULTILINE)[1:]:
        number, *parts = re.split(r"^\.([A-Z])\s*$", record, flags=re.MULTILINE)
        fields = zip(parts[::2], parts[1::2], strict=True)
        yield str(int(number)), {name: " ".join(field.split()) for name, field in fields}


def make_from_squad(folder: Path, files: list[Path]) -> None:
    """Convert questions with answers to paragraphs: the paragraph is what a search should find."""
    corpus, queries, relevant = {}, {}, []
    for title, paragraph in _squad_paragraphs(files):
        name = str(len(corpus))
        corpus[name] = (title, paragraph["context"])
        for question in paragraph["qas"]:
            if not question.get("is_impossible"):
                relevant.append((str(len(queries)), name))
                queries[relevant[-1][0]] = question["question"]
    _write_beir(folder, corpus, queries, relevant)


def make_from_squad_documents(folder: Path, files: list[Path]) -> None:
    """Convert questions with answers to long documents: the answer is the passage that a chunk should have."""
    documents, queries, spans = [], [], []
    for title, document in _squad_paragraphs(files):
        name = str(len(documents))
        documents.append({"_id": name, "title": title, "text": document["context"]})
        for question in document["qas"]:
            number = str(len(queries))
            queries.append({"_id": number, "text": question["question"]})
            for answer in question["answers"]:
                start = answer["answer_start"]
                spans.append((number, name, start, start + len(answer["text"])))
    _write_lines(folder / "docs.jsonl", documents)
    _write_lines(folder / "queries.jsonl", queries)
    _write_table(folder / "spans.tsv", [("query-id", "doc-id", "start", "end"), *spans])


def _squad_paragraphs(files: list[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    for file in files:
        for article in json.loads(file.read_text(encoding="utf-8"))["data"]:
            for paragraph in article["paragraphs"]:
                yield article.get("title", ""), paragraph


def make_from_rgb(folder: Path, files: list[Path]) -> None:
    """Convert RGB, whose queries have passages that answer them, and others: the corpus is all passages."""
    names: dict[str, str] = {}
    queries, relevant = {}, []
    for line in [line for file in files for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]:
        row = json.loads(line)
        query = str(len(queries))
        queries[query] = row["query"]
        positive = dict.fromkeys(_passages(row["positive"]))
        for passage in [*positive, *_passages(row["negative"])]:
            names.setdefault(passage, str(len(names)))
        relevant += [(query, names[passage]) for passage in positive]
    _write_beir(folder, {name: ("", passage) for passage, name in names.items()}, queries, relevant)


def _passages(nested: list[Any]) -> Iterator[str]:
    """Yield the passages of a list, or of lists in a list: one for each part of an answer."""
    for one in nested:
        if isinstance(one, list):
            yield from _passages(one)
        elif one.strip():
            yield one.strip()


def _write_beir(
    folder: Path, corpus: Mapping[str, tuple[str, str]], queries: Mapping[str, str], relevant: list[tuple[str, str]]
) -> None:
    judged = {query for query, _ in relevant}
    _write_lines(
        folder / "corpus.jsonl", [{"_id": name, "title": title, "text": text} for name, (title, text) in corpus.items()]
    )
    _write_lines(
        folder / "queries.jsonl", [{"_id": name, "text": text} for name, text in queries.items() if name in judged]
    )
    (folder / "qrels").mkdir()
    rows = [(query, document, 1) for query, document in relevant]
    _write_table(folder / "qrels" / "test.tsv", [("query-id", "corpus-id", "score"), *rows])


def _write_lines(file: Path, rows: Iterable[Mapping[str, str]]) -> None:
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _write_table(file: Path, rows: Iterable[Iterable[object]]) -> None:
    file.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")


FORMATS = {
    "smart": make_from_smart,
    "squad": make_from_squad,
    "squad-documents": make_from_squad_documents,
    "rgb": make_from_rgb,
}

if __name__ == "__main__":
    main()

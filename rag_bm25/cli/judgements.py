"""Name the judgements that an index cannot meet, and the queries that find nothing relevant."""

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice

from rag_bm25.checks import find_bad_character
from rag_bm25.cli.console import print_note
from rag_bm25.documents.checks import MAX_ID_BYTES
from rag_bm25.errors import short_repr
from rag_bm25.evaluation import BeirDataset
from rag_bm25.evaluation.running import CHUNK_NUMBER, Run, are_of_chunks
from rag_bm25.hits.neighbors import source_of
from rag_bm25.index.arguments import MAX_LISTED, Namespaces, check_namespaces, list_first
from rag_bm25.index.index import BM25Index

MAX_SCANNED = 10_000  # chunks whose ids and sources are compared with a name


def note_missing(index: BM25Index, dataset: BeirDataset, namespace: Namespaces) -> None:
    """Note the documents or chunks that are judged relevant, and are not in the index."""
    for note in describe_missing(index, dataset, namespace):
        print_note(note)


def describe_missing(index: BM25Index, dataset: BeirDataset, namespace: Namespaces) -> Iterator[str]:
    """Yield a note on the documents or chunks that are judged relevant, and are not in the index, if there are any."""
    judged = dict.fromkeys(id_ for grades in dataset.qrels.values() for id_, grade in grades.items() if grade > 0)
    numbers = ("",) if dataset.texts or are_of_chunks(dataset.qrels) else ("", "#0", "#1")
    chunks_of = {id_: [f"{id_}{number}" for number in numbers if _can_be_id(f"{id_}{number}")] for id_ in judged}
    wanted = [chunk for chunks in chunks_of.values() for chunk in chunks]
    names = check_namespaces(namespace) or ("",)
    stored = {chunk.id for name in names for chunk in index.get(wanted, namespace=name)}
    if missing := [id_ for id_, chunks in chunks_of.items() if stored.isdisjoint(chunks)]:
        shown = [*_with_hints(index, namespace, missing[:MAX_LISTED]), *missing[MAX_LISTED:]]
        yield (
            f"{len(missing):,} of {len(judged):,} ids that are judged relevant are not in the index: "
            f"{list_first(shown)}. Chunks or their documents must have the ids of the judgements."
        )


def _can_be_id(text: str) -> bool:
    return 0 < len(text.encode(errors="surrogatepass")) <= MAX_ID_BYTES and not find_bad_character(text)


def _with_hints(index: BM25Index, namespace: Namespaces, missing: list[str]) -> Iterator[str]:
    """Yield each id with the ids of its chunks if it is a source, or with a name that is near."""
    known = {
        name
        for chunk in islice(index.chunks(namespace=namespace), MAX_SCANNED)
        for name in (CHUNK_NUMBER.sub("", chunk.id), source_of(chunk))
        if name
    }
    for id_ in missing:
        of_source = index.chunks(filter={"source": id_}, namespace=namespace) if _can_be_id(id_) else iter(())
        chunk = next(of_source, None)
        similar = get_close_matches(id_, known, 1)
        hint = f" (did you mean {similar[0]!r}?)" if similar else ""
        yield short_repr(id_) + (hint if chunk is None else f" (a source, whose chunks have ids such as {chunk.id!r})")


def list_failing(dataset: BeirDataset, run: Run) -> list[str]:
    """Return the ids of the queries that have relevant documents, and find none of them."""
    relevant = {query: {id_ for id_, grade in of.items() if grade > 0} for query, of in dataset.qrels.items()}
    return [query for query, ids in relevant.items() if ids and ids.isdisjoint(run[query])]

"""Answers as agents read them: plain text, with what to do next."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rag_bm25.index.arguments import list_namespaces

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rag_bm25.serving import requests

PLACES = ("start_index", "end_index", "chunk")  # in the metadata; ids have them for people


def render_hits(asked: requests.AgentSearch, answer: Mapping[str, Any]) -> str:
    """Return hits, each with its id, score, metadata and text."""
    hits = answer["hits"]
    if not hits:
        return str(answer["reasons"])
    noun = "chunk" if len(hits) == 1 else "chunks"
    lines = [f"{len(hits)} {noun} for {asked.text!r}, best first. Read more around one with document and its id."]
    for rank, hit in enumerate(hits, 1):
        lines += ["", f"{rank}. id {hit['id']}, score {hit['score']:.3f}{_name_place(hit)}"]
        passage = hit.get("context") or hit
        lines += [*_list_metadata(hit["metadata"]), *_list_text(passage)]
    return "\n".join(lines)


def render_explanation(_: object, answer: Mapping[str, Any]) -> str:
    """Return a table of the terms, or a tree of formulas."""
    return str(answer["text"])


def render_suggestion(asked: requests.Suggest, answer: Mapping[str, Any]) -> str:
    """Return the corrected text."""
    suggestion = answer["suggestion"]
    return f"Did you mean {suggestion!r}?" if suggestion else f"There is nothing to correct in {asked.text!r}."


def render_figures(asked: requests.AgentStatistics, answer: Mapping[str, Any]) -> str:
    """Return the figures of an index, and those of terms."""
    index = answer["index"]
    names = list_namespaces(index["namespaces"]) or "none"
    length = f"mean length {index['mean_length']:.1f} ({index['length_unit']}), chunk size {index['chunk_size']:g}"
    lines = [
        f"{index['num_chunks']:,} chunks, {index['num_terms']:,} terms, {length}.",
        f"weighting {index['weighting']}, k1 {index['k1']:g}, b {index['b']:g}. namespaces: {names}.",
        *(f"damaged: {fault}" for fault in answer["damage"]),
    ]
    if "terms" in answer:
        lines += ["", f"Words of {asked.text!r}:", *_list_terms(answer["terms"])]
    if "top" in answer:
        lines += ["", "Terms that most chunks have:", *_list_terms(answer["top"])]
    return "\n".join(lines)


def render_documents(asked: requests.AgentDocument, answer: Mapping[str, Any]) -> str:
    """Return a chunk, or those of a source."""
    if asked.id is not None:
        return "\n".join([f"id {answer['id']}{_name_place(answer)}", *_list_chunk(answer)])
    chunks, total = answer["documents"], answer["total"]
    if not chunks:
        return f"No chunk of {asked.source!r}" + (
            f" after the first {asked.offset:,}; there are {total:,}." if total else "."
        )
    end = asked.offset + len(chunks)
    more = f" Ask for offset={end} next." if end < total else ""
    lines = [f"Chunks {asked.offset + 1:,} to {end:,} of {total:,} of {asked.source!r}.{more}"]
    for chunk in chunks:
        lines += ["", f"id {chunk['id']}", *_list_chunk(chunk)]
    return "\n".join(lines)


def render_added(_: object, answer: Mapping[str, Any]) -> str:
    """Return the ids of stored chunks."""
    return f"{answer['count']:,} stored. ids: {json.dumps(answer['ids'], ensure_ascii=False)}"


def render_deleted(_: object, answer: Mapping[str, Any]) -> str:
    """Return the number of deleted chunks."""
    return f"{answer['deleted']:,} deleted."


def _name_place(chunk: Mapping[str, Any]) -> str:
    return f", namespace {chunk['namespace']!r}" if chunk["namespace"] else ""


def _list_chunk(chunk: Mapping[str, Any]) -> list[str]:
    return [*_list_metadata(chunk["metadata"]), *_list_text(chunk.get("context") or chunk)]


def _list_metadata(metadata: Mapping[str, Any]) -> list[str]:
    shown = {name: value for name, value in metadata.items() if name not in PLACES}
    return [f"metadata {json.dumps(shown, ensure_ascii=False)}"] if shown else []


def _list_text(passage: Mapping[str, Any]) -> list[str]:
    cut = f" [cut: {passage['characters']:,} characters]" if "characters" in passage else ""
    return [passage["text"] + cut]


def _list_terms(terms: Sequence[Mapping[str, Any]]) -> list[str]:
    if not terms:
        return ["none"]
    return [
        f"{term['term']}: in {term['df']:,} of {term['num_chunks']:,} chunks, IDF {term['idf']:.3f}" for term in terms
    ]

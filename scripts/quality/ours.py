"""The default configuration, and each of its choices taken back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from quality.sets import sample
from rag_bm25 import AnalyzerConfig, IndexConfig
from rag_bm25.documents.lengths import LengthUnit
from rag_bm25.evaluation import BeirDataset, evaluate_each, with_settings
from rag_bm25.evaluation.running import Run, mean_length
from rag_bm25.ingestion.language import settings_for

DEFAULT = "**the default**"


def _config(analyzer: dict[str, Any] | None = None, **settings: Any) -> IndexConfig:
    return IndexConfig(1, analyzer=AnalyzerConfig(**(analyzer or {})), **{"fields": "default", **settings})


CHOICES: dict[str, IndexConfig] = {
    DEFAULT: _config(),
    "`fields=none`": _config(fields={}),
    "`idf=lucene`": _config(idf="lucene"),
    "`length_unit=characters`": _config(length_unit="characters"),
    "`length_unit=terms`": _config(length_unit="terms"),
    "`question_words=()`": _config({"question_words": ()}),
    "`question_word_weight=0`": _config(question_word_weight=0.0),
    "`question_word_weight=0.15`": _config(question_word_weight=0.15),
    "`query_stop_structures=false`": _config({"query_stop_structures": False}),
    "`query_segmentation=search`": _config({"query_segmentation": "search"}),
    "`word_bigram_weight=0`": _config(word_bigram_weight=0.0),
    "`word_bigram_weight=0.1`": _config(word_bigram_weight=0.1),
    "`word_bigram_weight=0.2`": _config(word_bigram_weight=0.2),
    "`word_bigram_weight=0.3`": _config(word_bigram_weight=0.3),
    "`bigram_weight=0`": _config(bigram_weight=0.0),
    "`bigram_weight=0.4`": _config(bigram_weight=0.4),
    "`bigram_weight=0.6`": _config(bigram_weight=0.6),
    "`character_weight=0`": _config(character_weight=0.0),
    "`character_weight=0.2`": _config(character_weight=0.2),
    "`distinct_bigrams=false`": _config({"distinct_bigrams": False}),
    "`latin_weight=1`": _config(latin_weight=1.0),
    "`latin_weight=1.5`": _config(latin_weight=1.5),
    "`k1=0.9`, `b=0.4`": _config(k1=0.9, b=0.4),
    "`weighting=bm25l`": _config(weighting="bm25l"),
    "`weighting=bm25+`": _config(weighting="bm25+"),
    "`compounds=all`": _config({"compounds": "all"}),
    "`split_camel_case=true`": _config({"split_camel_case": True}),
}


def runs(dataset: BeirDataset, wanted: list[str]) -> Iterator[tuple[str, Run]]:
    """Search by each of some choices, with the settings that `ingest` takes for another language than English."""
    settings = settings_for(sample(dataset), {})
    configs = [sized(with_settings(CHOICES[name], settings), dataset) for name in wanted]
    for name, result in zip(wanted, evaluate_each(configs, dataset), strict=True):
        yield name, result.run


def sized(config: IndexConfig, dataset: BeirDataset) -> IndexConfig:
    """Return a config with the mean length as its chunk size, in characters where lengths are estimated."""
    unit: LengthUnit = "terms" if config.length_unit == "terms" else "characters"
    return replace(config, chunk_size=mean_length(dataset.corpus.values(), unit, config.build_analyzer()))

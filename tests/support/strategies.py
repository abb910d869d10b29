"""What hypothesis draws: words, texts, corpora, metadata and parameters."""

from __future__ import annotations

from hypothesis import strategies as st

from rag_bm25.weighting.document import DocumentWeighting
from rag_bm25.weighting.fields import FieldWeight
from rag_bm25.weighting.formulas import WEIGHTING_NAMES, WEIGHTINGS
from rag_bm25.weighting.idf import IDF_NAMES
from rag_bm25.weighting.query import QueryWeighting

WORDS = ["apple", "banana", "cherry", "中文", "检索", "fig", "grape", "ü"]

words = st.sampled_from(WORDS)
any_terms = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)


def texts(max_words: int = 8) -> st.SearchStrategy[str]:
    """Draw texts of a few words, also without any: few enough that terms meet again."""
    return st.lists(words, max_size=max_words).map(" ".join)


def corpora(min_size: int = 0, max_size: int = 8) -> st.SearchStrategy[dict[str, str]]:
    """Draw ``{id: text}``."""
    return st.dictionaries(st.sampled_from("abcdefghij"), texts(), min_size=min_size, max_size=max_size)


lengths = st.integers(0, 100_000)
tfs = st.integers(1, 10_000)
chunk_sizes = st.floats(0.01, 1e6)
shares = st.sampled_from([0, 0.75, 1]) | st.floats(0, 1)
field_weights = st.builds(FieldWeight, chunk_size=chunk_sizes, weight=st.floats(0.001, 1000), b=shares)


@st.composite
def weightings(draw: st.DrawFn, names: tuple[str, ...] = WEIGHTING_NAMES, max_fields: int = 0) -> DocumentWeighting:
    """Draw any document side, with parameters that suit it."""
    name = draw(st.sampled_from(names))
    form = WEIGHTINGS[name]
    k1 = draw(st.sampled_from([0, 0.001, 1.2, 1.5, 2, 1000]) | st.floats(0, 10))
    deltas = st.none() if form.delta is None else st.none() | st.floats(form.least_delta, 10)
    fields = st.dictionaries(field_names, field_weights, max_size=max_fields if form.combines_fields else 0)
    return DocumentWeighting(
        chunk_size=draw(chunk_sizes),
        k1=max(k1, form.least_k1),
        b=draw(shares),
        form=name,  # type: ignore[arg-type]
        delta=draw(deltas),
        fields=draw(fields),
    )


field_names = st.sampled_from(["title", "标题", "a 'quoted' name"])
document_weightings = weightings()
bigram_weights = st.sampled_from([0, 0.4, 1]) | st.floats(0.001, 10)
idf_names = st.sampled_from([name for name in IDF_NAMES if name != "adpt"])  # which must be learned
query_weightings = st.builds(
    QueryWeighting,
    idf=idf_names,
    epsilon=st.floats(0.001, 10),
    k3=st.none() | st.sampled_from([0, 8]) | st.floats(0, 1000),
    bigram_weight=bigram_weights,
    character_weight=bigram_weights,
    latin_weight=st.sampled_from([1, 2]) | st.floats(0.001, 10),
    question_word_weight=st.sampled_from([0, 0.3]) | st.floats(0.001, 10),
)

json_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | any_terms
)
json_values = st.recursive(
    json_scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_terms, inner, max_size=3),
    max_leaves=6,
)
metadatas = st.dictionaries(any_terms, json_values, max_size=4)

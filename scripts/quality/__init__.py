"""The quality of the default and of each of its choices, beside other packages, on judged sets.

::

    pip install '.[bench,eval]'
    python scripts/quality path/to/scifact path/to/stard-law ... --kept quality

A folder holds a judged set in BEIR format, or long documents with judged passages: ``docs.jsonl``, ``queries.jsonl``
and ``spans.tsv``, which are cut into chunks of 500 characters. Our indexes are in memory; the chunk size is the mean
number of characters, or of terms where lengths are in terms. Peers have k1 1.5 and b 0.75, too. What was measured is
kept in the folder ``--kept``, query by query, and read from it the next time.
"""

"""The statistics as rows of Milvus that are only ever inserted and deleted.

=========  ====================================  =============================================================
kind       key                                   holds
=========  ====================================  =============================================================
config     ``config:index:<part>:<parts>``       format version, parameters and analyzer contract
terms      ``terms:<batch>:<part>:<parts>``      terms first seen by a batch, and the ids of displaced ones
intent     ``intent:<batch>:0:1``                a write in progress: what it inserts and deletes, and what its
                                                 chunks contributed before
lease      ``lease:<batch>:<part>:<parts>``      a sign that the writer of an intent is still alive
delta      ``delta:<batch>:<part>:<parts>``      what a batch changed: N, length and the df of its terms
run        ``run:<batch>:<part>:<part + 1>``     the sum of many deltas, by namespace and id
head       ``head:<batch>:<part>:<parts>``       the runs in force, and the deltas that they hold
answers    ``answers:<batch>:0:1``               the model of the confidence that a hit answers; the newest counts
k1         ``k1:<batch>:<part>:<parts>``         the k1 of each term, as it was learned; the newest counts
copy       ``copy:index:0:1``                    the mark of an unfinished copy of another index
root       ``root:<batch>:<part>:<parts>``       the folders and files that sources are named by
=========  ====================================  =============================================================

One codec class a kind (``ConfigRow``, ``TermsRow``, ...) encodes values as rows and decodes them. A key says how many
rows its entry has: an entry counts when all of them are stored, and is passed over until then.
"""

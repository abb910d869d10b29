"""What the tests share: engines, stores that fail, an independent BM25, what hypothesis draws."""

import os

if "SPARSE_SHIM" in os.environ:  # of the program that has started this one
    from support import sparse_shim

    sparse_shim.install()

"""``python -m rag_bm25`` is ``rag-bm25``; before anything else is imported, the current folder leaves the path."""

import sys

from rag_bm25.safe_path import safe_path

if __name__ == "__main__":
    sys.path[:] = safe_path()
    from rag_bm25.cli import main

    main()

"""``python -m rag_bm25`` is ``rag-bm25``."""

from __future__ import annotations

from rag_bm25.cli import main

if __name__ == "__main__":
    main()

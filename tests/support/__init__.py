"""What the tests share: engines, stores that fail, an independent BM25, what hypothesis draws."""

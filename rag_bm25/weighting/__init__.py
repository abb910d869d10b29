"""Every formula, once: document weights, IDF, query weights."""

"""Post-process hits: boost, rerank, group, diversify, add context, highlight."""

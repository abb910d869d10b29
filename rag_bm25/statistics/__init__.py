"""The corpus's side: N and df, as sums over chunks."""

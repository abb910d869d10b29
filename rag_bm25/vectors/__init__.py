"""Sparse vectors, terms and their ids."""

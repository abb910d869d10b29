"""Fuzzers: a module for each target, whose ``check`` is a test of Hypothesis. See ``__main__``."""

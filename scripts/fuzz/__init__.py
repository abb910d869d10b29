"""Fuzzers: a module for each target, whose ``check`` raises where one input breaks a rule. See ``__main__``."""

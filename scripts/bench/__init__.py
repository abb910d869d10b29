"""Benchmarks of the library against the limits of the engine and against peers.

Run by ``python scripts/bench``; ``--help`` tells the rest.
"""

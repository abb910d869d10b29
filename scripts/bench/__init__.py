"""The benchmark suite: how near the library comes to what the engine allows, beside what else there is.

Run by ``python scripts/bench``; ``--help`` tells the rest.
"""

"""Long runs: growth, daily use, killed processes, several writers, and all ways into an index.

``python scripts/soak`` grows an index and uses it day by day; ``kill_test.py``, ``several_writers.py`` and
``same_bits.py`` are programs of their own.
"""

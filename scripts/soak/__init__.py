"""Long runs: growth, daily use, killed processes and several writers.

``python scripts/soak`` grows an index and uses it day by day; ``kill_test.py`` and ``several_writers.py`` are
programs of their own.
"""

"""How near the truth: a panel whose selection nobody knows, beside a survey without the answers.

Run with ``python -m benchmarks.accuracy``. Peers that cannot share the environment run in one of their own, through
files (`benchmarks.accuracy.elsewhere`).
"""

"""Two versions of vardi by turns, each in processes of its own: ``python -m benchmarks turns --old PATH``."""

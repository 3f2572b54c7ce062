"""Benchmarks: ``python -m benchmarks [NAME ...] [--quick] [--output FILE]``, peers side by side in one run."""

"""``python -m benchmarks [NAME]... [OPTIONS]``."""

from benchmarks.command import app

app(prog_name="python -m benchmarks")

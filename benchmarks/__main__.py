"""``python -m benchmarks [NAME]... [OPTIONS]``, and ``python -m benchmarks turns --old PATH``."""

import sys

if sys.argv[1:2] == ["turns"]:
    from benchmarks.turns.command import app as turns

    turns(sys.argv[2:], prog_name="python -m benchmarks turns")
else:
    from benchmarks.command import app

    app(prog_name="python -m benchmarks")

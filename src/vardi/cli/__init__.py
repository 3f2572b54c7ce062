"""The command line: arguments, the public API, files. Needs typer and rich: ``pip install 'vardi[cli]'``."""

from __future__ import annotations

import sys
from importlib.util import find_spec

__all__ = ["main"]


def main() -> int:
    """Run ``vardi`` and return its exit code."""
    missing = [name for name in ("typer", "rich") if find_spec(name) is None]
    if missing:
        needs = " and ".join(missing)
        print(f"vardi: the command line needs {needs}. Install with: pip install 'vardi[cli]'", file=sys.stderr)
        return 2
    try:
        from vardi.cli._app import app

        app(prog_name="vardi")
    except SystemExit as finished:
        return finished.code if isinstance(finished.code, int) else int(finished.code is not None)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    return 0

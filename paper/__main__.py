"""``python -m paper [NAME]... [OPTIONS]``, from the root of the project."""

import io
import sys
from importlib.util import find_spec

from paper.exit_codes import INTERRUPTED, USAGE

NEEDS = ("jinja2", "matplotlib", "pandas", "rich", "typer", "vardi")


def main() -> int:
    """Run the command and return its exit code."""
    missing = [name for name in NEEDS if find_spec(name) is None]
    if missing:
        print(
            f"error: The paper needs {' and '.join(missing)}. Run make paper, "
            "or install with: pip install --editable . --group paper",
            file=sys.stderr,
        )
        return USAGE
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a question mark for each character that the encoding lacks
    try:
        from paper.command import app

        app(prog_name="python -m paper")
    except KeyboardInterrupt:  # while the packages load
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())

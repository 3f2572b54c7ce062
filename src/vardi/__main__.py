"""``python -m vardi`` is ``vardi``."""

import sys

from vardi.cli import main

if __name__ == "__main__":
    sys.exit(main())

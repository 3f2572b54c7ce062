"""How ``python -m paper`` ends, if not with 0."""

FAILED = 1
"""The data fail a check of vardi."""
USAGE = 2
"""The command is wrong, or a package is not installed."""
UNWRITTEN = 3
"""An output cannot be written."""
INTERRUPTED = 130
"""Ctrl-C; finished runs are kept."""
CLOSED = 141
"""The reader of the output has gone, as ``head`` does."""

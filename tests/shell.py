"""The command line, run in this process, and what it writes."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner, Result

from vardi.cli._app import app
from vardi.cli._demo import FILES, STUDY
from vardi.study._outputs import draw, write_weights

__all__ = ["FILES", "STUDY", "draw", "invoke", "write_weights"]


def invoke(*arguments: Any, **options: Any) -> Result:
    """Run ``vardi`` with these arguments, as texts."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], **options)

"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def complete_study(incomplete: str) -> list[str]:
    """Return the study files and folders that begin with the given text, for shell completion."""
    stem = Path(incomplete)
    folder = stem if incomplete.endswith("/") else stem.parent
    if not folder.is_dir():
        return []
    found = [path for path in sorted(folder.iterdir()) if path.is_dir() or path.suffix == ".toml"]
    names = [f"{path}/" if path.is_dir() else str(path) for path in found]
    return [name for name in names if name.startswith(incomplete)]


StudyFile = Annotated[
    Path, typer.Argument(metavar="STUDY", help="The study file (TOML).", autocompletion=complete_study)
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite existing outputs.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables; errors too.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")]

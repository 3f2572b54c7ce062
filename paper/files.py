"""Files and folders of the results. A file appears whole or not at all: an interruption leaves no half of one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from vardi import OutputError


def made_folder(path: Path) -> Path:
    """Return a folder that is there, or refuse one that cannot be made."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"The folder {path} cannot be made: {error.strerror}.", path=str(path)) from error
    return path


def write(path: Path, content: bytes) -> None:
    """Write a file under a temporary name beside its own, and rename it."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}.", path=str(path)) from error
    finally:
        with suppress(OSError):
            temporary.unlink()

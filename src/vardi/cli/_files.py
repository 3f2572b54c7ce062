"""The outputs of one command: checked before any work, and written all together or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vardi._machine.atomic_write import require_writable, whole_file
from vardi.errors import OutputError

if TYPE_CHECKING:
    from vardi.study import Study


def require_outputs(paths: Sequence[Path], study: Study, *, force: bool) -> None:
    """Refuse an output that could not be written, before any work."""
    inputs = {study.path.resolve(), *(file.resolve() for data in study.data for file in data.files)}
    for place, path in enumerate(paths):
        if path.resolve() in inputs:
            raise OutputError(
                f"{path} is read by the study, so it is not overwritten. Name another file.", path=str(path)
            )
        if path.resolve() in [other.resolve() for other in paths[:place]]:
            raise OutputError(f"{path} is named for two outputs. Give each its own name.", path=str(path))
        require_free(path, force=force)


def require_free(path: Path, *, force: bool, remedy: str = "Give --force to overwrite it.") -> None:
    """Refuse a path that cannot be written to, with a remedy."""
    try:
        str(path).encode()
    except UnicodeEncodeError:  # engines cannot write to a name that is not UTF-8
        shown = os.fsencode(path).decode(errors="replace")
        raise OutputError(f"{shown} is not a name in UTF-8. Name another file.", path=str(path)) from None
    require_writable(path, overwrite=force, remedy=remedy)


@contextmanager
def together(paths: Sequence[Path], *, force: bool) -> Iterator[list[Path]]:
    """Yield temporary names for all outputs, which are moved into place when all are written."""
    with ExitStack() as stack:
        yield [stack.enter_context(whole_file(path, overwrite=force)) for path in paths]


@contextmanager
def writing(target: Path, temporary: Path) -> Iterator[None]:
    """Report an output that cannot be written by its final name, whatever writes it under whatever name."""
    try:
        yield
    except OutputError as error:
        raise OutputError(str(error).replace(str(temporary), str(target)), path=str(target)) from error
    except Exception as error:
        reason = _reason(error)
        if reason is None:
            raise
        raise OutputError(f"{target} was not written: {reason}.", path=str(target)) from error


def _reason(error: Exception) -> str | None:
    """Return the operating system's reason if an exception is about a file; engines give only its number."""
    told = re.search(r"\(os error (\d+)\)", str(error))
    if told:
        return os.strerror(int(told.group(1)))
    return (error.strerror or str(error)) if isinstance(error, OSError) else None

"""Files appear whole or not at all: written under a temporary name in the same folder, then moved into place."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vardi.errors import OutputError


def require_writable(path: str | os.PathLike[str], *, overwrite: bool, remedy: str = "Name another file.") -> Path:
    """Return the path of an output, or refuse one that cannot be written, before any work; ``remedy`` if it exists."""
    target = Path(path)
    if target.is_dir():
        raise OutputError(f"{target} is a folder. Give the name of a file in it.", path=str(target))
    if target.exists() and not target.is_file():
        raise OutputError(f"{target} is a device or a pipe, not a file. Give the name of a file.", path=str(target))
    if os.path.lexists(target) and not overwrite:
        raise OutputError(f"{target} already exists, and is not overwritten. {remedy}", path=str(target))
    if not target.parent.is_dir():
        raise OutputError(f"{target} cannot be written: there is no folder {target.parent}.", path=str(target))
    as_who_writes = os.access in os.supports_effective_ids  # rather than as who started the process
    if not os.access(target.parent, os.W_OK | os.X_OK, effective_ids=as_who_writes):
        raise OutputError(f"{target} cannot be written: the folder {target.parent} is read-only.", path=str(target))
    return target


@contextmanager
def whole_file(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary name to write to, which is moved to ``path`` only if the block succeeds.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with whole_file(Path(folder) / "a.txt", overwrite=False) as temporary:
    ...         _ = temporary.write_text("whole")
    ...     [(path.name, path.read_text()) for path in Path(folder).iterdir()]
    [('a.txt', 'whole')]
    """
    target = require_writable(path, overwrite=overwrite)
    if target.is_symlink():  # its target is written, and the link stays
        target = require_writable(target.resolve(), overwrite=overwrite)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part{target.suffix}")
    try:
        temporary.touch(exist_ok=False)
    except OSError as error:
        raise OutputError(f"{target} cannot be written: {error.strerror}.", path=str(target)) from error
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{target} was not written: {reason}.", path=str(target)) from error
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()

"""The outputs of a command: checked before any work, written all together or not at all; a PDF by a browser."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vardi._files import require_writable
from vardi.errors import OutputError

if TYPE_CHECKING:
    from vardi.study import Study

BROWSERS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge", "msedge"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
QUIETLY = (
    "--headless --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --no-pdf-header-footer"
)


def require_outputs(outputs: Mapping[str, Path], study: Study, *, force: bool) -> None:
    """Refuse an output that could not be written, before any work: the ``"report"``, or a file of rows."""
    from vardi.report._render import require_html
    from vardi.study._outputs import require_suffix

    taken = dict.fromkeys(
        (study.path.resolve(), *(file.resolve() for data in study.data for file in data.files)),
        "is read by the study, so it is not overwritten. Name another file.",
    )
    for path in outputs.values():
        if path.resolve() in taken:
            raise OutputError(f"{path} {taken[path.resolve()]}", path=str(path))
        taken[path.resolve()] = "is named for two outputs. Give each its own name."
        require_free(path, force=force)
    for what, path in outputs.items():
        if what == "fit":
            continue
        if what != "report":
            require_suffix(path)
        elif is_pdf(path):
            require_browser(path)
        else:
            require_html(path)


def require_free(path: Path, *, force: bool, remedy: str = "Give --force to overwrite it.") -> None:
    """Refuse a path that cannot be written to, with a remedy."""
    try:
        str(path).encode()
    except UnicodeEncodeError:  # engines cannot write to a name that is not UTF-8
        shown = os.fsencode(path).decode(errors="replace")
        raise OutputError(f"{shown} is not a name in UTF-8. Name another file.", path=str(path)) from None
    require_writable(path, overwrite=force, remedy=remedy)


@contextmanager
def writing(target: Path, temporary: Path) -> Iterator[None]:
    """Report an output that cannot be written by its final name, whatever writes it under whatever name."""
    try:
        yield
    except OutputError as error:
        raise OutputError(str(error).replace(str(temporary), str(target)), path=str(target)) from error
    except Exception as error:
        number = re.search(r"\(os error (\d+)\)", str(error))  # all that engines tell
        if number is None and not isinstance(error, OSError):
            raise
        reason = os.strerror(int(number[1])) if number else getattr(error, "strerror", None) or str(error)
        raise OutputError(f"{target} was not written: {reason}.", path=str(target)) from error


def is_pdf(path: Path) -> bool:
    """Return whether a path has the suffix of a PDF."""
    return path.suffix.lower() == ".pdf"


def require_browser(path: Path) -> str:
    """Return the browser that prints, or refuse a PDF with a remedy."""
    found = next((place for name in BROWSERS if (place := shutil.which(name))), None)
    if found is None:
        page = path.with_suffix(".html").name
        raise OutputError(
            f"{path} cannot be made: a PDF is printed by Chromium, Chrome or Edge, and none of them was found. "
            f"Write {page} instead, open it in your browser, and print it from there.",
            path=str(path),
        )
    return found


def print_page(page: Path, path: Path, target: Path, seconds: int = 120) -> None:
    """Print an HTML page to ``path``, the temporary name of ``target``, within so many seconds.

    Raises
    ------
    OutputError
        If the browser fails, with its message.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        as_root = ["--no-sandbox"] if sys.platform == "linux" and os.geteuid() == 0 else []
        places = [f"--user-data-dir={profile}", f"--print-to-pdf={path.resolve()}", page.resolve().as_uri()]
        command = [require_browser(target), *QUIETLY.split(), *as_root, *places]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=seconds, check=False
            )
            said = done.stderr.strip().splitlines()[-1:] if done.returncode else []
        except (OSError, subprocess.TimeoutExpired) as error:
            said = [str(error)]
    if not path.exists() or not path.read_bytes().startswith(b"%PDF"):
        reason = f" ({said[0]})" if said else ""
        remedy = f"Write {target.with_suffix('.html').name} instead, and print it from a browser."
        raise OutputError(f"{target} was not printed{reason}. {remedy}", path=str(target))

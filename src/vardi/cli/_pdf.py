"""A report as a PDF: its HTML page, printed by a Chromium-based browser if one is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from vardi.errors import OutputError

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "msedge",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
QUIETLY = (
    "--headless",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-pdf-header-footer",
)


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
        command = [require_browser(target), *QUIETLY, *as_root, f"--user-data-dir={profile}"]
        try:
            done = subprocess.run(
                [*command, f"--print-to-pdf={path.resolve()}", page.resolve().as_uri()],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                check=False,
            )
            said = done.stderr.strip().splitlines()[-1:] if done.returncode else []
        except (OSError, subprocess.TimeoutExpired) as error:
            said = [str(error)]
    if not path.exists() or not path.read_bytes().startswith(b"%PDF"):
        reason = f" ({said[0]})" if said else ""
        remedy = f"Write {target.with_suffix('.html').name} instead, and print it from a browser."
        raise OutputError(f"{target} was not printed{reason}. {remedy}", path=str(target))

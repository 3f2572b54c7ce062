"""Draw the pictures of the pages before the pages are read; each is drawn anew by every build."""

from __future__ import annotations

from pathlib import Path

import drawings
from sphinx.application import Sphinx


def draw(app: Sphinx) -> None:
    """Draw every picture into ``_generated``."""
    drawings.draw_all(Path(app.srcdir) / "_generated")


def setup(app: Sphinx) -> dict[str, bool]:
    """Draw when the build begins."""
    app.connect("builder-inited", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

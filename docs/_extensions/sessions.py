"""Doctests as readers want them: code, and below it what it prints, in one box.

Prompts stay in the page, marked as such: the style sheet hides them, and the copy button takes the lines that have one.
"""

from __future__ import annotations

from textwrap import wrap

from docutils import nodes
from sphinx.application import Sphinx

ANYTHING, SIGN = "...", "…"
TRACEBACK = "Traceback (most recent call last):"
COLUMNS = 96  # fit beside both navigations


def as_printed(text: str) -> str:
    """Return a session as a reader sees it.

    Dots that stand for anything are one sign, an error is what it says, long sentences are broken, and no empty line
    ends the box.
    """
    shown: list[str] = []
    in_code = in_error = False
    for line in text.rstrip().splitlines():
        in_code = line.startswith((">>>", "$ ")) or (in_code and line.startswith("..."))
        in_error = not in_code and (in_error or line == TRACEBACK)
        if in_code or line.startswith("... and "):
            shown.append(line)
        elif not in_error or line.strip() not in (TRACEBACK, ANYTHING):
            said = line.replace(ANYTHING, SIGN)
            is_prose = in_error or "  " not in said
            shown += wrap(said, COLUMNS) if is_prose and len(said) > COLUMNS else [said]
    return "\n".join(shown)


def show(app: Sphinx, tree: nodes.document) -> None:
    """Put each session of a page as it is printed, and mark those of Python."""
    for kind in (nodes.literal_block, nodes.doctest_block):
        for node in tree.findall(kind):
            if node.astext().startswith((">>> ", "$ ")):
                node.rawsource = as_printed(node.astext())
                node[:] = [nodes.Text(node.rawsource)]
                node["classes"] += ["session"] if node.rawsource.startswith(">>>") else []


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to the reading of pages."""
    app.connect("doctree-read", show)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""The page of a reproduction: tables beside print, and the figures, in one file."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from paper.comparison import Agreement
from paper.layout import Table


@dataclass(frozen=True)
class Drawing:
    """A figure with its title and caption."""

    stem: str
    title: str
    caption: str
    svg: bytes

    @property
    def encoded(self) -> str:
        """Return the drawing in base 64, to be embedded in a page."""
        return b64encode(self.svg).decode("ascii")


def to_html(
    tables: Sequence[Table], agreed: Agreement, drawings: Sequence[Drawing], facts: Sequence[tuple[str, str]]
) -> str:
    """Render the page.

    Parameters
    ----------
    tables : sequence of Table
        The tables, laid out.
    agreed : Agreement
        The agreement shown at the top of the page.
    drawings : sequence of Drawing
        The figures as SVG, embedded in the page itself.
    facts : sequence of pairs
        What the numbers depend on: runs, seed, versions.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(Path(__file__).with_name("page.html").read_text("utf-8"))
    return template.render(tables=tables, agreed=agreed, drawings=drawings, facts=facts)

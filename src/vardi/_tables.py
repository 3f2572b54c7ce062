"""What a result shows, described once: as text of at most 80 columns, and as HTML that is never wider than its cell."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice, zip_longest
from textwrap import TextWrapper, wrap
from typing import Any, ClassVar, NamedTuple, TypeAlias

from vardi.errors._texts import SHOWN, WIDTH, more

MOST_ROWS = 1000  # rows of a table in HTML, those after the first SHOWN folded away; any more are only counted
LEAST = 8  # letters of a text that are on one line, however little room there is
LEFT = "text-align:left"


@dataclass(frozen=True)
class Table:
    """A table with a row for each item.

    Attributes
    ----------
    heading : sequence of str
        A name for each column.
    items : collection
        What the rows are about.
    cells : callable
        (item) -> the cells of its row, which is called for the items that are shown.
    of : str
        What an item is, in the plural.
    texts : collection of int
        The columns that hold texts, flush left, and folded where the table is too wide; the others hold numbers.
    code : int, optional
        The column of texts that are expressions.
    beneath : str
        What is said of items that are not among these.

    Examples
    --------
    >>> print(Table(("name", "rows"), [("a", "12"), ("agency", "3")]).text())
    name    rows
    a         12
    agency     3
    """

    heading: Sequence[str]
    items: Collection[Any]
    cells: Callable[[Any], Sequence[str]] = tuple
    of: str = "rows"
    texts: Collection[int] = (0,)
    code: int | None = None
    beneath: str = ""

    def rows(self, most: int) -> list[Sequence[str]]:
        """Return the cells of the first items."""
        return list(map(self.cells, islice(self.items, most)))

    def text(self, width: int = WIDTH, most: int = SHOWN) -> str:
        """Return the first rows as text, and how many more there are; texts are folded where there is little room."""
        lines = [self.heading, *self.rows(most)]
        room = self._room(list(zip(*lines, strict=True)), width - 2 * (len(self.heading) - 1))
        printed = []
        for line in lines:
            cells = [wrap(cell, space) if len(cell) > space else [cell] for cell, space in zip(line, room, strict=True)]
            for pieces in zip_longest(*cells, fillvalue=""):
                placed = zip(range(len(room)), pieces, room, strict=True)
                flush = (piece.ljust(space) if j in self.texts else piece.rjust(space) for j, piece, space in placed)
                printed.append("  ".join(flush).rstrip())
        return "\n".join(filter(None, [*printed, *more(self.items, most), self.beneath]))

    def _room(self, columns: list[tuple[str, ...]], width: int) -> list[int]:
        """Return the widths of columns: where room is short, headings of numbers are folded, then texts."""
        room = [max(map(len, column)) for column in columns]
        if sum(room) > width:
            for j, (heading, *cells) in enumerate(columns):
                if j not in self.texts:
                    third = max(math.ceil(len(heading) / 3), 1, *map(len, heading.split()))
                    room[j] = max(map(len, (*wrap(heading, third), *cells)), default=0)
        for _ in range(sum(room) - width if self.texts else 0):
            widest = max(self.texts, key=room.__getitem__)
            room[widest] -= room[widest] > LEAST
        return room

    def html(self) -> str:
        """Return the table in a box that scrolls if it is too wide; rows after the first 20 are folded away."""
        rows = self.rows(MOST_ROWS)
        first, folded = self._box(rows[:SHOWN]), rows[SHOWN:]
        if not folded:
            return first + _html(self.beneath)
        left = "".join(map(_html, more(self.items, MOST_ROWS)))
        summary = f"<summary>{len(self.items) - SHOWN:,} more {escape(self.of)}</summary>"
        return f"{first}<details>{summary}{self._box(folded)}{left}</details>"

    def _box(self, rows: Iterable[Sequence[str]]) -> str:
        left = f' style="{LEFT}"'
        head = "".join(f"<th{left * (j in self.texts)}>{escape(text)}</th>" for j, text in enumerate(self.heading))
        body = "".join(f"<tr>{''.join(map(self._cell, range(len(row)), row))}</tr>" for row in rows)
        content = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
        return f'<div style="overflow-x:auto;margin:0.5em 0"><table>{content}</table></div>'

    def _cell(self, column: int, text: str) -> str:
        """Return a cell with its style: a notebook's own would break lines in numbers and set names to the right."""
        tag = "td" if column else "th"
        left = f"{LEFT};" if column in self.texts else ""
        width = "min-width:14em" if len(text) > 30 else "white-space:nowrap"  # a long text is wrapped
        content = f"<code>{escape(text)}</code>" if column == self.code else escape(text)
        return f'<{tag} style="{left}{width}">{content}</{tag}>'


class Note(NamedTuple):
    """A text after a word in bold, which HTML may show in a colour."""

    word: str
    text: str
    colour: str = ""


class Facts(NamedTuple):
    """A list of facts by their names, which may have a title."""

    facts: Mapping[str, str]
    title: str = ""


Part: TypeAlias = str | Note | Facts | Table
"""A text that is wrapped, with or without a word in bold, a list of facts, or a table."""


class Shown(ABC):
    """A result that shows the same parts wherever it is printed."""

    _apart: ClassVar[str] = "\n\n"  # between the parts of a text

    @abstractmethod
    def _parts(self) -> Iterable[Part]:
        """Return what is shown, in which empty texts and tables are left out."""

    def summary(self) -> str:
        """Return it as text of at most 80 columns."""
        return as_text(self._parts(), apart=self._apart)

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return fragment(self._parts())


def as_text(parts: Iterable[Part], width: int = WIDTH, apart: str = "\n\n") -> str:
    """Return parts as text, one after the other."""
    return apart.join(filter(None, (_text(part, width) for part in parts)))


def _text(part: Part, width: int) -> str:
    if isinstance(part, Table):
        return part.text(width) if part.items else ""
    wrapped = TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    if not isinstance(part, Facts):
        return wrapped.fill(f"{part.word} {part.text}" if isinstance(part, Note) else part)
    lines = [part.title] if part.title else []
    wrapped.subsequent_indent = " " * (max(map(len, part.facts)) + 2)
    for name, fact in part.facts.items():
        wrapped.initial_indent = name.ljust(len(wrapped.subsequent_indent))
        lines.append(wrapped.fill(fact))
    return "\n".join(lines)


def fragment(parts: Iterable[Part]) -> str:
    """Return parts as HTML, stacked vertically and as wide as the cell.

    >>> fragment([Facts({"x": "> 2"}, "Ends:"), Note("Note:", "few rows")]).removeprefix("<div ")
    'style="max-width:100%;overflow-wrap:break-word"><p>Ends:<br><b>x</b> &gt; 2</p><p><b>Note:</b> few rows</p></div>'
    """
    return f'<div style="max-width:100%;overflow-wrap:break-word">{"".join(map(_html, parts))}</div>'


def _html(part: Part) -> str:
    if isinstance(part, Table):
        return part.html() if part.items else ""
    if isinstance(part, Facts):
        lines = [escape(part.title)] if part.title else []
        lines += [_bold(name, fact) for name, fact in part.facts.items()]
    else:
        lines = [_bold(*part) if isinstance(part, Note) else escape(part)] if part else []
    return f"<p>{'<br>'.join(lines)}</p>" if lines else ""


def _bold(word: str, text: str, colour: str = "") -> str:
    style = f' style="color:{colour}"' if colour else ""
    return f"<b{style}>{escape(word)}</b> {escape(text)}"

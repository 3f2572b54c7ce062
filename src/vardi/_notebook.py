"""Texts and tables for notebooks: fragments of HTML, never wider than their cell."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape

from vardi.errors._texts import SHOWN, more

MOST_ROWS = 1000  # rows of a table, those after the first SHOWN folded away; any more are only counted


def fragment(*parts: str) -> str:
    """Return parts stacked vertically, as wide as the cell."""
    return f'<div style="max-width:100%;overflow-wrap:break-word">{"".join(parts)}</div>'


def paragraph(*texts: str, bold: str = "") -> str:
    """Return a paragraph with a line for each text, after a word in bold.

    >>> paragraph("x < 1", "x > 2", bold="Note:")
    '<p><b>Note:</b> x &lt; 1<br>x &gt; 2</p>'
    """
    return f"<p>{f'<b>{escape(bold)}</b> ' if bold else ''}{'<br>'.join(map(escape, texts))}</p>"


def table(
    heading: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    of: str = "rows",
    total: int | None = None,
    code: Collection[int] = (),
    caption: str = "",
) -> str:
    """Return a table in a box that scrolls if it is too wide; rows after the first 20 are folded away.

    Parameters
    ----------
    heading : sequence of str
        A name for each column.
    rows : sequence of sequences of str
        The cells; at most ``MOST_ROWS`` rows are shown.
    of : str
        What a row is, in the plural.
    total : int, optional
        How many rows there are, if not all are given.
    code : collection of int
        The columns that hold expressions.
    caption : str
        The text above the table.

    Returns
    -------
    str
        Empty if there are no rows.
    """
    if not rows:
        return ""
    total = len(rows) if total is None else total
    shown, folded = rows[:SHOWN], rows[SHOWN:MOST_ROWS]
    first = _table(heading, shown, code, caption)
    if not folded:
        return first
    left = "".join(paragraph(line) for line in more(range(total), MOST_ROWS))
    summary = f"<summary>{total - SHOWN:,} more {escape(of)}</summary>"
    return f"{first}<details>{summary}{_table(heading, folded, code, '')}{left}</details>"


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]], code: Collection[int], caption: str) -> str:
    left = ' style="text-align:left"'
    head = "".join(f"<th{left if j == 0 or j in code else ''}>{escape(text)}</th>" for j, text in enumerate(heading))
    body = "".join(f"<tr>{''.join(_cell(j, text, code) for j, text in enumerate(row))}</tr>" for row in rows)
    above = f'<caption style="text-align:left">{escape(caption)}</caption>' if caption else ""
    content = f"{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div style="overflow-x:auto;margin:0.5em 0"><table>{content}</table></div>'


def _cell(column: int, text: str, code: Collection[int]) -> str:
    """Return a cell with its style: a notebook's own would break lines within numbers and align names to the right."""
    tag = "td" if column else "th"
    left = "text-align:left;" if not column or column in code else ""
    width = "min-width:14em" if len(text) > 30 else "white-space:nowrap"  # a long text is wrapped
    content = f"<code>{escape(text)}</code>" if column in code else escape(text)
    return f'<{tag} style="{left}{width}">{content}</{tag}>'

"""Texts shared by messages and tables: lists of names, numbers of rows, widths, the outcome of a p-value."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import Literal

WIDTH = 80  # columns of a printed text
LISTED = 10  # most names listed in a sentence, and most rows that an error carries
SHOWN = 20  # most lines of a printed table

Outcome = Literal["contradicted", "doubtful", "not contradicted"]


def outcome(pvalue: float, contradicted: float = 1e-4, doubtful: float = 0.01) -> Outcome:
    """Return the outcome of a test of what was declared, by its p-value; NaN contradicts nothing.

    Of a hundred fits in which all is right one is doubtful, so that is a reason to look, and not to discard anything.

    >>> outcome(3e-5), outcome(0.003), outcome(0.02), outcome(float("nan"))
    ('contradicted', 'doubtful', 'not contradicted', 'not contradicted')
    """
    return "contradicted" if pvalue < contradicted else "doubtful" if pvalue < doubtful else "not contradicted"


def one_in(pvalue: float) -> str:
    """Return how often a p-value is as small if all is right.

    >>> one_in(0.0026)
    '1 in 380 right fits has one as small'
    """
    return f"1 in {float(f'{1.0 / pvalue:.2g}'):,.0f} right fits has one as small"


def to_digits(value: float, digits: int) -> str:
    """Return a number to some digits; from ten thousand up to 1e9 whole, with thousands separators.

    >>> to_digits(0.0123456, 4), to_digits(118488.4, 4), to_digits(-2.5e12, 4)
    ('0.01235', '118,488', '-2.5e+12')
    """
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.{digits}g}"


def listed(parts: Iterable[str], most: int = LISTED) -> str:
    """Return the first of some texts and how many more there are; ``none`` if there are none.

    >>> listed("abcde", 3), listed([])
    ('a, b, c and 2 more', 'none')
    """
    every = list(parts)
    return (", ".join(every[:most]) or "none") + (f" and {len(every) - most:,} more" if len(every) > most else "")


def show(names: Iterable[object], most: int = LISTED) -> str:
    """Return names in quotes, and only the first of many.

    >>> show(["a", 2])
    "'a', '2'"
    """
    return listed((repr(str(name)) for name in names), most)


def first_of(names: Iterable[str], most: int = SHOWN) -> str:
    """Return the first of some names, with dots in place of the others.

    >>> first_of("abcde", 3), first_of("abc", 3)
    ('a, b, c, ...', 'a, b, c')
    """
    every = list(names)
    return ", ".join(every[:most]) + (", ..." if len(every) > most else "")


def shortened(text: str, most: int) -> str:
    """Return a text whose end is left out if it is too long.

    >>> shortened("household", 9), shortened("households", 9)
    ('household', 'househ...')
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."


def lines_of(error: BaseException) -> list[str]:
    """Return the lines that an error says, at least one.

    >>> lines_of(ValueError())
    ['no message']
    """
    return (str(error).strip() or "no message").splitlines()


def more(every: Collection[object], most: int = SHOWN) -> list[str]:
    """Return the last line of a table that shows only its first lines; nothing if it shows all.

    >>> more("abcde", 3), more("abc", 3)
    (['... and 2 more'], [])
    """
    return [f"... and {len(every) - most:,} more"] if len(every) > most else []


def cut(text: object, width: int) -> str:
    """Return a text cut to a width; its middle is left out, so that both ends still distinguish names.

    >>> cut("household_survey_north", 15)
    'househo…y_north'
    """
    text = str(text)
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"


def width_of(heading: str, cells: Iterable[object], most: int) -> int:
    """Return the width of a column of texts, up to a maximum.

    >>> width_of("name", ["a", "household"], 7)
    7
    """
    return min(max(len(heading), *(len(str(cell)) for cell in cells), 0), most)


def count(number: float) -> str:
    """Return a number of things with thousands separators, and with a decimal if they are few and not whole.

    >>> count(1234.0), count(12.25), count(1e6)
    ('1,234', '12.2', '1,000,000')
    """
    return f"{number:,.0f}" if number == int(number) or number >= 100 else f"{number:,.1f}"


def number_of_rows(rows: float, *, grouped: bool = False) -> str:
    """Return ``1 row`` or ``2 rows``; by default without thousands separators, as in code.

    >>> number_of_rows(1), number_of_rows(1234), number_of_rows(1234, grouped=True)
    ('1 row', '1234 rows', '1,234 rows')
    """
    number = count(rows) if grouped else str(int(rows)) if rows == int(rows) else f"{rows:g}"
    return f"{number} row" if rows == 1 else f"{number} rows"


def suggest(name: object, names: Iterable[object]) -> str:
    """Return ``" Did you mean 'x'?"`` for the nearest of names, or an empty text.

    A name that differs only by its type is pointed out.

    >>> suggest("agnecy", ["agency", "national"]), suggest("medv", ["RM", "MEDV"])
    (" Did you mean 'agency'?", " Did you mean 'MEDV'?")
    >>> suggest(1, ["1", "2"])
    ' One is a number and the other a string: make them the same.'
    """
    others = list(names)
    twin = next((other for other in others if str(other) == str(name) and other != name), None)
    if twin is not None:
        return f" One is {_kind(name)} and the other {_kind(twin)}: make them the same."
    texts = {str(other).casefold(): str(other) for other in reversed(others)}
    near = difflib.get_close_matches(str(name).casefold(), texts, n=1)
    return f" Did you mean '{texts[near[0]]}'?" if near else ""


def _kind(name: object) -> str:
    if isinstance(name, str):
        return "a string"
    return "a number" if isinstance(name, int | float) and not isinstance(name, bool) else type(name).__name__

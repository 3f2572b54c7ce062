"""Numbers as readable text."""

from __future__ import annotations

import math

from vardi._estimate.estimates import with_digits_of
from vardi.errors._texts import number_of_rows

MINUS = "\N{MINUS SIGN}"


def plain(text: str) -> str:
    """Return a text with ASCII hyphens for minus signs, for terminals."""
    return text.replace(MINUS, "-")


def rows_text(rows: float) -> str:
    """Return ``1 row`` or ``1,234 rows``."""
    return number_of_rows(rows, grouped=True)


def number(value: float) -> str:
    """Return a number to four digits.

    >>> number(0.5786912), number(-1234567.0), number(1e-9), number(3.0 - 1e-15)
    ('0.5787', '−1,235,000', '1.000e−09', '3')
    """
    if not math.isfinite(value):
        return str(value)
    if abs(value) < 1e6 and abs(value - round(value)) <= 1e-9 * abs(value):
        return _signed(f"{round(value):,}")
    if not 1e-4 <= abs(value) < 1e9:
        return _signed(f"{value:.3e}")
    decimals = 3 - math.floor(math.log10(abs(value)))
    return _signed(f"{round(value, decimals):,.{max(decimals, 0)}f}")


def with_error(value: float, stderr: float, *, percent: bool = False) -> str:
    """Return a number with two digits of its error; alone if it has none.

    >>> with_error(-23.2157, 0.9712), with_error(0.2512, 0.0123, percent=True), with_error(188336.04, 4.6143)
    ('−23.22 ± 0.97', '25.1% ± 1.2', '188,336.0 ± 4.6')
    """
    if not stderr > 1e-9 * abs(value):
        return share(value) if percent else number(value)
    scale = 100.0 if percent else 1.0
    value_text, error_text = with_digits_of(scale * stderr, scale * value, scale * stderr)
    return f"{_signed(value_text)}{'%' * percent} ± {_signed(error_text)}"


def interval(low: float, high: float, stderr: float, *, percent: bool = False) -> str:
    """Return the ends of an interval, with the digits of the error.

    >>> interval(21.31, 25.12, 0.97), interval(0.1, 0.2, 0.025, percent=True)
    ('21.31 to 25.12', '10.0% to 20.0%')
    """
    scale, sign = (100.0, "%") if percent else (1.0, "")
    ends = with_digits_of(scale * stderr, scale * low, scale * high)
    return " to ".join(f"{_signed(end)}{sign}" for end in ends)


def share(value: float) -> str:
    """Return a share in per cent.

    >>> share(0.4562), share(0.0004), share(1.0), share(0.0)
    ('45.6%', '0.04%', '100%', '0%')
    """
    if value in (0.0, 1.0):
        return f"{value:.0%}"
    return f"{value:.1%}" if abs(value) >= 0.001 else f"{100 * value:.1g}%"


def pvalue(value: float) -> str:
    """Return a p-value.

    >>> pvalue(0.2217), pvalue(3e-9), pvalue(math.nan)
    ('0.22', 'below 0.0001', 'not testable')
    """
    if math.isnan(value):
        return "not testable"
    return "below 0.0001" if value < 1e-4 else f"{value:.2g}"


def _signed(text: str) -> str:
    return text.replace("-", MINUS)

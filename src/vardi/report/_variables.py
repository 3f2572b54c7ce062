"""Before and after: means over the pool and over the population, with what their errors rest on."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vardi._cdf import DebiasedCdf
from vardi._diagnostics import CONSTANT
from vardi._estimates import quantile_of_normal
from vardi._influence import Influence
from vardi._sums import Floats
from vardi.errors import MissingValuesError
from vardi.report._columns import MOST_NUMERIC, Column
from vardi.report._content import Distribution, VariableRow

if TYPE_CHECKING:
    from vardi._sample import DebiasedSample

BATCH = 4  # columns whose influence values are in memory at once
MOST_DISTRIBUTIONS = 6
POINTS = 160  # of a drawn distribution function
LARGE, BANDS_OF_LARGE = 200_000, 2  # rows from which only so many bands are computed
EDGE = 0.005  # share of the rows beyond either end of its axis


def in_memory(fit: DebiasedSample, columns: Sequence[Column]) -> tuple[VariableRow, ...]:
    """Return the rows of the table for columns in memory."""
    rows: list[VariableRow] = []
    for start in range(0, len(columns), BATCH):
        batch = columns[start : start + BATCH]
        rows += _batch(fit._influence, batch, trusted=fit.trust.errors_hold)
    return tuple(rows)


def _batch(influence: Influence, columns: Sequence[Column], *, trusted: bool) -> list[VariableRow]:
    strata = influence.strata
    counts = np.ones(len(strata.source)) if strata.counts is None else strata.counts
    sampled = np.flatnonzero(influence.sampled)
    exponents = [_exponent(column.values) for column in columns]
    values = np.column_stack([np.ldexp(column.values, -e) for column, e in zip(columns, exponents, strict=True)])
    eta, phi = influence.of(values)
    squares = strata.centred(phi) ** 2
    mass = counts * influence.weights / influence.n
    rows = []
    for j, column in enumerate(columns):
        unit = functools.partial(_scaled, exponent=exponents[j])
        spread = math.sqrt(float(mass @ (values[:, j] - eta[j]) ** 2))
        if spread <= CONSTANT * float(mass @ np.abs(values[:, j])):
            spread = 0.0
        V = float(squares[:, j].sum()) if spread > 0 else 0.0
        pooled, debiased = float(counts @ values[:, j] / influence.n), float(eta[j])
        by_sample = np.bincount(strata.source, squares[:, j], minlength=len(influence.u))[sampled]
        single = squares[:, j] / np.maximum(counts, 1.0)  # a row that stands for many is not one row
        rows.append(
            VariableRow(
                column.name,
                column.is_share,
                unit(pooled),
                unit(debiased),
                *_error(unit(debiased), unit(math.sqrt(V)) if trusted else math.nan),
                shift=(debiased - pooled) / spread if spread > 0 else 0.0,
                spread=unit(spread),
                worth=_finite(spread**2 / V) if V > 0 and trusted else None,
                largest_row=float(single.max()) / V if V > 0 else None,
                carried=tuple((by_sample / V).tolist()) if V > 0 else (),
            )
        )
    return rows


def _exponent(values: Floats) -> int:
    """Return the power of two that values are divided by, so that no square of them is too large for a number."""
    return int(np.frexp(np.abs(values).max())[1])


def _scaled(value: float, *, exponent: int) -> float:
    """Return a number in the unit of its column; infinite where that is none."""
    return float(np.ldexp(value, exponent))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def of_engine(fit: Any, variables: dict[str, Any] | None) -> tuple[tuple[VariableRow, ...], str]:
    """Return the rows of the table for columns of a lazy fit, by queries, and a note on what was left out."""
    names = list(variables.values()) if variables is not None else list(fit._numeric_schema[:MOST_NUMERIC])
    left_out = []
    if variables is None:
        for name in list(names):
            try:
                fit._pooled_means([name])
            except MissingValuesError:
                names.remove(name)
                left_out.append(name)
    if not names:
        return (), "No column of numbers without missing values was found."
    estimates = fit.expectations(names)
    rows = tuple(
        VariableRow(
            name, False, float(before), float(after), *_error(float(after), float(error)), None, None, None, None
        )
        for name, before, after, error in zip(
            variables or names, fit._pooled_means(names), estimates.values, estimates.stderr, strict=True
        )
    )
    more = 0 if variables is not None else max(len(fit._numeric_schema) - MOST_NUMERIC, 0)
    notes = [
        f"{more} more numeric columns are not shown; name columns in variables= to choose." if more else "",
        f"Not shown: {', '.join(left_out)} (missing values)." if left_out else "",
    ]
    return rows, " ".join(note for note in notes if note)


def _error(value: float, stderr: float) -> tuple[float | None, float | None, float | None]:
    """Return the error and the ends of the 95% interval, None where the error is withheld or too large for a number."""
    half = quantile_of_normal(0.95) * stderr
    ends = value - half, value + half
    return (stderr, *ends) if all(map(math.isfinite, ends)) else (None, None, None)


def distributions(fit: DebiasedSample, columns: Sequence[Column]) -> tuple[tuple[Distribution, ...], str]:
    """Return the distribution functions of the columns that take more than two values, and a note on the others."""
    varied = [column for column in columns if not column.is_share and column.values.max() > column.values.min()]
    bands = MOST_DISTRIBUTIONS if len(fit) <= LARGE else BANDS_OF_LARGE
    shown = tuple(_distribution(fit, one, banded=k < bands) for k, one in enumerate(varied[:MOST_DISTRIBUTIONS]))
    more = len(varied) - len(shown)
    if not shown:
        return (), "No column takes more than two values, so there is no distribution to draw."
    notes = [
        f"{more} more columns are not drawn; name columns in variables= to choose." if more else "",
        f"Bands are computed for the first {bands} columns only: there are many rows." if len(shown) > bands else "",
    ]
    return shown, " ".join(note for note in notes if note)


def _distribution(fit: DebiasedSample, column: Column, *, banded: bool) -> Distribution:
    influence, values = fit._influence, column.values
    cdf = DebiasedCdf(influence, values, trusted=fit.trust.errors_hold)
    counts = np.ones(len(values)) if influence.strata.counts is None else influence.strata.counts
    pooled = np.cumsum(np.bincount(np.searchsorted(cdf.x, values), counts)) / counts.sum()
    inside = (np.maximum(pooled, cdf.heights) > EDGE) & (np.minimum(pooled, cdf.heights) < 1.0 - EDGE)
    first, last = int(inside.argmax()), len(inside) - 1 - int(inside[::-1].argmax())
    place = _grid(pooled[first : last + 1], cdf.heights[first : last + 1]) + first
    place = np.unique(np.append(place, min(last + 1, len(cdf.x) - 1)))
    x = cdf.x[place]
    low, high = _band(cdf, x, cdf.heights[place]) if banded else ([None] * len(x), [None] * len(x))
    return Distribution(
        column.name,
        tuple(x.tolist()),
        tuple(pooled[place].tolist()),
        tuple(cdf.heights[place].tolist()),
        tuple(low),
        tuple(high),
    )


def _band(cdf: DebiasedCdf, x: Floats, height: Floats) -> tuple[list[float | None], list[float | None]]:
    """Return the ends of the simultaneous band; None outside it, and where errors are withheld."""
    band = cdf.band()
    half = float(np.maximum(band.high - band.value, band.value - band.low).max())  # its width is the same everywhere
    covered = (x >= band.x[0]) & (x <= band.x[-1]) & (not math.isnan(half))
    low, high = np.maximum(height - half, 0.0), np.minimum(height + half, 1.0)
    return (
        [end if is_in else None for end, is_in in zip(low.tolist(), covered.tolist(), strict=True)],
        [end if is_in else None for end, is_in in zip(high.tolist(), covered.tolist(), strict=True)],
    )


def _grid(pooled: Floats, debiased: Floats) -> np.ndarray:
    """Return positions at which the two functions rise by about equal steps."""
    height = pooled + debiased
    targets = np.linspace(height[0], height[-1], POINTS)
    return np.unique(np.minimum(np.searchsorted(height, targets), len(height) - 1))

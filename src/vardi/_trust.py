"""When not to trust the asymptotics: too few rows bridge the samples, or a few weights carry everything."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vardi._influence import Influence
from vardi._newton import Solution
from vardi._pool import Name, show
from vardi._sums import Floats
from vardi.errors import WeakOverlapWarning

if TYPE_CHECKING:
    from vardi._sample import DebiasedSample

REFUSED = 5.0  # bridging rows below which no standard error is given
DOUBTED = 15.0  # bridging rows below which it comes with a warning
HEAVY = 0.4  # tail index of the weights from which their variance may be infinite (Hill's estimate is biased low)
TAIL = 0.05  # share of the largest weights that the tail index is read from
CARRIES = 0.2  # share of a variance from which one row is too much
ROWS = 400  # rows from which a tail of five per cent says anything


@dataclass(frozen=True)
class Trust:
    """What standard errors rest on.

    Attributes
    ----------
    bridging : float
        B = sum_i p_iA (1 - p_iA) over the cut A where the samples overlap least: the rows that could as well have come
        from the other side. For two samples Var(log Omega_1 / Omega_2) = 1/B - 1/n_1 - 1/n_2. Infinite for one sample,
        unless that is a single row.
    cut : tuple of two tuples
        The samples on either side of it.
    tail_index : float
        Hill's index of the largest weights; above 1/2 their variance is infinite. NaN where rows are few.
    blame : tuple
        The samples that hold the largest weights.
    """

    bridging: float
    cut: tuple[tuple[Name, ...], tuple[Name, ...]]
    tail_index: float
    blame: tuple[Name, ...]

    @classmethod
    def of(cls, influence: Influence, solution: Solution, names: tuple[Name, ...], *, tail: bool = True) -> Trust:
        """Measure it at a solution; the tail only where the weights are in memory."""
        sampled = influence.sampled
        side = (solution.cut > 0) & sampled
        indicator = side.astype(np.float64)
        gram = influence.sums.gram
        inside = gram(indicator) if callable(gram) else gram @ indicator
        bridging = float(inside[sampled & ~side].sum())
        index, largest = _tail(influence) if tail else (np.nan, np.empty(0, np.int64))
        sources = np.unique(influence.strata.source[largest])
        return cls(
            bridging if sampled.sum() > 1 else np.inf if influence.n > 1 else 0.0,
            (
                tuple(name for name, is_in in zip(names, side, strict=True) if is_in),
                tuple(name for name, is_in in zip(names, sampled & ~side, strict=True) if is_in),
            ),
            index,
            tuple(names[k] for k in sources.tolist()),
        )

    @property
    def errors_hold(self) -> bool:
        """Whether a standard error is given at all."""
        return self.bridging >= REFUSED

    @property
    def messages(self) -> tuple[str, ...]:
        """What is to be said, most severe first; empty where all is well."""
        return self.of_overlap + self.of_tail

    @property
    def of_overlap(self) -> tuple[str, ...]:
        """What is to be said of the rows that bridge the samples."""
        if self.bridging >= DOUBTED:
            return ()
        if not all(self.cut):
            return ("One row shows no spread, so no standard error is given. Add rows.",)
        answer = "standard errors may be too small" if self.errors_hold else "no standard error is given"
        return (
            f"Only {self.bridging:.1f} rows bridge {show(self.cut[0])} and {show(self.cut[1])}, so {answer}: their "
            "relative weight rests on these few. Add a sample that lies between them, or more rows where they overlap; "
            "bootstrap() shows the spread there is.",
        )

    @property
    def of_tail(self) -> tuple[str, ...]:
        """What is to be said of the largest weights."""
        if not self.tail_index > HEAVY:
            return ()
        return (
            f"The largest weights have tail index {self.tail_index:.2f} (of {show(self.blame)}), and from 0.5 on the "
            "variance is infinite: standard errors are then too small however many rows there are. Add a sample that "
            "covers the rows of large weight.",
        )


def _tail(influence: Influence) -> tuple[float, np.ndarray]:
    """Return Hill's index of the largest weights, and the rows that hold them."""
    weights: Floats = influence.weights
    if len(weights) < ROWS:
        return np.nan, np.array([int(np.argmax(weights))])
    count = int(TAIL * len(weights))
    largest = np.argpartition(weights, -count - 1)[-count - 1 :]
    largest = largest[np.argsort(weights[largest])]
    logs = np.log(weights[largest])
    if len(np.unique(logs)) * 4 < len(logs):  # a few values only: weights of indicator biases are bounded
        return np.nan, largest[-10:]
    return float((logs[1:] - logs[0]).mean()), largest[-10:]


def warn_of_single_rows(fit: DebiasedSample, influence_values: Floats) -> None:
    """Warn where one row carries much of a variance: the error then rests on that row."""
    strata = fit._influence.strata
    squares = strata.centred(influence_values) ** 2
    total = squares.sum(axis=0)
    if strata.counts is not None:  # a row that stands for many is not one row
        squares = squares / np.maximum(strata.counts, 1.0)[:, None]
    rows = squares.argmax(axis=0)
    shares = np.divide(squares.max(axis=0), total, out=np.zeros(len(total)), where=total > 0)
    worst = int(shares.argmax())
    if shares[worst] > CARRIES:
        row = int(rows[worst])
        place = row if fit._kept is None else int(np.flatnonzero(fit._kept)[row])
        warnings.warn(
            f"Row {place} of the pool, of {str(fit.names[strata.source[row]])!r}, carries {shares[worst]:.0%} of the "
            "variance, so the error rests on that row. Look at it, and take the error for a rough one; more rows "
            "like it would help.",
            WeakOverlapWarning,
            stacklevel=4,
        )


def require_trust(fit: DebiasedSample, stacklevel: int = 3, *, tail: bool = True) -> None:
    """Warn of everything that makes errors doubtful; comparisons of samples do not rest on the tail of the weights."""
    for message in fit.trust.messages if tail else fit.trust.of_overlap:
        warnings.warn(message, WeakOverlapWarning, stacklevel=stacklevel)

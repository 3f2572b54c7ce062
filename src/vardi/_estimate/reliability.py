"""When not to trust the asymptotics: too few rows bridge the samples, or a few weights carry everything."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vardi._estimate.tangent import Tangent
from vardi._inputs.pool import Name
from vardi._rows.variance import Strata
from vardi._solve.newton import Solution
from vardi._types import Floats, Integers
from vardi.errors import WeakOverlapWarning
from vardi.errors._texts import show

if TYPE_CHECKING:
    from vardi._fit.sample import DebiasedSample

REFUSED = 5.0  # bridging rows below which no standard error is given
DOUBTED = 15.0  # bridging rows below which it comes with a warning
HEAVY = 0.4  # tail index of the weights from which their variance may be infinite (Hill's estimate is biased low)
TAIL = 0.05  # share of the largest weights that the tail index is read from
CARRIES = 0.2  # share of a variance from which one row is too much
BLAMED = 10  # rows of largest weight whose samples are named
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
    def of(
        cls,
        influence: Tangent,
        solution: Solution,
        names: tuple[Name, ...],
        tail: tuple[float, Sequence[int]],
        groups: Integers | None = None,
    ) -> Trust:
        """Measure it at a solution, given the tail index of the weights and the samples of the largest."""
        sampled = influence.sampled
        above = np.flatnonzero((solution.cut > 0) & sampled)
        if groups is not None and groups.max() > 0:  # only the samples of a group are compared
            sampled = sampled & (groups == (groups[above[0]] if len(above) else -2))
        side = (solution.cut > 0) & sampled
        indicator = side.astype(np.float64)
        gram = influence.sums.gram
        inside = gram(indicator) if callable(gram) else gram @ indicator
        bridging = float(inside[sampled & ~side].sum())
        index, blamed = tail
        return cls(
            bridging if sampled.sum() > 1 else np.inf if influence.n > 1 else 0.0,
            (
                tuple(name for name, is_in in zip(names, side, strict=True) if is_in),
                tuple(name for name, is_in in zip(names, sampled & ~side, strict=True) if is_in),
            ),
            index,
            tuple(names[k] for k in blamed),
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


def weight_tail(weights: Floats, source: Integers, times: Floats | None = None) -> tuple[float, list[int]]:
    """Return Hill's index of the largest weights, and the samples of the very largest.

    Parameters
    ----------
    weights, source : ndarray of shape (n,)
        Weight and sample of each row.
    times : ndarray of shape (n,), optional
        How many equal rows it stands for, where such were collapsed; one by default.
    """
    total = len(weights) if times is None else int(times.sum())
    if total < ROWS:
        return np.nan, [int(source[np.argmax(weights)])]
    count = int(TAIL * total)
    most = min(count + 1, len(weights))
    largest = np.argpartition(weights, -most)[-most:]
    largest = largest[np.argsort(-weights[largest], kind="stable")]
    before = np.arange(most) if times is None else np.cumsum(times[largest]) - times[largest]
    largest, before = largest[before <= count], before[before <= count]
    logs, blamed = np.log(weights[largest]), np.unique(source[largest[before < BLAMED]]).tolist()
    if len(np.unique(logs)) * 4 < count + 1:  # a few values only: weights of indicator biases are bounded
        return np.nan, blamed
    return float((logs - logs[-1]) @ np.diff(before, append=count + 1) / count), blamed


def single_rows(strata: Strata, squares: Floats) -> tuple[Floats, Integers]:
    """Return the largest share of each variance that one row carries, and which row that is.

    Parameters
    ----------
    strata : Strata
        Sample and count of each row.
    squares : ndarray of shape (n, m)
        Squared deviations of influence values, with the variance as their sum. A row that stands for many is not one
        row: each of those has its part.
    """
    total = squares.sum(axis=0)
    if strata.counts is not None:
        squares = squares / np.maximum(strata.counts, 1.0)[:, None]
    return np.divide(squares.max(axis=0), total, out=np.zeros(len(total)), where=total > 0), squares.argmax(axis=0)


def warn_of_single_rows(shares: Floats, where: Sequence[str]) -> None:
    """Warn where one row carries much of a variance: the error then rests on that row."""
    worst = int(np.argmax(shares))
    if shares[worst] > CARRIES:
        warnings.warn(
            f"{where[worst]} carries {shares[worst]:.0%} of the variance, so the error rests on that row. Look at it, "
            "and take the error for a rough one; more rows like it would help.",
            WeakOverlapWarning,
            stacklevel=4,
        )


def require_trust(fit: DebiasedSample, stacklevel: int = 3, *, tail: bool = True) -> None:
    """Warn of everything that makes errors doubtful; comparisons of samples do not rest on the tail of the weights."""
    for message in fit.trust.messages if tail else fit.trust.of_overlap:
        warnings.warn(message, WeakOverlapWarning, stacklevel=stacklevel)

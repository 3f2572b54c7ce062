"""When not to trust the asymptotics: where an error rests on few rows, or on the few largest of many."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vardi._estimate.bridge import Bridge
from vardi._estimate.intervals import DOUBTED, HEAVY, RARE, REFUSED, Law, Student, Transformed
from vardi._inputs.pool import Name
from vardi.errors import WeakOverlapWarning
from vardi.errors._texts import show
from vardi.errors._warn import warn


@dataclass(frozen=True)
class Trust:
    """What the standard errors of a fit rest on: the worst over its log normalisers and the means that are shown.

    Attributes
    ----------
    df : float
        The smallest degrees of freedom; below 10 an error is rough, below 3 none is given.
    tail_index : float
        The largest tail index of influence values; above 1/2 their variance is infinite. NaN where none was asked for.
    bridging : float
        Rows that bridge the smallest cut between samples; infinite for one sample.
    cut : tuple of two tuples
        The samples on either side of it.
    messages : tuple of str
        The messages, most severe first; empty where all is well.
    in_time : tuple of float
        For time series, how many independent rows each sample is worth at least.
    """

    df: float
    tail_index: float
    bridging: float
    cut: tuple[tuple[Name, ...], tuple[Name, ...]]
    messages: tuple[str, ...]
    in_time: tuple[float, ...] = ()

    @classmethod
    def of(cls, laws: Mapping[str, Law], bridge: Bridge, names: Sequence[Name]) -> Trust:
        """Judge estimates by their laws, given by the name of each."""
        found = {what: own for what, law in laws.items() if (own := _student(law)) is not None}
        df = min((law.df for law in found.values()), default=math.inf)
        tail = max((law.tail for law in found.values() if not math.isnan(law.tail)), default=math.nan)
        said = doubts(names, list(found), list(found.values()))
        if said and df < DOUBTED and all(bridge.cut):
            said = (*said, f"The weakest link between the samples: {bridge}.")
        in_time = tuple(
            min(worth) for worth in zip(*(law.effective for law in found.values() if law.effective), strict=True)
        )
        return cls(df, tail, bridge.rows, bridge.cut, said, in_time)

    @property
    def errors_hold(self) -> bool:
        """Whether all standard errors are given."""
        return self.df >= REFUSED


def doubts(
    names: Sequence[Name], what: Sequence[str], laws: Sequence[Law], *, few_in_time: int = 30
) -> tuple[str, ...]:
    """Return the warnings about estimates with these laws: about the one with the fewest rows, and about heavy tails.

    Parameters
    ----------
    names : sequence
        The samples.
    what : sequence of str
        What the estimates are called.
    laws : sequence of Law
        The laws of their intervals.
    few_in_time : int
        Independent rows that a series is worth, below which its errors are rough.
    """
    found = [(one, own) for one, law in zip(what, laws, strict=True) if (own := _student(law)) is not None]
    few = min(found, key=lambda pair: float(f"{pair[1].df:.6g}"), default=None)  # the first, up to rounding
    heavy = max((pair for pair in found if pair[1].tail > HEAVY), key=lambda pair: pair[1].tail, default=None)
    said = []
    if few is not None and few[1].df < DOUBTED:
        df = f"{few[1].df:.1f} degrees of freedom"
        said.append(
            f"No standard error is given for {few[0]}: it rests on too few rows ({df}). {_remedy(few[1], names)}"
            if few[1].df < REFUSED
            else f"The standard error of {few[0]} rests on few rows ({df}), so it is rough. {_remedy(few[1], names)}"
        )
    brief = min(
        (
            (own.effective[k], one, names[k])
            for one, own in found
            for k in range(len(own.effective))
            if own.effective[k]
        ),
        key=lambda few: few[0],
        default=None,
    )
    if brief is not None and brief[0] < few_in_time:
        said.append(
            f"The rows of {str(brief[2])!r} are so strongly correlated in time that for {brief[1]} they are "
            f"worth {brief[0]:.0f} independent ones, and fewer than {few_in_time} show only roughly how much "
            "they vary. Extend the series: rows in between would not help."
        )
    if heavy is not None:
        said.append(
            f"A few rows dominate {heavy[0]}: the contributions of rows to it have tail index {heavy[1].tail:.2f}, and "
            "if that stays above 0.5 with more rows, the variance is infinite and the standard error too small. "
            f"{_remedy(heavy[1], names)}"
        )
    return tuple(said)


def warn_of_doubt(names: Sequence[Name], what: Sequence[str], laws: Sequence[Law]) -> None:
    """Warn of errors that rest on few rows: one message, for the worst estimate of a call."""
    for message in doubts(names, what, laws)[:1]:
        warn(WeakOverlapWarning(message))


def warn_of_few_bridging(bridge: Bridge, what: str) -> None:
    """Warn if samples are compared by so few rows that neither a chi-square nor a normal distribution applies."""
    if bridge.rows < RARE:
        warn(WeakOverlapWarning(f"{what} on few rows: {bridge}. Add rows that both sides could draw."))


def _student(law: Law) -> Student | None:
    """Return the law of an estimate, or of the one it is computed from, if that is Student's or would have been."""
    while isinstance(law, Transformed):
        law = law.of.law
    return law if isinstance(law, Student) else None


def _remedy(law: Student, names: Sequence[Name]) -> str:
    of = f" of {show([names[law.most]])}" if law.most >= 0 else ""
    return f"Add rows like those{of} that carry it, or a sample that draws such rows more often."

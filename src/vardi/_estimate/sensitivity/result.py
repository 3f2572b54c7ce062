"""Sensitivity: the range of an estimate over wrong biases, factor by factor."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from vardi._estimate.estimates import Estimate, with_digits_of
from vardi._estimate.intervals import quantile_of_student
from vardi._estimate.tables import Record, Tabular
from vardi._inputs.pool import Name
from vardi._tables import Note, Part, Shown, Table
from vardi._types import Floats
from vardi.errors import MismatchError
from vardi.errors._texts import show

Kind = Literal["free", "common"]
Method = Literal["sharp", "attained", "linear"]

GAMMAS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0)  # factors by which biases may be wrong, if none are given
FURTHEST = 100.0  # factor up to which a tipping point is sought
HEADING = ("factor", "lowest", "highest", "linear from", "linear to")
METHODS: dict[Method, str] = {
    "sharp": "Sharp: no biases within the factor give a value outside the range.",
    "attained": "Attained: some biases within the factor give these ends, and the worst ones may lie a little beyond.",
    "linear": "Linear only, to first order: the true range may be wider or narrower.",
}


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Shown, Tabular):
    r"""The range of an estimate when biases are wrong by up to a factor: what ``fit.sensitivity`` returns.

    A bias that is wrong by up to a factor :math:`\Gamma` has :math:`1/\Gamma \le \omega^*_l(z) / \omega_l(z) \le
    \Gamma` (up to a constant, which drops out), with :math:`\omega^*` the true one. What is declared zero stays zero.

    Attributes
    ----------
    name : str
        What is estimated.
    estimate : Estimate
        Where all biases are right.
    gammas : ndarray
        The factors.
    lower, upper : ndarray
        Ends of the range at each factor, found as ``method`` says.
    linear_lower, linear_upper : ndarray
        The same to first order in the log of the factor: neither an inner nor an outer bound.
    lower_stderr, upper_stderr : ndarray
        Standard errors of the estimates at the ends.
    method : {"sharp", "attained", "linear"}
        ``"sharp"``: the exact range. ``"attained"``: a range that some biases within the factor do give, so that the
        exact one holds it. ``"linear"``: the first-order range, where refits would be too large.
    kind : {"free", "common"}
        Whether each bias errs on its own, or all alike.
    samples : tuple
        The samples whose biases may be wrong.
    one_stderr_gamma : float
        The factor at which the first-order range reaches one standard error either way.
    threshold : float or None
        The value that was asked about.
    tipping : float or None
        Its tipping point.
    """

    name: str
    estimate: Estimate
    gammas: Floats
    lower: Floats
    upper: Floats
    linear_lower: Floats
    linear_upper: Floats
    lower_stderr: Floats
    upper_stderr: Floats
    method: Method
    kind: Kind
    samples: tuple[Name, ...]
    one_stderr_gamma: float
    threshold: float | None
    tipping: float | None
    find: Callable[[float], float | None] = field(repr=False)
    note: str = ""

    @property
    def sharp(self) -> bool:
        """Whether the range is exact."""
        return self.method == "sharp"

    def interval(self, level: float = 0.95) -> Floats:
        """Return the range widened by sampling error: each end moved out by z of its own standard errors.

        Parameters
        ----------
        level : float
            Nominal coverage where the biases are as wrong as the factor allows, in the worst way or not.

        Returns
        -------
        ndarray of shape (number of factors, 2)
            Lower and upper ends; NaN where the samples overlap too little to give an error.
        """
        z = quantile_of_student(level, self.estimate.df)
        return np.column_stack([self.lower - z * self.lower_stderr, self.upper + z * self.upper_stderr])

    def tipping_point(self, value: float | None = None) -> float | None:
        """Return the smallest factor whose range reaches a value: by how much biases must be wrong to get there.

        Parameters
        ----------
        value : float, optional
            By default the threshold that ``sensitivity`` was given.

        Returns
        -------
        float or None
            None where no factor up to 100 reaches it. Found by bisection with refits, to a ten-thousandth. Where the
            range is attained rather than sharp, the exact tipping point is this one or a little smaller.
        """
        if value is None:
            if self.threshold is None:
                raise MismatchError(
                    "No value was given whose tipping point is sought. Give one here, or earlier as threshold=."
                )
            return self.tipping
        return self.find(require_number(value))

    _apart = "\n"

    def _records(self) -> list[Record]:
        """Return a row for each factor."""
        columns = {"factor": self.gammas, "low": self.lower, "high": self.upper}
        columns |= {"linear_low": self.linear_lower, "linear_high": self.linear_upper}
        columns |= {"low_stderr": self.lower_stderr, "high_stderr": self.upper_stderr}
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [{"name": self.name, **dict(zip(columns, row, strict=True))} for row in rows]

    def _parts(self) -> list[Part]:
        title = Note(f"{self.name}:", f"{self.estimate}, if {self._who}:")
        return [title, Table(HEADING, self._cells(), of="factors", texts=()), *self._notes()]

    __repr__ = Shown.__str__

    @property
    def _who(self) -> str:
        plural = len(self.samples) > 1
        who = f"the bias{'es' if plural else ''} of {show(self.samples)} {'are' if plural else 'is'}"
        alike = ", all alike," if self.kind == "common" and plural else ""
        return f"{who} wrong{alike} by up to this factor"

    def _cells(self) -> list[list[str]]:
        columns = [self.lower, self.upper, self.linear_lower, self.linear_upper]
        width = float(np.max(self.upper - self.lower))
        scale = self.estimate.stderr if self.estimate.stderr > 0 else width / 10
        rows = zip(self.gammas, *columns, strict=True)
        return [[f"{gamma:g}", *with_digits_of(scale, *numbers)] for gamma, *numbers in rows]

    def _notes(self) -> list[str]:
        notes = [f"{METHODS[self.method]}{' ' + self.note if self.note else ''}"]
        if math.isfinite(self.one_stderr_gamma):
            stderr = with_digits_of(self.estimate.stderr, self.estimate.stderr)[0]
            notes.append(f"One standard error ({stderr}) is reached at {factor_text(self.one_stderr_gamma)}.")
        if self.threshold is not None:
            if self.tipping is None:
                at = f"not reached by a factor of {max(FURTHEST, float(self.gammas[-1])):g}"
            else:
                at = f"reached at {factor_text(self.tipping)}"
            notes.append(f"{self.threshold:g} is {at}.")
        return notes


def factor_text(gamma: float) -> str:
    """Return a factor as text, with three digits of its excess over 1."""
    return f"{1.0 + float(f'{gamma - 1.0:.3g}'):g}"


def require_number(value: float) -> float:
    """Return a threshold as a float, or raise if it is not a finite number."""
    if not isinstance(value, int | float | np.number) or not math.isfinite(value):
        raise MismatchError(f"{value!r} is not a value that an estimate could reach. Give a number.")
    return float(value)

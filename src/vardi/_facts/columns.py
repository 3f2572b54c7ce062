"""Columns before and after: means over the pool and over the population, and what their errors rest on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from vardi._estimate.intervals import FixedValue, Law, Share
from vardi._estimate.tangent import Influence, Tangent
from vardi._inputs.given import Function
from vardi._inputs.pool import Name
from vardi._rows.contract import Block, Kept
from vardi._rows.measure import Functions, as_functions
from vardi._types import Floats
from vardi.errors import MismatchError
from vardi.errors._texts import listed

Variables: TypeAlias = "str | Iterable[str] | Mapping[str, Function]"
"""Columns and expressions to look at, or a mapping from name to values."""


@dataclass(frozen=True, eq=False)
class Variable:
    """A column or expression that has a mean: its values on the rows of the fit or, in an engine, an expression.

    In memory these are numbers, or for categories conditions.

    ``among`` are the places of the samples that have recorded it, none if all have; its values are 0 on other rows.
    If it is a category of a column of texts, ``category_of`` is that column.
    """

    name: str
    values: Any
    among: tuple[int, ...] = ()
    category_of: str = ""


@dataclass(frozen=True)
class ColumnFacts:
    r"""The mean of a column, or the share of a category, before and after.

    With :math:`V` the variance of an expectation and :math:`\phi` its influence values, one more row of sample k
    changes V by :math:`\partial V / \partial n_k = -\operatorname{Var}_{P_k}(\phi) / n^2`. The estimator is efficient,
    so its influence values minimise :math:`\sum_k \operatorname{Var}_{P_k}(h_k) / n_k` over all that are unbiased, and
    to first order a change of n_k leaves the minimising :math:`h_k = \lambda_k \phi` alone. This holds for states
    without a sample, too.

    Attributes
    ----------
    name : str
        The column or expression, or ``column: category``.
    is_share : bool
        Whether it is the share of rows for which something holds.
    pooled, debiased : float
        Over the pool, or the rows of the samples that have recorded it, and over the population.
    stderr : float
        Standard error of the latter; NaN where none can be given.
    law : Law
        The law of its interval.
    spread : float
        Standard deviation over the population.
    worth : float
        Rows of a sample without bias that would give the same error; infinite for a known mean, NaN for a constant.
    design_effect : float
        n V / Var: the variance relative to that of n rows without bias; NaN for a constant.
    carried : tuple of float
        Share of the variance that the rows of each sampled bias carry, in the order of the samples; may be empty.
    gain : dict
        For each bias, by how much V falls with one more row of its sample, relative to V; empty if not asked for, or
        if only some samples have recorded the column: its mean is then not efficient.
    among : tuple of str
        The samples that have recorded it; empty for all.
    slope : float
        By how much ``debiased`` moves at worst, to first order, where every bias may be wrong by up to a factor: for
        each unit of the log of that factor; NaN where not asked for, and for categories.
    category_of : str
        The column of texts that it is a category of; empty for other columns.
    """

    name: str
    is_share: bool
    pooled: float
    debiased: float
    stderr: float
    law: Law
    spread: float
    worth: float
    design_effect: float
    carried: tuple[float, ...]
    gain: dict[Name, float]
    among: tuple[str, ...] = ()
    slope: float = math.nan
    category_of: str = ""

    @property
    def category(self) -> str:
        """The name without the column that it is a category of."""
        return self.name.removeprefix(f"{self.category_of}: ")

    @property
    def label(self) -> str:
        """The name, with the samples that have recorded it if not all have."""
        return f"{self.name} (from {listed(self.among)})" if self.among else self.name

    @property
    def low(self) -> float:
        """Lower end of the 95% interval."""
        return self.law.ends(self.debiased, self.stderr, 0.95)[0]

    @property
    def high(self) -> float:
        """Upper end of the 95% interval."""
        return self.law.ends(self.debiased, self.stderr, 0.95)[1]

    @property
    def shift(self) -> float:
        """The change from pool to population, in standard deviations of the population."""
        return (self.debiased - self.pooled) / self.spread if self.spread else 0.0

    def if_wrong_by(self, factor: float) -> tuple[float, float]:
        """Return the range of ``debiased``, to first order, if every bias may be wrong by up to a factor."""
        half = math.log(factor) * self.slope
        low, high = self.debiased - half, self.debiased + half
        return (max(low, 0.0), min(high, 1.0)) if self.is_share else (low, high)

    def factor_to(self, distance: float) -> float:
        """Return the factor by which biases must be wrong to move it this far, to first order; may be infinite."""
        if not distance:
            return 1.0
        with np.errstate(over="ignore", divide="ignore"):
            return float(np.exp(np.float64(distance) / self.slope))

    @property
    def df(self) -> float:
        """Degrees of freedom of the standard error."""
        return self.law.df

    @property
    def tail_index(self) -> float:
        """Tail index of the influence values; NaN if it was not needed."""
        return math.nan if self.law.student is None else self.law.student.tail

    @property
    def difference(self) -> float:
        """The same as ``shift``."""
        return self.shift

    @property
    def equivalent(self) -> float:
        """The same as ``worth``."""
        return self.worth

    @property
    def collect_next(self) -> Name:
        """The bias whose next row helps this column most; an empty text if gains are unknown."""
        return max(self.gain, key=lambda name: self.gain[name], default="")


def named_variables(variables: Variables | None) -> dict[str, Function] | None:
    """Return the variables by name; None for all that can be read."""
    if variables is None:
        return None
    if isinstance(variables, str):
        return {variables: variables}
    if isinstance(variables, Mapping):
        return {str(name): values for name, values in variables.items()}
    if isinstance(variables, Iterable):
        texts = list(variables)
        if all(isinstance(name, str) for name in texts):
            return {name: name for name in texts}
    raise MismatchError(
        f"The variables were given as {type(variables).__qualname__}. Give a list of columns and expressions, or a "
        "mapping from name to values."
    )


def by_samples(columns: Sequence[Variable]) -> dict[tuple[int, ...], list[int]]:
    """Return the places of columns, by the samples that have recorded them."""
    places: dict[tuple[int, ...], list[int]] = {}
    for j, column in enumerate(columns):
        places.setdefault(column.among, []).append(j)
    return places


def exponent_of(values: Floats, extreme: int = 300) -> int:
    """Return the power of two to divide values by, so that no square overflows or underflows; 0 if none would."""
    exponent = int(np.frexp(max(-float(values.min()), float(values.max())))[1])
    return exponent if abs(exponent) > extreme else 0


def facts_of(
    columns: Sequence[Variable],
    sizes: Mapping[Name, float],
    tangent: Tangent,
    values: Functions | Kept,
    exponents: Sequence[int],
    laws: Functions | None = None,
    slopes: Callable[[Influence], Floats] | None = None,
) -> list[ColumnFacts]:
    """Return the facts about columns, from sums over rows, wherever these are.

    Parameters
    ----------
    columns : sequence of Variable
        The columns.
    sizes : mapping
        Rows of each sample.
    tangent : Tangent
        How rows move estimates.
    values : functions
        The values of the columns, in the form that the measure takes, divided by powers of two.
    exponents : sequence of int
        These powers, which are undone.
    laws : Functions, optional
        The weight of each row under each bias; for gains.
    slopes : callable, optional
        Returns how far wrong biases move estimates, for each unit of log Gamma.
    """
    measure, functions = tangent.measure, as_functions(values)
    estimates, rests_on = tangent.measured(functions, 0.95)
    assert estimates.influence is not None
    phi, mean, n = estimates.influence.values, estimates.values, tangent.n

    def question(block: Block) -> tuple[Floats, ...]:
        at = measure.point.at(block)
        f, inside = functions.of(block, at), measure.inside_of(block)
        less = f - mean
        deviation, size = block.sum(less * less * at.weight), block.sum(np.abs(f) * at.weight)
        sums = block.sum(inside * f), deviation, size, block.sum(inside)
        if laws is None:
            return sums
        moved, tilts = block.let(phi.of(block)), block.let(laws.of(block, at))
        return *sums, block.gram(tilts, moved), block.gram(tilts, moved * moved)

    total, variance, size, rows, *within = measure.rows.total(question, 3 * functions.width)
    pooled, spread = total / rows, np.sqrt(variance / n)
    spread = np.where(spread > 1e-12 * (size / n), spread, 0.0)  # or rounding
    gains = np.empty((0, functions.width))
    if within:
        gains = np.maximum(within[1] / n - (within[0] / n) ** 2, 0.0) / n**2
    moves = np.full(functions.width, math.nan) if slopes is None else slopes(estimates.influence)
    sampled = np.array(list(sizes.values())) > 0
    is_known = np.array([isinstance(law, FixedValue) for law in estimates.laws])
    V = np.where((spread > 0) & ~is_known, rests_on.stderr**2, 0.0)
    units = np.stack([pooled, mean, np.where(is_known, 0.0, estimates.stderr), spread, moves])
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # V is 0 for known means and constants
        units, worth = np.ldexp(units, exponents), spread**2 / V
        carried, gains = rests_on.carried[sampled] * rests_on.scale**2 / V, np.where(V > 0, gains / V, 0.0)
    rows_of_facts = zip(*units.tolist(), worth.tolist(), carried.T.tolist(), gains.T.tolist(), strict=True)
    return [
        ColumnFacts(
            column.name,
            isinstance(law, Share),
            before,
            after,
            stderr if np.isfinite(law.ends(after, stderr, 0.95)).all() else math.nan,
            law,
            deviation,
            equivalent,
            design_effect=sum(sizes.values()) / equivalent,
            carried=tuple(shares) if varies else (),
            gain=dict(zip(sizes, gain, strict=False)),
            among=estimates.among,
            slope=math.nan if column.category_of else slope,
            category_of=column.category_of,
        )
        for column, law, varies, (before, after, stderr, deviation, slope, equivalent, shares, gain) in zip(
            columns, estimates.laws, V > 0, rows_of_facts, strict=True
        )
    ]

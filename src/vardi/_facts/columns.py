"""Columns before and after: means over the pool and over the population, and what their errors rest on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vardi._estimate.estimates import ROUNDING, quantile_of_normal
from vardi._estimate.reliability import CARRIES, single_rows
from vardi._estimate.tangent import Tangent
from vardi._inputs.pool import Name
from vardi._rows.grouping import membership
from vardi._types import Floats
from vardi.errors import MismatchError

BATCH = 4  # columns whose influence values are in memory at once
CONSTANT = 1e-12  # spread of a column, relative to the size of its values, up to which it is rounding alone


@dataclass(frozen=True, eq=False)
class Column:
    """Something that has a mean: its values on the rows that the fit rests on or, in an engine, a text of columns."""

    name: str
    values: Any


@dataclass(frozen=True)
class ColumnFacts:
    r"""The mean of a column, or the share of a category, before and after.

    With :math:`V` the variance of an expectation and :math:`\phi` its influence values, one more row of sample k
    changes V by :math:`\partial V / \partial n_k = -\operatorname{Var}_{P_k}(\phi) / n^2`. The estimator is efficient,
    so its influence values minimise :math:`\sum_k \operatorname{Var}_{P_k}(h_k) / n_k` over all that are unbiased, and
    to first order a change of n_k leaves the minimising :math:`h_k = \lambda_k \phi` alone. It holds for states that
    no sample was drawn from, too.

    Attributes
    ----------
    name : str
        The column or expression, or ``column: category``.
    is_share : bool
        Whether it is the share of rows for which something holds.
    pooled, debiased : float
        Over the pool and over the population.
    stderr : float
        Standard error of the latter; NaN where none can be given.
    spread : float
        Standard deviation over the population.
    worth : float
        Rows of a sample without bias that would give the same error; infinite for a mean that is known, NaN for a
        constant.
    design_effect : float
        n V / Var: how many times as large the variance is as that of n rows without bias; NaN for a constant.
    largest_row : float
        Share of the variance that a single row carries; NaN where that is not known.
    carried : tuple of float
        Share of the variance that the rows of each sampled bias carry, in the order of the samples; may be empty.
    gain : dict
        For each bias, by how much V falls with one more row of its sample, relative to V; empty where not asked for.
    """

    name: str
    is_share: bool
    pooled: float
    debiased: float
    stderr: float
    spread: float
    worth: float
    design_effect: float
    largest_row: float
    carried: tuple[float, ...]
    gain: dict[Name, float]

    @property
    def low(self) -> float:
        """Lower end of the 95% interval."""
        return self.debiased - quantile_of_normal(0.95) * self.stderr

    @property
    def high(self) -> float:
        """Upper end of the 95% interval."""
        return self.debiased + quantile_of_normal(0.95) * self.stderr

    @property
    def shift(self) -> float:
        """The change from pool to population, in standard deviations of the population."""
        return (self.debiased - self.pooled) / self.spread if self.spread else 0.0

    @property
    def rests_on_one_row(self) -> bool:
        """Whether a single row carries so much of the variance that the error is a rough one."""
        return self.largest_row > CARRIES and not math.isnan(self.stderr)

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
        """The bias whose next row helps this column most; an empty text where gains are not known."""
        return max(self.gain, key=lambda name: self.gain[name], default="")


def named_variables(variables: Any) -> dict[str, Any] | None:
    """Return what was asked for by name, None for whatever can be read."""
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
        f"The variables came as {type(variables).__qualname__}. Give a list of columns and expressions, or a mapping "
        "from name to values.",
        expected=("list of texts", "mapping"),
        got=(type(variables).__qualname__,),
    )


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """What the rows say of m functions f: sums over rows, wherever these are.

    Attributes
    ----------
    pooled, debiased : ndarray of shape (m,)
        Means over the pool, and over the population.
    variance, size : ndarray of shape (m,)
        Means of (f - debiased)^2 and of the absolute value of f over the population.
    is_share : ndarray of bool
        Whether f is 0 or 1 on every row.
    carried : ndarray of shape (K, m)
        What the rows of each bias add to the variance of ``debiased``.
    largest : ndarray of shape (m,)
        The largest share of that variance that one row carries.
    within : ndarray of shape (K, m), or (0, m)
        By how much that variance falls with one more row of each bias, where asked for.
    known : ndarray of shape (m,)
        What the errors of known values add to that variance.
    """

    pooled: Floats
    debiased: Floats
    variance: Floats
    size: Floats
    is_share: Floats
    carried: Floats
    largest: Floats
    within: Floats
    known: Floats

    def facts(
        self, columns: Sequence[str], sizes: Mapping[Name, float], *, trusted: bool, exponents: Sequence[int] = ()
    ) -> list[ColumnFacts]:
        """Return the facts of columns; of those that were divided by powers of two the ``exponents``."""
        facts, n, sampled = [], sum(sizes.values()), np.array(list(sizes.values())) > 0
        spread = np.where(np.sqrt(self.variance) > CONSTANT * self.size, np.sqrt(self.variance), 0.0)
        for j, column in enumerate(columns):
            V = float(self.carried[:, j].sum() + self.known[j]) if spread[j] > 0 else 0.0
            if math.sqrt(V) <= ROUNDING * self.size[j]:  # a mean that is known
                V = 0.0
            units = np.array([self.pooled[j], self.debiased[j], math.sqrt(V), spread[j]])
            before, after, stderr, deviation = np.ldexp(units, exponents[j] if exponents else 0).tolist()
            if not trusted or not math.isfinite(abs(after) + quantile_of_normal(0.95) * stderr):
                stderr = math.nan  # withheld, or with an interval whose ends are too large for a number
            worth = float(spread[j] ** 2 / V) if V > 0 else math.inf if spread[j] > 0 else math.nan
            gain = self.within[:, j] / V if V > 0 else np.zeros(len(self.within))
            facts.append(
                ColumnFacts(
                    column,
                    is_share=bool(self.is_share[j]),
                    pooled=before,
                    debiased=after,
                    stderr=stderr,
                    spread=deviation,
                    worth=worth,
                    design_effect=n / worth,
                    largest_row=float(self.largest[j]) if V > 0 else math.nan,
                    carried=tuple((self.carried[sampled, j] / V).tolist()) if V > 0 else (),
                    gain=dict(zip(sizes, gain.tolist(), strict=False)),
                )
            )
        return facts


def describe(
    influence: Tangent,
    columns: Sequence[Column],
    sizes: Mapping[Name, float],
    *,
    trusted: bool,
    laws: Floats | None = None,
) -> tuple[ColumnFacts, ...]:
    """Return the facts of columns in memory.

    Parameters
    ----------
    influence : Influence
        How rows move estimates.
    columns : sequence of Column
        With a value for each row.
    sizes : mapping
        Rows of each bias, by name.
    trusted : bool
        Whether errors can be given.
    laws : ndarray of shape (n, K), optional
        The probability of each row under each bias; for gains.
    """
    facts: list[ColumnFacts] = []
    for start in range(0, len(columns), BATCH):
        batch = columns[start : start + BATCH]
        # so that no square of a value is too large for a number
        exponents = [int(np.frexp(np.abs(column.values).max())[1]) for column in batch]
        values = np.column_stack([np.ldexp(column.values, -e) for column, e in zip(batch, exponents, strict=True)])
        ones = np.ldexp(1.0, [-exponent for exponent in exponents])
        sums = _sums(influence, values, ones, np.empty((len(values), 0)) if laws is None else laws)
        facts += sums.facts([column.name for column in batch], sizes, trusted=trusted, exponents=exponents)
    return tuple(facts)


def _sums(influence: Tangent, f: Floats, ones: Floats, laws: Floats) -> ColumnSums:
    strata, n = influence.strata, influence.n
    counts = np.ones(len(f)) if strata.counts is None else strata.counts
    mass = counts * influence.weights / n
    eta, moved = influence.influence(f)
    phi = moved.values
    squares = strata.centred(phi) ** 2
    return ColumnSums(
        pooled=counts @ f / n,
        debiased=eta,
        variance=mass @ (f - eta) ** 2,
        size=mass @ np.abs(f),
        is_share=((f == 0.0) | (f == ones)).all(axis=0),
        carried=np.asarray(membership(strata.source, len(influence.u), None) @ squares),
        largest=single_rows(strata, squares)[0],
        within=np.maximum(laws.T @ phi**2 - (laws.T @ phi) ** 2, 0.0) / n**2,
        known=(moved.beyond**2).sum(axis=0) / n**2,
    )

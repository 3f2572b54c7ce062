"""Rows in memory at a solution, each with its weight: the basis for estimates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vardi._inputs.dependence import Dependence
from vardi._machine.threads import sum_blocks
from vardi._rows.base import of_blocks
from vardi._rows.contract import Coordinates, Evenness, Means
from vardi._rows.dependent import DependentRows, strata_of
from vardi._rows.variance import ALIKE, KINDS, Spread
from vardi._types import Floats, Integers


class RowsAtPoints(Protocol):
    """Rows that answer sums at a point, with or without parameters and known moments."""

    sizes: Floats
    source: Integers
    counts: Floats
    inverse: NDArray[Any] | None

    def __len__(self) -> int: ...
    @property
    def coordinates(self) -> Coordinates: ...
    def project(self, v: Floats, y: Floats) -> Floats: ...
    def mix(self, v: Floats, b: Floats) -> Floats: ...
    def project_from(self, v: Floats, y: Callable[[slice], Floats], m: int) -> Floats: ...
    def add_mix(self, v: Floats, b: Floats, onto: Floats) -> None: ...
    def sum_mix(self, v: Floats, b: Floats, function: Callable[[slice, Floats], Floats]) -> Floats: ...
    def seen(self, v: Floats) -> tuple[Floats, Floats]: ...
    def entries(self, v: Floats) -> Any: ...
    def beside(self, v: Floats) -> tuple[Floats, Floats]: ...
    def along(self, v: Floats, b: Floats) -> tuple[Floats, dict[int, Floats]]: ...
    def gradients(self, v: Floats) -> dict[int, Floats]: ...
    @property
    def places(self) -> dict[int, slice]: ...
    def spread(self, values: NDArray[Any]) -> NDArray[Any]: ...


@dataclass(frozen=True)
class Weighed:
    """Functions given as r_i f_i, which stays finite where f alone would not."""

    values: Floats


class WeightedRows:
    r"""The rows of a pool at the point v, with weights :math:`r_i = 1 / S_i` of mean 1.

    Parameters
    ----------
    rows : RowsAtPoints
        Rows in the form in which they were solved; if collapsed, ``rows.inverse`` leads back to the pool.
    v : ndarray
        The point in the gauge in which the weights have mean 1.
    weights : ndarray
        Weight of each row of ``rows``.
    source : ndarray of int
        Sample of each row of the pool.
    counts : ndarray or None
        Count of each row of the pool.
    dependence : Dependence
        How rows of the pool depend on one another.
    """

    inside: NDArray[np.bool_] | None = None  # the rows that have weights, if only those of some samples do
    recorded_by: tuple[str, ...] = ()  # the names of these samples

    def __init__(
        self,
        rows: RowsAtPoints,
        v: Floats,
        weights: Floats,
        source: Integers,
        counts: Floats,
        dependence: Dependence,
    ) -> None:
        self.rows, self.v, self.row_weights = rows, v, weights
        self.sizes, self.n = rows.sizes, float(rows.sizes.sum())
        self.strata = strata_of(source, rows.sizes, counts, self, dependence)

    @property
    def whole(self) -> WeightedRows:
        """The rows of all samples, on which influence values are defined: these."""
        return self

    @property
    def coordinates(self) -> Coordinates:
        """The layout of v."""
        return self.rows.coordinates

    @property
    def weights(self) -> Floats:
        """Weight r_i of each row of the pool."""
        return self.rows.spread(self.row_weights)

    @property
    def source(self) -> Integers:
        """Sample of each row of the pool."""
        return self.strata.source

    @cached_property
    def counts(self) -> Floats:
        """How many rows each row of the pool stands for."""
        return self.strata.counts

    def project(self, y: Floats) -> Floats:
        """Return sum_i c_i y_i x_i for y of shape (n, m) over the pool."""
        return self.rows.project(self.v, self._gathered(y))

    def _gathered(self, y: Floats) -> Floats:
        """Return the mean of y over the rows of the pool that each solved row stands for."""
        if self.rows.inverse is None:
            return y
        counted = y * self.strata.counts[:, None]
        kinds = len(self.rows)
        gathered = np.stack([np.bincount(self.rows.inverse, column, minlength=kinds) for column in counted.T], axis=1)
        return np.asarray(gathered / self.rows.counts[:, None])

    def mix(self, b: Floats) -> Floats:
        """Return q_i'b for every row of the pool."""
        return self.rows.spread(self.rows.mix(self.v, b))

    def sum_mix(self, b: Floats, function: Callable[[slice, Floats], Floats]) -> Floats:
        """Sum a function of the place of rows of the pool and (q_i'b)' there, of shape (m, rows), over all of them."""
        if self.rows.inverse is None:
            return self.rows.sum_mix(self.v, b, function)
        mixed = self.mix(b)
        return sum_blocks(lambda rows: function(rows, mixed[rows].T), len(mixed), b.shape[1])

    def seen(self) -> tuple[Floats, Floats]:
        """Return x_i and q_i of every row of the pool, of shape (n, d)."""
        x, q = self.rows.seen(self.v)
        return self.rows.spread(x), self.rows.spread(q)

    def entries(self) -> Any:
        """Return x_i = q_i of every row of the pool as a CSR array; None if they differ, or few are zero."""
        return self.rows.entries(self.v) if self.rows.inverse is None else None

    def gradients(self) -> dict[int, Floats]:
        """Return t = grad log omega of each bias with parameters, for the rows as they were solved."""
        return self.rows.gradients(self.v)

    @property
    def has_parameters(self) -> bool:
        """Whether a bias has parameters, along which rows move."""
        return bool(self.rows.places)

    def along(self, b: Floats) -> tuple[Floats, dict[int, Floats]]:
        """Return b_theta't of each row for its own bias, and for each bias with parameters."""
        own, along = self.rows.along(self.v, b)
        return self.rows.spread(own), {k: self.rows.spread(values) for k, values in along.items()}

    def mean(self, functions: Floats | Weighed) -> Floats:
        """Return eta = sum_i c_i r_i f_i / n for functions of shape (n, m)."""
        counts = self.strata.counts
        if isinstance(functions, Weighed):
            return np.asarray(counts @ functions.values / self.n)
        mass = self.weights * counts
        n, m = functions.shape
        return np.asarray(sum_blocks(lambda part: mass[part] @ functions[part], n, m, sums=m) / self.n)

    def means(self, functions: Floats) -> Means:
        """Return eta, and whether functions are shares."""
        counts, (n, m) = self.strata.counts, functions.shape

        def block(part: slice) -> Floats:
            held = functions[part] != 0.0
            rows, ones = _rows_with(held), _rows_with(functions[part] == 1.0)
            return np.stack([counts[part] @ held, rows - ones])

        events, strays = sum_blocks(block, n, m, sums=2 * m)
        return Means(self.mean(functions), strays, events, self.n)

    def holds(self, functions: Floats, j: int) -> NDArray[np.bool_]:
        """Return the rows that a share counts."""
        return np.asarray(functions[:, j] != 0.0)

    def range(self, functions: Floats, j: int) -> tuple[float, float]:
        """Return the smallest and the largest value of a function."""
        return float(functions[:, j].min()), float(functions[:, j].max())

    @cached_property
    def evenness(self) -> Evenness:
        """How evenly the weights are spread over all rows."""
        return self.evenness_of(np.ones(len(self.source), bool))

    def among(self, holds: NDArray[np.bool_], base: NDArray[np.bool_]) -> tuple[float, float, Evenness] | None:
        """Return how many rows of a base meet a condition and do not, and its weights; None if others meet it, too."""
        if (holds & ~base).any():
            return None
        events, rows = float(self.counts @ holds), float(self.counts @ base)
        return events, rows - events, self.evenness_of(base)

    @property
    def in_clusters(self) -> bool:
        """Whether rows lie in clusters."""
        return isinstance(self.strata, DependentRows) and self.strata.dependence.clusters is not None

    def evenness_of(self, rows: NDArray[np.bool_]) -> Evenness:
        """Return how evenly the weights are spread over some rows, or clusters of them."""
        return self.strata.evenness(np.where(rows, self.weights, 0.0))

    def against(self, functions: Floats | Weighed, eta: Floats) -> Floats:
        """Return a = sum_i c_i r_i (f_i - eta) x_i, of shape (d, m)."""
        if self.rows.inverse is not None:
            return self.project(self._less(functions, eta))
        return self.rows.project_from(self.v, self._less_in(functions, eta), len(eta))

    def squares(self, functions: Floats | Weighed, eta: Floats) -> Floats:
        """Return sum_i c_i r_i^2 (f_i - eta) (f_i - eta)'."""
        rg = self._less(functions, eta)
        return np.asarray((rg.T * self.counts) @ rg)

    def influence(self, functions: Floats | Weighed, eta: Floats, b: Floats) -> Floats:
        """Return phi_i = r_i (f_i - eta) + q_i'b for every row of the pool."""
        phi = self._less(functions, eta)
        self._add_mix(b, phi)
        return phi

    def _add_mix(self, b: Floats, onto: Floats) -> None:
        """Add q_i'b to numbers of every row of the pool."""
        if self.rows.inverse is None:
            self.rows.add_mix(self.v, b, onto)
        else:
            onto += self.mix(b)

    def _less(self, functions: Floats | Weighed, eta: Floats) -> Floats:
        """Return r (f - eta)."""
        given = functions.values if isinstance(functions, Weighed) else functions
        return of_blocks(self._less_in(functions, eta), *given.shape)

    def _less_in(self, functions: Floats | Weighed, eta: Floats) -> Callable[[slice], Floats]:
        """Return r (f - eta) as a function of the place of rows, without losing digits to an offset of f."""
        weights = self.weights

        def block(part: slice) -> Floats:
            if isinstance(functions, Weighed):
                return np.asarray(functions.values[part] - weights[part, None] * eta)
            less = functions[part] - eta
            less *= weights[part, None]
            return np.asarray(less)

        return block

    def covariance(self, phi: Floats) -> Floats:
        """Return the covariance of the estimates with influence values phi."""
        return self.strata.covariance(phi)

    def spread(self, phi: Floats, *, joint: bool = True) -> Spread:
        """Return what the errors of the estimates with influence values phi rest on."""
        return self.strata.spread(phi, joint=joint)

    def tail(self, phi: Floats, j: int) -> float:
        """Return the tail index of the influence values of an estimate.

        If weights have only a few values, it is that of phi divided by those above 1: otherwise rows of a rare large
        weight would all be the largest, which is not a tail.
        """
        most = min(KINDS, self.n / ALIKE)
        has_few = len(np.unique(self.row_weights[: KINDS + 1])) <= most and len(np.unique(self.row_weights)) <= most
        return self.strata.tail(phi[:, [j]], self.weights if has_few else 1.0)


def _rows_with(holds: NDArray[np.bool_]) -> Floats:
    """Return how many rows meet each of some conditions."""
    return np.array([np.count_nonzero(column) for column in holds.T], np.float64)

r"""Free energy surfaces as means of functions of the rows: one for each bin, or for each point asked for.

A surface in a state is :math:`f(\xi) = -\log E\,g_\xi(x)`, with :math:`g_\xi` the indicator of the bin that holds
:math:`\xi`, or a kernel around it. Rows bring the coordinate x as numbers, or as expressions of columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gamma, isfinite, pi, prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from vardi._fit.sample import DebiasedSample
from vardi._inputs.frames import as_frame
from vardi._types import Floats, Integers, Numbers
from vardi.biases import where
from vardi.errors import MismatchError
from vardi.mbar._arguments import require_one_of
from vardi.mbar._states import StateWeights, dense, refits

KERNELS = ("gaussian", "tophat", "epanechnikov")
# Of scikit-learn's tree search, which is not used here.
OF_SPEED = ("algorithm", "atol", "rtol", "breadth_first", "leaf_size")

Parameters: TypeAlias = Mapping[str, Any]  # of pymbar's functions, by name: of a type for each
Rows: TypeAlias = Floats | tuple[str, ...]  # the coordinate: (n, D) numbers, or D expressions
Functions: TypeAlias = Numbers | sparse.csr_array  # (n, m) numbers, dense or sparse, or a row of m expressions


def as_points(x: ArrayLike, dims: int, what: str) -> Floats:
    """Return points as numbers of shape (m, D)."""
    points = np.asarray(x, np.float64)
    points = points.reshape(-1, 1) if dims == 1 and points.ndim <= 1 else np.atleast_2d(points)
    if points.ndim != 2 or points.shape[1] != dims:
        raise MismatchError(
            f"{what} has shape {np.shape(x)}, but the surface has {dims} dimension{'' if dims == 1 else 's'}. Give a "
            f"point in each row: an array of shape (points, {dims})."
        )
    return points


@dataclass(frozen=True)
class Histogram:
    """Bins on a grid, each of which holds its left edge.

    Attributes
    ----------
    edges : tuple of ndarray
        Edges of the bins in each dimension, increasing.
    periods : tuple of float or None
        The period of each dimension, which the bins cover once, or None.
    """

    edges: tuple[Floats, ...]
    periods: tuple[float | None, ...]

    @classmethod
    def of(cls, parameters: Parameters | None) -> Histogram:
        """Read ``histogram_parameters``."""
        options = _options(parameters, ("bin_edges", "period"), "histogram_parameters")
        if "bin_edges" not in options:
            raise MismatchError(
                "histogram_parameters has no bin_edges, but a histogram needs them. Give the edges in each dimension, "
                'as in {"bin_edges": numpy.linspace(0, 1, 21)}.'
            )
        raw = options["bin_edges"]
        edges = tuple(np.asarray(one, np.float64) for one in ([raw] if np.ndim(raw[0]) == 0 else raw))
        periods = _periods(options.get("period"), len(edges))
        for one, period in zip(edges, periods, strict=True):
            if one.ndim != 1 or len(one) < 2 or not (np.diff(one) > 0).all():
                raise MismatchError(
                    f"The bin edges are {np.array2string(one, threshold=6)}, but they must increase. Give two or "
                    "more in each dimension, from low to high."
                )
            if period is not None and not np.isclose(one[-1] - one[0], period, rtol=1e-9):
                raise MismatchError(
                    f"The bins go from {one[0]:g} to {one[-1]:g}, but the period is {period:g}. Let them cover it "
                    "exactly once."
                )
        return cls(edges, periods)

    @property
    def dims(self) -> int:
        """How many dimensions the grid has."""
        return len(self.edges)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many bins the grid has in each dimension."""
        return tuple(len(one) - 1 for one in self.edges)

    def places(self, points: Floats) -> Integers:
        """Return the bin of each point, -1 outside the grid."""
        index = []
        for x, edges, period in zip(points.T, self.edges, self.periods, strict=True):
            inside = x if period is None else edges[0] + (x - edges[0]) % period
            index.append(np.searchsorted(edges, inside, side="right") - 1)
        outside = np.any([(one < 0) | (one >= size) for one, size in zip(index, self.shape, strict=True)], axis=0)
        return np.where(outside, -1, np.ravel_multi_index(index, self.shape, mode="clip"))

    def sites(self, points: Floats) -> tuple[Integers, np.ndarray]:
        """Return the place of each point among the bins asked for, -1 outside the grid, and those bins."""
        bins, places = np.unique(self.places(points), return_inverse=True)
        outside = int(len(bins) > 0 and bins[0] < 0)
        return places - outside, bins[outside:]

    def functions(self, rows: Rows, places: np.ndarray) -> Functions:
        """Return the indicators of the given bins."""
        if isinstance(rows, tuple):
            return as_row(
                [self._within(rows, index) for index in zip(*np.unravel_index(places, self.shape), strict=True)]
            )
        column = np.full(prod(self.shape) + 1, -1)
        column[places] = np.arange(len(places))
        chosen = column[self.places(rows)]
        inside = np.flatnonzero(chosen >= 0)
        return sparse.csr_array((np.ones(len(inside)), (inside, chosen[inside])), shape=(len(rows), len(places)))

    def _within(self, rows: tuple[str, ...], index: Sequence[int]) -> str:
        """Return the condition that the coordinate is in a bin."""
        parts = zip(rows, self.edges, index, strict=True)
        return " and ".join(f"{float(edges[i])!r} <= ({x}) < {float(edges[i + 1])!r}" for x, edges, i in parts)

    def whole(self, rows: Rows) -> Functions:
        """Return the indicator of the grid, as of a single bin: in it probabilities sum to 1."""
        grid = Histogram(tuple(edges[[0, -1]] for edges in self.edges), self.periods)
        return grid.functions(rows, np.array([0]))

    log_constant = 0.0


@dataclass(frozen=True)
class Kernel:
    """Kernels of one width around points.

    Attributes
    ----------
    width : float
        The bandwidth.
    kind : str
        The kernel.
    periods : tuple of float or None
        The period of each dimension, or None.
    """

    width: float
    kind: str
    periods: tuple[float | None, ...]

    @classmethod
    def of(cls, parameters: Parameters | None, dims: int) -> Kernel:
        """Read ``kde_parameters``."""
        options = _options(parameters, ("bandwidth", "kernel", "period", *OF_SPEED), "kde_parameters")
        width, kind = options.get("bandwidth", 1.0), options.get("kernel", "gaussian")
        if isinstance(width, str) or not isfinite(width) or width <= 0:
            raise MismatchError(f"The bandwidth is {width!r}. Give a number above 0, in units of the coordinate.")
        require_one_of(kind, KERNELS, "The kernel")
        periods = _periods(options.get("period"), dims)
        narrow = min((period for period in periods if period is not None), default=np.inf)
        if 6.0 * width > narrow:  # images beyond the two nearest would weigh 2e-8 or more
            raise MismatchError(
                f"The bandwidth {width:g} is more than a sixth of the period {narrow:g}, so a kernel would "
                "overlap itself. Give a smaller one."
            )
        return cls(float(width), kind, periods)

    @property
    def dims(self) -> int:
        """How many dimensions the coordinate has."""
        return len(self.periods)

    def sites(self, points: Floats) -> tuple[Integers, np.ndarray]:
        """Return the place of each point among the points asked for, -1 if it is not finite, and those points."""
        there = np.isfinite(points).all(axis=1)
        return np.where(there, np.cumsum(there) - 1, -1), points[there]

    def functions(self, rows: Rows, points: np.ndarray) -> Functions:
        """Return the kernels around the given points."""
        if isinstance(rows, tuple):
            return as_row([self._text(rows, point) for point in points.tolist()])
        frame = as_frame(self._within_a_period(rows))
        kernels = [where(self._text(frame.columns, point)) for point in self._within_a_period(points).tolist()]
        return np.column_stack(frame.evaluate(kernels)).astype(np.float64, copy=False)

    def _within_a_period(self, points: Floats) -> Floats:
        columns = zip(points.T, self.periods, strict=True)
        return np.column_stack([x if period is None else x % period for x, period in columns])

    def _text(self, rows: tuple[str, ...], point: Sequence[float]) -> str:
        """Return the kernel around a point as an expression; a periodic coordinate lies within one period."""
        h, parts = repr(self.width), []
        for x, at, period in zip(rows, point, self.periods, strict=True):
            apart = f"abs(({x}) - ({at!r}))"
            if self.kind == "gaussian":
                near = f"exp(-0.5 * ({apart} / {h}) ** 2)"
                parts.append(near if period is None else f"({near} + exp(-0.5 * (({period!r} - {apart}) / {h}) ** 2))")
            else:
                apart = apart if period is None else f"min({apart}, {period!r} - {apart})"
                parts.append(f"({apart} / {h}) ** 2")
        if self.kind == "gaussian":
            return " * ".join(parts)
        q = " + ".join(parts)
        return f"({q}) < 1.0" if self.kind == "tophat" else f"max(1.0 - ({q}), 0.0)"

    def whole(self, rows: Rows) -> Functions:
        """Return the function whose mean is the mass of all kernels together, up to a constant: 1."""
        return as_row(["1.0"]) if isinstance(rows, tuple) else np.ones((len(rows), 1))

    @property
    def log_constant(self) -> float:
        """The log of the integral of a kernel, by which a mean of kernels is divided to give a density."""
        D, ball = self.dims, pi ** (self.dims / 2) / gamma(self.dims / 2 + 1)
        integral = {"gaussian": (2 * pi) ** (D / 2), "tophat": ball, "epanechnikov": ball * 2 / (D + 2)}[self.kind]
        return float(np.log(integral) + D * np.log(self.width))


def _periods(period: float | Sequence[float | None] | None, dims: int) -> tuple[float | None, ...]:
    """Return the period of each dimension: one for all, or a list with None for those without."""
    periods = tuple(period) if isinstance(period, Sequence | np.ndarray) else (period,) * dims
    if len(periods) != dims or not all(one is None or (isfinite(one) and one > 0) for one in periods):
        raise MismatchError(
            f"period is {period!r}, but there {'is 1 dimension' if dims == 1 else f'are {dims} dimensions'}. Give the "
            "period of each, None where it has none."
        )
    return tuple(None if one is None else float(one) for one in periods)


def _options(parameters: Parameters | None, known: tuple[str, ...], what: str) -> Parameters:
    for name in parameters or ():
        if name not in known:
            raise MismatchError(f"{what} has {name!r}, which is not one of its parameters. Give {', '.join(known)}.")
    return parameters or {}


class InState:
    """Rows of a simulation under a state of reduced potential u_n.

    Parameters
    ----------
    rows : StateWeights
        The rows.
    u_n : ndarray of shape (n,)
        Their potential in that state.
    """

    def __init__(self, rows: StateWeights, u_n: Floats) -> None:
        self._rows = rows
        self._w = rows._under(u_n[None, :])[1][0]

    def means(self, functions: Functions) -> Floats:
        """Return the mean of each function."""
        return np.asarray(_numbers(functions).T @ self._w)

    def log_covariance(self, functions: Functions) -> Floats:
        """Return the covariance of the logs of the means, valid for contrasts only."""
        scale = sparse.diags_array(1.0 / self.means(functions))
        return self._rows._covariance(sparse.diags_array(self._w) @ _numbers(functions) @ scale)

    def refits(self, functions: Functions, n: int, seed: int) -> Floats:
        """Return the means in each refit, up to a common factor."""
        numbers = _numbers(functions)
        return self._rows._bootstrap(lambda w: np.asarray(numbers.T @ (w * self._w)), n, seed)


class InPopulation:
    """The population of a fit, whatever holds its rows.

    Parameters
    ----------
    fit : DebiasedSample
        The fit.
    """

    def __init__(self, fit: DebiasedSample) -> None:
        self._fit = fit

    def means(self, functions: Functions) -> Floats:
        """Return the mean of each function."""
        solved = self._fit.solved
        return np.asarray(solved.tangent.measure.mean(solved.data.matrix(_as_given(functions))))

    def log_covariance(self, functions: Functions) -> Floats:
        """Return the covariance of the logs of the means."""
        solved = self._fit.solved
        means, influence = solved.tangent.influence(solved.data.matrix(_as_given(functions)))
        return np.asarray(influence.covariance() / np.outer(means, means))

    def refits(self, functions: Functions, n: int, seed: int) -> Floats:
        """Return the means in each refit."""
        values = _as_given(functions)
        return refits(self._fit, values if isinstance(values, list) else list(values.T), n, seed)


def as_row(texts: Sequence[str]) -> Numbers:
    """Return expressions as a row, whose columns are taken and joined like those of numbers."""
    return np.array([texts], dtype=object)


def _as_given(functions: Functions) -> Floats | list[str]:
    """Return functions as a fit takes them: expressions, or numbers in an array that holds the zeros, too."""
    return functions[0].tolist() if functions.dtype == object else dense(functions)


def _numbers(functions: Functions) -> Functions:
    if functions.dtype == object:
        raise MismatchError(
            "x_n is an expression of columns, but the rows of a simulation are given by their potentials alone. Give "
            "the coordinate of each row as numbers."
        )
    return functions

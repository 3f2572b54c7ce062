r"""Families of biases on the rows of a pool: log omega and its gradient, on a scale that suits the search.

Columns are scaled to mean 0 and standard deviation 1. Parameters on that scale, theta, and the user's, which belong to
the columns as they are, are linear functions of one another: ``users(theta)`` and ``own(parameters)``. On rows the two
differ by a constant in log omega, which the normaliser absorbs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
import scipy

from vardi._inputs.frames import Frame
from vardi._rows.cells import dummies
from vardi._rows.contract import Block, Kept
from vardi._types import Floats, Integers
from vardi.biases import ExpressionBias, FunctionFamily, ParametricBias
from vardi.biases._nodes import Cells, ExpressionFamily
from vardi.errors import InvalidBiasError, UnidentifiedParametersError, number_of_rows

STEP = 3e-3  # largest change of log omega in a finite difference
INTERCEPTS = (0.0, -2.0, 2.0)  # of the starts of a logistic curve


class FamilyAt(NamedTuple):
    """A family at some parameters, on the rows of a block.

    Attributes
    ----------
    log : ndarray of shape (rows, 1)
        Log omega, without its known factor, up to a constant.
    gradient : ndarray of shape (rows, p)
        t, its derivatives.
    bend : callable
        Returns the sum of its second derivatives, weighed by a column: of shape (p, p).
    """

    log: Floats
    gradient: Floats
    bend: Callable[[Floats], Floats]


class BiasFamily(ABC):
    """One family of biases on the rows of a pool; by default theta is on the user's scale.

    Attributes
    ----------
    names : tuple of str
        Names of the parameters.
    scaled : bool
        Whether theta belongs to columns with standard deviation 1.
    """

    names: tuple[str, ...]
    scaled = False

    @property
    def scale(self) -> Floats:
        """The matrix that turns theta into the user's parameters, of shape (p, p)."""
        return np.eye(len(self.names))

    @property
    def tilt(self) -> BiasFamily:
        """The exponential tilt that the family resembles where it is nearly constant; itself if it is one."""
        return self

    @abstractmethod
    def starts(self) -> Sequence[Floats]:
        """Return where to start from, all theta."""

    def prepare(self, theta: Floats) -> None:  # noqa: B027 (most families take each row on its own)
        """Compute what takes all rows at once."""

    @abstractmethod
    def at(self, block: Block, theta: Floats) -> FamilyAt:
        """Return the family on the rows of a block, after ``prepare``."""

    @abstractmethod
    def log_omega(self, theta: Floats) -> Floats:
        """Return log omega of all rows in memory, of shape (n,)."""

    def offset(self, theta: Floats) -> float:
        """Return what to add to get log omega on the user's scale."""
        return float(theta @ self.offset_gradient)

    @property
    def offset_gradient(self) -> Floats:
        """The derivatives of the offset in theta."""
        return np.zeros(len(self.names))

    @abstractmethod
    def subset(self, rows: Integers) -> Self:
        """Return the same on some rows in memory."""


@dataclass(frozen=True)
class OfColumns(BiasFamily):
    """A family that reads columns z, which have mean 0 and standard deviation 1."""

    names: tuple[str, ...]
    z: Kept
    mean: Floats
    deviation: Floats
    scaled = True

    def on(self, features: Floats) -> Self:
        """Return the family on rows in memory, whose features are in the units of the user's columns."""
        return replace(self, z=(features - self.mean) / self.deviation)

    def subset(self, rows: Integers) -> Self:
        """Return the same on some rows."""
        return replace(self, z=self.z[rows])


@dataclass(frozen=True)
class Linear(OfColumns):
    """A tilt, a power, steps or cells: log omega = theta'z."""

    @property
    def scale(self) -> Floats:
        """What turns theta into the user's parameters."""
        return np.diag(1.0 / self.deviation)

    def starts(self) -> Sequence[Floats]:
        """Return zero: the likelihood is concave."""
        return [np.zeros(len(self.names))]

    def at(self, block: Block, theta: Floats) -> FamilyAt:
        """Return theta'z, z, and no second derivatives."""
        z = block.solved(self.z)
        return FamilyAt(block.let(z @ theta[:, None]), z, lambda weights: np.zeros((len(theta), len(theta))))

    def log_omega(self, theta: Floats) -> Floats:
        """Return theta'z."""
        return np.asarray(self.z @ theta)

    @property
    def offset_gradient(self) -> Floats:
        """The means of the columns, in standard deviations."""
        return self.mean / self.deviation


@dataclass(frozen=True)
class Logistic(OfColumns):
    """Logistic selection: log omega = -log(1 + e^{-a - b'z}); the curve is the same on either scale."""

    @property
    def scale(self) -> Floats:
        """What turns theta into the user's parameters."""
        scale = np.diag(1.0 / np.append(1.0, self.deviation))
        scale[0, 1:] = -self.mean / self.deviation
        return scale

    @property
    def tilt(self) -> Linear:
        """The exponential tilt in the same columns: the limit for rare selection, and the tangent at b = 0."""
        return Linear(self.names[1:], self.z, self.mean, self.deviation)

    def starts(self) -> Sequence[Floats]:
        """Return flat curves; the tilt gives better ones."""
        return self.starts_from(np.zeros(len(self.names) - 1))

    def starts_from(self, tilt: Floats) -> Sequence[Floats]:
        """Return curves with the slope of a tilt at the means of the columns."""
        return [np.append(a, np.clip(tilt / scipy.special.expit(-a), -5.0, 5.0)) for a in INTERCEPTS]

    def at(self, block: Block, theta: Floats) -> FamilyAt:
        """Return -log(1 + e^{-a - b'z}), (1 - omega) (1, z), and the sum of -omega (1 - omega) (1, z) (1, z)'."""
        z = block.solved(self.z)
        predictor = block.let(z @ theta[1:, None] + theta[0])
        log = block.let(-np.logaddexp(0.0, -predictor))
        rest = block.let(np.exp(-np.logaddexp(0.0, predictor)))  # 1 - omega, without cancellation

        def bend(weights: Floats) -> Floats:
            curved = block.let(weights * np.exp(log) * rest * -1.0)
            level, slopes, within = block.sum(curved), block.sum(curved * z), block.gram(curved * z, z)
            return np.vstack([np.append(level, slopes), np.column_stack([slopes, within])])

        return FamilyAt(log, np.hstack([rest, rest * z]), bend)

    def log_omega(self, theta: Floats) -> Floats:
        """Return -log(1 + e^{-a - b'z})."""
        return -np.logaddexp(0.0, -(theta[0] + self.z @ theta[1:]))


@dataclass(frozen=True)
class Function(BiasFamily):
    """Any function of rows and parameters, which receives the rows as they were given."""

    family: FunctionFamily
    frames: tuple[Frame, ...]
    sample: str
    rows: Any
    names: tuple[str, ...]
    _made: dict[bytes, tuple[Floats, Floats, Floats]] = field(default_factory=dict, repr=False, compare=False)

    def starts(self) -> Sequence[Floats]:
        """Return the user's starts."""
        return [np.array(point) for point in self.family.start]

    def log_omega(self, theta: Floats) -> Floats:
        """Return the log of the function, -inf where it is zero."""
        values = np.concatenate([frame.evaluate([self.family.at(theta)], self.sample)[0] for frame in self.frames])
        values = np.asarray(values, np.float64)[self.rows]
        bad = np.flatnonzero(~((values >= 0) & (values < np.inf)))
        if len(bad):
            shown = ", ".join(f"{name} = {value:.4g}" for name, value in zip(self.names, theta, strict=True))
            raise InvalidBiasError(
                f"The bias of {self.sample!r} is {values[bad[0]]} on {number_of_rows(len(bad))} of the pool at "
                f"{shown}. A bias says how much likelier a unit is to be drawn, so it must be a finite number, zero or "
                "more, whatever the parameters. Write it so that it always is, e.g. as an exponential.",
                sample=self.sample,
                rows=bad[:10],
            )
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(values))

    def gradient(self, theta: Floats) -> Floats:
        """Return the user's gradient over omega, or differences of log omega."""
        if self.family.gradient is None:
            return np.column_stack([self._difference(theta, step) for step in self._steps(theta)])
        gradient = self.family.gradient
        parts = [np.asarray(gradient(frame.native, theta.copy()), np.float64) for frame in self.frames]
        shapes = [(len(frame), len(theta)) for frame in self.frames]
        if [part.shape for part in parts] != shapes:
            raise InvalidBiasError(
                f"The gradient of the bias of {self.sample!r} has shape {parts[0].shape}, but should have {shapes[0]}. "
                "Return the derivative of omega by each parameter (columns) for each row.",
                sample=self.sample,
            )
        omega = np.exp(self.log_omega(theta))[:, None]
        return np.divide(
            np.concatenate(parts)[self.rows], omega, out=np.zeros((len(omega), len(theta))), where=omega > 0
        )

    def prepare(self, theta: Floats) -> None:
        """Call the user's function on all rows, and keep what follows for one theta."""
        if theta.tobytes() not in self._made:
            found = self.log_omega(theta), self.gradient(theta), self._second_differences(theta)
            self._made.clear()
            self._made[theta.tobytes()] = found

    def at(self, block: Block, theta: Floats) -> FamilyAt:
        """Return log omega and its derivatives."""
        log, gradient, bent = map(block.solved, self._made[theta.tobytes()])
        shape = (len(theta), len(theta))
        return FamilyAt(log, gradient, lambda weights: block.sum(weights * bent).reshape(shape))

    def _second_differences(self, theta: Floats) -> Floats:
        """Return the second differences of log omega, of shape (n, p * p)."""
        here, steps = self.log_omega(theta), self._steps(theta)

        def moved(by: Floats) -> Floats:
            return self._change(here, self.log_omega(theta + by))

        bent = [moved(a + b) - moved(a - b) - moved(b - a) + moved(-a - b) for a in steps for b in steps]
        return np.column_stack(bent) / (4.0 * np.outer(np.diag(steps), np.diag(steps))).ravel()

    def subset(self, rows: Integers) -> Self:
        """Return the same on some rows."""
        own = np.arange(sum(len(frame) for frame in self.frames))[self.rows][rows]
        return replace(self, rows=own, _made={})

    def _difference(self, theta: Floats, step: Floats) -> Floats:
        """Return a five-point difference."""
        f = {k: self.log_omega(theta + k * step) for k in (-2, -1, 1, 2)}
        near, far = self._change(f[-1], f[1]), self._change(f[-2], f[2])
        return (8 * near - far) / (12 * step.sum())

    def _steps(self, theta: Floats) -> Floats:
        """Return a step of each parameter (rows) that changes log omega little, but by much more than rounding."""
        here, steps = self.log_omega(theta), np.diag(1e-4 * np.maximum(np.abs(theta), 1e-2))
        for step in steps:
            for _ in range(8):
                ends = [self.log_omega(theta + side * step) for side in (-1.0, 1.0)]
                change = max(float(np.abs(self._change(here, end)).max(initial=0.0)) for end in ends)
                if STEP / 4 <= change <= STEP or not change:
                    break
                step *= np.clip(STEP / 2 / change, 1e-4, 1e4)
        return steps

    def _change(self, before: Floats, after: Floats) -> Floats:
        moved = int(np.count_nonzero(np.isfinite(before) != np.isfinite(after)))
        if moved:
            raise InvalidBiasError(
                f"Whether the bias of {self.sample!r} is zero depends on its parameters ({number_of_rows(moved)}), so "
                "the likelihood is not smooth in them. Multiply by a known condition instead.",
                sample=self.sample,
            )
        finite = np.isfinite(before)
        return np.where(finite, np.where(finite, after, 0.0) - np.where(finite, before, 0.0), 0.0)


def as_model(bias: ParametricBias, frames: tuple[Frame, ...], kept: Any, counts: Floats, sample: str) -> BiasFamily:
    """Bind a family to the rows of the pool that the fit uses."""
    family = bias.family
    if isinstance(family, FunctionFamily):
        return Function(family, frames, sample, kept, family.names)
    columns = columns_of(bias, frames, sample)[kept]
    mean, deviation = np.zeros(columns.shape[1]), np.ones(columns.shape[1])
    if not is_of_indicators(bias):
        mean, deviation = mean_and_deviation(columns, counts)
    return model_on(bias, (), mean, deviation, sample).on(columns)


def is_of_indicators(bias: ParametricBias) -> bool:
    """Return whether the columns that a family reads are 0 or 1, and are left so."""
    return isinstance(bias.family, Cells) or (isinstance(bias.family, ExpressionFamily) and bias.family.kind == "steps")


def mean_and_deviation(columns: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of each column."""
    mean = np.average(columns, axis=0, weights=counts)
    return mean, np.sqrt(np.average((columns - mean) ** 2, axis=0, weights=counts))


def model_on(bias: ParametricBias, z: Kept, mean: Floats, deviation: Floats, sample: str) -> Linear | Logistic:
    """Return a family on columns z, scaled to mean 0 and deviation 1, or refuse one that never varies."""
    family = bias.family
    assert not isinstance(family, FunctionFamily)
    flat = np.flatnonzero(~(deviation > 1e-12 * np.abs(mean)))
    slopes = family.names[-len(mean) :]
    if len(flat):
        raise UnidentifiedParametersError(
            f"{slopes[flat[0]]!r} in the bias {bias} of {sample!r} is the same on all rows of the pool, so its "
            "parameter cannot be distinguished from the normaliser. Leave it out.",
            sample=sample,
            parameters=[slopes[j] for j in flat],
        )
    return _kind_of(family)(family.names, z, mean, deviation)


def _kind_of(family: Cells | ExpressionFamily) -> type[Linear | Logistic]:
    return Logistic if isinstance(family, ExpressionFamily) and family.kind == "logistic" else Linear


def columns_of(bias: ParametricBias, frames: Sequence[Frame], sample: str) -> Floats:
    """Return what a family's parameters multiply (except the intercept), for all rows of the frames."""
    family = bias.family
    assert not isinstance(family, FunctionFamily)
    if isinstance(family, Cells):
        return dummies(bias, frames, sample)[0]
    nodes = family.intervals()[1:] if family.kind == "steps" else family.terms
    expressions = [ExpressionBias(node) for node in nodes]
    parts = [np.column_stack(frame.evaluate(expressions, sample)).astype(np.float64) for frame in frames]
    columns = np.concatenate(parts)
    if family.kind == "power":
        _require(columns > 0, columns, bias, sample, "A power needs a column above zero")
        columns = np.log(columns)
    _require(np.isfinite(columns), columns, bias, sample, "A bias needs finite numbers")
    return columns


def _require(good: Any, columns: Floats, bias: ParametricBias, sample: str, need: str) -> None:
    bad = np.flatnonzero(~good.all(axis=1))
    if len(bad):
        value = columns[bad[0]][~good[bad[0]]][0]
        raise InvalidBiasError(
            f"The bias {bias} of {sample!r} reads {value} at row {bad[0]} of the pool ({number_of_rows(len(bad))} in "
            f"all). {need}, on the rows of every sample. Correct the column, or remove these rows.",
            sample=sample,
            rows=bad[:10],
        )

r"""Rows of an engine at a point v: S and x, as columns that queries read.

.. math::

    S_i = \sum_l e^{u_l}\omega_l(z_i;\theta) + \mu'(g(z_i) - R\varepsilon),\qquad x_i = \nabla S_i / S_i.

Every step is its own column, so what occurs in many sums is computed once for each row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np

from vardi._inputs.engine.part import OMEGA, PREFIX, Part
from vardi._rows.engine.expressions import ExpressionBlock, ExpressionColumns, PendingSums
from vardi._rows.engine.model import EngineFamily, EngineKnown, EngineModel, omega_column
from vardi._types import Floats, Integers

MASS = f"{PREFIX}S"
WEIGHT = f"{PREFIX}r"
REFUSED = f"{PREFIX}refused"
PREDICTOR, FITTED, REST, BIAS, RATIO, X = (
    f"{PREFIX}{what}_{{}}" for what in ("predictor", "fitted", "rest", "bias", "ratio", "x")
)


BIASES = 3  # stages after which all biases are columns


class EnginePoint:
    """The columns that rows have at a point.

    Parameters
    ----------
    model : EngineModel
        The rows.
    v : ndarray of shape (d,)
        The point.

    Attributes
    ----------
    active : ndarray of int
        The coordinates of x that are columns: those of sampled biases, of parameters and of known moments. Those of
        epsilon are -R'mu times the column of weights.
    """

    def __init__(self, model: EngineModel, v: Floats) -> None:
        self.model, self.v = model, v
        at = model.coordinates
        self.u, self.theta, self.mu, self.epsilon = v[at.u], v[at.theta], v[at.mu], v[at.epsilon]
        self.sampled: Integers = np.flatnonzero(np.isfinite(self.u))
        self.active: Integers = np.concatenate([self.sampled, np.arange(at.samples, at.epsilon.start)])
        with np.errstate(over="ignore"):  # sums at a point so far off are not finite, which is noticed later
            self.stages = self._stages()

    def __call__(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add the columns to a frame."""
        for columns in self.stages:
            frame = frame.with_columns(**columns) if columns else frame
        return frame

    @property
    def weight(self) -> nw.Expr:
        """1 / S."""
        return nw.col(WEIGHT)

    def x(self, coordinate: int) -> nw.Expr:
        """Return one active coordinate of x."""
        return nw.col(X.format(coordinate))

    def bias(self, k: int) -> nw.Expr:
        """Return omega_k at theta, on the scale of u."""
        return nw.col(BIAS.format(k)) if k in self.model.families else omega_column(k)

    def users_bias(self, k: int) -> nw.Expr:
        """Return omega_k at theta, on the user's scale."""
        offset = float(self.model.shift(self.theta)[k])
        return self.bias(k) * float(np.exp(offset)) if offset else self.bias(k)

    def ratio(self, k: int) -> nw.Expr:
        """Return omega_k / S of a bias with parameters."""
        return nw.col(RATIO.format(k))

    @property
    def log_mass(self) -> nw.Expr:
        """Log S."""
        return nw.col(MASS).log()

    @property
    def probabilities(self) -> ExpressionColumns:
        """The part of x in u; states without rows have none."""
        return ExpressionColumns({k: self.x(k) for k in self.sampled.tolist()}, self.model.coordinates.samples)

    @property
    def others(self) -> ExpressionColumns:
        """The parts of x in theta and mu."""
        at = self.model.coordinates
        return ExpressionColumns.of(*(self.x(i) for i in range(at.samples, at.epsilon.start)))

    @property
    def moving(self) -> Mapping[int, int]:
        """Known moments that are the mean of a bias with parameters, with the position of that bias."""
        return self.model.known.moving

    @property
    def places(self) -> Mapping[int, slice]:
        """The place in theta of each bias's parameters."""
        return self.model.places

    def share(self, k: int) -> nw.Expr:
        """Return p_k."""
        return self.x(k)

    def log_family(self, k: int) -> nw.Expr:
        """Return the log of the part of omega_k that has parameters, on the scale of theta."""
        is_curved = self.model.families[k].curved
        return nw.col(FITTED.format(k)).log() if is_curved else nw.col(PREDICTOR.format(k))

    def gradient(self, k: int) -> ExpressionColumns:
        """Return t_k = grad log omega_k, for each parameter of bias k."""
        columns = self._features(k)
        return columns.times(nw.col(REST.format(k))) if self.model.families[k].curved else columns

    def users_slope(self, k: int) -> Floats:
        """Return what to add to t_k on the user's scale."""
        return self.model.families[k].offset_gradient(self.theta[self.model.places[k]])

    def bend(self, block: ExpressionBlock, k: int, weights: nw.Expr) -> PendingSums:
        """Ask for the weighted sum of the second derivatives of log omega_k in theta."""
        columns = self._features(k)
        if not self.model.families[k].curved:
            return PendingSums((columns.width, columns.width), ())
        return block.square(columns, weights * nw.col(REST.format(k)) * nw.col(FITTED.format(k)) * -1.0)

    def _features(self, k: int) -> ExpressionColumns:
        """Return what the parameters of a bias multiply."""
        family = self.model.families[k]
        columns = [nw.col(name) for name in family.columns]
        return ExpressionColumns.of(nw.lit(1.0), *columns) if family.curved else ExpressionColumns.of(*columns)

    @cached_property
    def weight_of_epsilon(self) -> Floats:
        """The coordinates of epsilon, in multiples of 1 / S: -R'mu."""
        return -self.model.known.root.T @ self.mu

    def own(self, part: Part, b: Floats) -> nw.Expr | None:
        """Return t_{i, s_i}'b on the rows of a part, for b of the coordinates; None if it is zero."""
        total: nw.Expr | None = None
        for k, place in self.model.places.items():
            slopes = b[self.model.coordinates.theta][place]
            used = np.flatnonzero(slopes).tolist()
            if not used:
                continue
            gradient = self.gradient(k).terms
            terms = [gradient[j] * float(slopes[j]) for j in used]
            mine = part.only(k, sum(terms[1:], start=terms[0]))
            if mine is not None:
                total = mine if total is None else total + mine
        return total

    def _stages(self) -> list[dict[str, nw.Expr]]:
        model = self.model
        predictors: dict[str, nw.Expr] = {}
        curves: dict[str, nw.Expr] = {}
        biases: dict[str, nw.Expr] = {}
        for k, family in model.families.items():
            predictors[PREDICTOR.format(k)] = family.predictor(self.theta[model.places[k]])
            curves |= self._curve(k, family)
        for k, family in model.families.items():
            fitted = nw.col(FITTED.format(k)) if family.curved else nw.col(PREDICTOR.format(k)).exp()
            biases[BIAS.format(k)] = omega_column(k) * fitted
        moments = model.known.moments(self.epsilon)
        g = [self._moved(j) if one is None else one for j, one in enumerate(moments)]
        mass = self._mass(g)
        guard: dict[str, nw.Expr] = {}
        if g:
            above = nw.col(MASS) > 0.0
            guard = {
                MASS: nw.when(above).then(nw.col(MASS)).otherwise(nw.lit(1.0)),
                REFUSED: nw.when(above).then(nw.lit(0.0)).otherwise(nw.lit(1.0)),
            }
        ratios = {WEIGHT: 1.0 / nw.col(MASS)}
        ratios |= {RATIO.format(k): self.bias(k) / nw.col(MASS) for k in model.families}
        return [predictors, curves, biases, {MASS: mass}, guard, ratios, self._coordinates(g)]

    @staticmethod
    def _curve(k: int, family: EngineFamily) -> dict[str, nw.Expr]:
        """Return the logistic curve and its complement to 1, neither by subtraction."""
        if not family.curved:
            return {}
        predictor = nw.col(PREDICTOR.format(k))
        return {FITTED.format(k): 1.0 / ((predictor * -1.0).exp() + 1.0), REST.format(k): 1.0 / (predictor.exp() + 1.0)}

    def _moved(self, j: int) -> nw.Expr:
        """Return g_j - R epsilon of a moment that is the mean of a bias with parameters."""
        known = self.model.known
        at = known.means[j] + (known.root[j] @ self.epsilon if len(self.epsilon) else 0.0)
        return self.users_bias(known.moving[j]) - float(at)

    def _mass(self, g: list[nw.Expr]) -> nw.Expr:
        terms = [self.bias(k) * float(np.exp(self.u[k])) for k in self.sampled.tolist()]
        terms += [one * float(mu) for one, mu in zip(g, self.mu, strict=True)]
        return sum(terms[1:], start=terms[0])

    def _coordinates(self, g: list[nw.Expr]) -> dict[str, nw.Expr]:
        at, weight = self.model.coordinates, nw.col(WEIGHT)
        columns = {}
        for k in self.sampled.tolist():
            mine = nw.col(RATIO.format(k)) if k in self.model.families else omega_column(k) * weight
            columns[X.format(k)] = mine * float(np.exp(self.u[k]))
        for k, place in self.model.places.items():
            slope, constant = self.through(k)
            for j, t in enumerate(self.gradient(k)):
                moved = t * slope if not constant[j] else t * slope + float(constant[j])
                columns[X.format(at.theta.start + place.start + j)] = self.ratio(k) * moved
        for j, one in enumerate(g):
            columns[X.format(at.mu.start + j)] = one * weight
        return columns

    def through(self, k: int) -> tuple[float, Floats]:
        r"""Return A and B with :math:`\partial S / \partial\theta_k = \omega_k (A t_k + B)`.

        A is :math:`e^{u_k}`, with a further term if the mean of the bias is known, which is on the user's scale.
        """
        model = self.model
        theta = self.theta[model.places[k]]
        moved = sum(float(self.mu[j]) for j, state in model.known.moving.items() if state == k)
        if not moved:
            return float(np.exp(self.u[k])), np.zeros(len(theta))
        moved *= float(np.exp(model.families[k].offset(theta)))
        return float(np.exp(self.u[k])) + moved, moved * model.families[k].offset_gradient(theta)


def parts_at(model: EngineModel, theta: Floats) -> tuple[Part, ...]:
    """Return frames whose biases have their parameters fixed, on the user's scale: known biases like any others."""
    if not model.families:
        return model.parts
    point = EnginePoint(replace(model, known=EngineKnown.none()), np.concatenate([np.zeros(len(model.sizes)), theta]))
    fixed = {OMEGA.format(k): point.users_bias(k) for k in model.families}

    def change(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        for columns in (*point.stages[:BIASES], fixed):
            frame = frame.with_columns(**columns) if columns else frame
        return frame

    return tuple(part.map(change) for part in model.parts)

r"""scikit-learn's linear models as estimating equations.

Each model here minimises a mean loss with a canonical link plus a penalty on the coefficients (never the intercept).
With x the features, a leading 1 for the intercept, :math:`\theta` all coefficients and P diagonal,

.. math::

    \psi_i(\theta) = x_i\,\bigl(y_i - \mu(x_i'\theta)\bigr) - P\theta,\qquad
    A = -\sum_i \pi_i \frac{\partial\psi_i}{\partial\theta} = \sum_i \pi_i\,\mu'(x_i'\theta)\,x_i x_i' + P,

and the fit solves :math:`\sum_i \pi_i\psi_i = 0`. The penalties that scikit-learn adds to sums of squares or losses are
divided by the number of rows n here, because the debiased weights have mean 1 and so sum to n:

=================== ============================================================ ==================
model               what it minimises                                            P
=================== ============================================================ ==================
LinearRegression    sum w (y - eta)^2                                            0
Ridge               sum w (y - eta)^2 + alpha |beta|^2                           alpha / n
LogisticRegression  C sum w log(1 + exp(-(2 y - 1) eta)) + |beta|^2 / 2          1 / (C n)
PoissonRegressor    sum w (exp(eta) - y eta) / sum w + alpha |beta|^2 / 2        alpha
=================== ============================================================ ==================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge

from vardi._types import Floats, Integers
from vardi.errors import MismatchError, VardiError
from vardi.errors._texts import show

LinearModel: TypeAlias = LinearRegression | Ridge | LogisticRegression | PoissonRegressor


@dataclass(frozen=True)
class Response:
    """A response: its mean, the slope of the mean (both of eta), its targets, and the penalty's strength."""

    mean: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]  # a function of the mean
    target: Callable[[LinearModel, np.ndarray], Floats]  # (fitted model, y) -> what is averaged
    penalty: Callable[[LinearModel, float, float], float]  # (model, n, share of the weight that has all values) -> P
    refuse: Callable[[LinearModel], str | None]  # why a model with these settings has no such equations
    tolerance: float  # distance to the solution, in standard errors, at which a given model counts as solved


@dataclass(frozen=True)
class Equations:
    r"""The estimating equations of a model on given rows.

    Parameters
    ----------
    response : Response
        The response.
    names : tuple of str
        Of the coefficients.
    X : ndarray of shape (n, p)
        Features, with the ones of the intercept.
    y : ndarray of shape (n,)
        Targets.
    pi : ndarray of shape (n,)
        Probabilities of the rows.
    P : ndarray of shape (p,)
        Strength of the penalty on each coefficient.
    """

    response: Response
    names: tuple[str, ...]
    X: Floats
    y: Floats
    pi: Floats
    P: Floats

    def psi(self, theta: Floats) -> Floats:
        """Return psi_i(theta) for every row."""
        return self.X * (self.y - self.response.mean(self.X @ theta))[:, None] - self.P * theta

    def psi_apart(self, theta: Floats, clusters: Integers) -> Floats:
        r"""Return psi with the residuals that clusters would have if they had not been fitted to.

        Those of cluster g are :math:`D_g^{-1} (I - H_g)^{-1/2} D_g (y_g - \mu_g)`, with :math:`D_g^2` the weights
        :math:`\pi\mu'` of its rows and :math:`H_g = D_g X_g A^{-1} X_g' D_g` (Bell and McCaffrey 2002, CR2): fitting
        makes residuals of few clusters too small.
        """
        mean = self.response.mean(self.X @ theta)
        residual, root = self.y - mean, np.sqrt(self.pi * self.response.slope(mean))
        scaled, inverse = self.X * root[:, None], self.inverse(theta)
        order = np.argsort(clusters, kind="stable")
        found = residual.copy()
        for rows in np.split(order, np.flatnonzero(np.diff(clusters[order])) + 1):
            rows = rows[root[rows] > 0]
            found[rows] = _unfitted(scaled[rows], inverse, root[rows] * residual[rows]) / root[rows]
        return self.X * found[:, None] - self.P * theta

    def gradient(self, theta: Floats) -> Floats:
        """Return sum_i pi_i psi_i(theta), zero at the solution."""
        return (self.pi * (self.y - self.response.mean(self.X @ theta))) @ self.X - self.P * theta

    def hessian(self, theta: Floats) -> Floats:
        """Return A."""
        slope = self.pi * self.response.slope(self.response.mean(self.X @ theta))
        return np.asarray(self.X.T @ (self.X * slope[:, None]) + np.diag(self.P))

    def inverse(self, theta: Floats, least: float = 1e-12) -> Floats:
        """Return the inverse of A, or name the features that make it singular.

        With a unit diagonal its smallest eigenvalue is below ``least`` where features are combinations of one another.
        """
        A = self.hessian(theta)
        size = np.sqrt(np.diag(A))
        guilty = np.flatnonzero(~(size > 0))
        if not len(guilty):
            values, vectors = np.linalg.eigh(A / (size[:, None] * size))
            if values[0] > least:
                scaled = vectors / size[:, None]
                return np.asarray((scaled / values) @ scaled.T)
            guilty = np.flatnonzero(np.abs(vectors[:, 0]) > 0.01)
        features = ", ".join(repr(self.names[j]) for j in guilty[:8]) + (" and others" if len(guilty) > 8 else "")
        raise VardiError(
            f"The coefficients of {features} are not determined: these features are zero, or sums and multiples of one "
            "another, on the rows that have weight. Leave one of them out, or add a penalty (Ridge)."
        )

    def polished(self, theta: Floats, steps: int = 50) -> Floats:
        """Return theta after Newton steps to rounding error; solvers stop once predictions no longer change.

        After so many steps the equations are taken to have no solution.
        """
        gradient = self.gradient(theta)
        for _ in range(steps):
            inverse = self.inverse(theta)
            step = inverse @ gradient
            if np.abs(step).max() <= 1e-10 * max(1.0, float(np.abs(theta).max())):
                return theta + step
            decrement = gradient @ step
            for _ in range(steps):  # halve until the equations hold better: a solver may have stopped far off
                with np.errstate(over="ignore", invalid="ignore"):
                    there = self.gradient(theta + step)
                if there @ inverse @ there < decrement:
                    break
                step = step / 2
            theta, gradient = theta + step, there
        raise VardiError(
            "The model has no finite solution on these rows: a combination of features separates the outcomes "
            "perfectly. Leave that feature out, or add a penalty (a finite C, a larger alpha)."
        )


def _unfitted(X: Floats, inverse: Floats, residual: Floats, least: float = 0.05) -> Floats:
    """Return (I - X A^-1 X')^(-1/2) times residuals; where a cluster alone determines a coefficient, 1 - h is least.

    X has few columns, so only its left singular vectors are touched.
    """
    root = np.linalg.cholesky(inverse)
    U, s, _ = np.linalg.svd(X @ root, full_matrices=False)
    factor = 1.0 / np.sqrt(np.maximum(1.0 - s**2, least)) - 1.0
    return np.asarray(residual + U @ (factor * (U.T @ residual)))


def response_of(model: LinearModel) -> Response:
    """Return the response of a scikit-learn model, or raise an error that lists the supported models."""
    response = RESPONSES.get(type(model))
    if response is None:
        raise VardiError(
            f"There are no standard errors for {type(model).__name__}: its coefficients solve no smooth estimating "
            "equation that is known here. Supported are LinearRegression, Ridge, LogisticRegression and "
            "PoissonRegressor of scikit-learn; for any other model use fit.bootstrap with a function that refits it."
        )
    reason = response.refuse(model)
    if reason is not None:
        raise VardiError(f"There are no standard errors for {model}: {reason}")
    return response


def _real(model: LinearModel, y: np.ndarray) -> Floats:
    try:
        return y.astype(np.float64)
    except (TypeError, ValueError):
        raise MismatchError(
            f"y holds {y.dtype}, but {type(model).__name__} needs numbers. Give the outcome as numbers."
        ) from None


def _second_class(model: LinearModel, y: np.ndarray) -> Floats:
    strange = ~np.isin(y, model.classes_)
    if strange.any():
        known = show(model.classes_.tolist())
        raise MismatchError(f"y holds {y[strange].tolist()[0]!r}, which is not one of the model's classes, {known}.")
    return np.asarray(y == model.classes_[1], np.float64)


def _no_constraint(model: LinearModel) -> str | None:
    if model.positive:
        return "coefficients that are held positive are not normally distributed at the boundary. Use positive=False."
    return "alpha is an array. Give one number." if np.ndim(getattr(model, "alpha", 0.0)) else None


def _smooth_logistic(model: LinearModel) -> str | None:
    penalty = _logistic_penalty(model)
    if penalty not in ("l2", None):
        return f"an {penalty} penalty has corners, where coefficients are not normal. Use l1_ratio=0, or C=np.inf."
    if model.class_weight is not None:
        return "class_weight changes the population that the weights represent. Use class_weight=None."
    penalises_intercept = model.solver == "liblinear" and model.fit_intercept and penalty is not None
    return "liblinear penalises the intercept. Use solver='lbfgs'." if penalises_intercept else None


def _logistic_penalty(model: LinearModel) -> str | None:
    """Return the penalty; from scikit-learn 1.8 on, l1_ratio and C determine it."""
    if model.penalty != "deprecated":
        return model.penalty
    if model.l1_ratio:
        return "l1" if model.l1_ratio == 1 else "elasticnet"
    return None if np.isinf(model.C) else "l2"


def _logistic_strength(model: LinearModel, n: float, share: float) -> float:
    return 0.0 if _logistic_penalty(model) is None else 1.0 / (model.C * n)


_LINEAR = Response(lambda eta: eta, np.ones_like, _real, lambda model, n, share: 0.0, _no_constraint, 1e-5)
RESPONSES: dict[type, Response] = {
    LinearRegression: _LINEAR,
    Ridge: replace(_LINEAR, penalty=lambda model, n, share: model.alpha / n, tolerance=0.05),
    LogisticRegression: Response(
        expit, lambda mean: mean * (1.0 - mean), _second_class, _logistic_strength, _smooth_logistic, 0.05
    ),
    PoissonRegressor: Response(
        np.exp, lambda mean: mean, _real, lambda model, n, share: float(model.alpha) * share, lambda model: None, 0.05
    ),
}

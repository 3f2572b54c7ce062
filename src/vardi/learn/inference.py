"""Standard errors of regression coefficients that include the error of the normalisers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _is_fitted

from vardi._estimate.estimates import Estimate, Estimates, cells_of, estimates_of, place_of
from vardi._estimate.intervals import warn_of_doubt
from vardi._estimate.sensitivity.question import Question
from vardi._estimate.sensitivity.result import GAMMAS, Kind, Sensitivity
from vardi._estimate.tables import in_library
from vardi._estimate.tangent import Influence
from vardi._estimate.weight_routing import Rows
from vardi._fit.sample import DebiasedSample
from vardi._fit.weighted import WeightedSample
from vardi._inputs.pool import Name
from vardi._tables import Part, Shown, Table
from vardi._types import Floats
from vardi.errors import MismatchError, VardiError, number_of_rows
from vardi.errors._texts import listed, show
from vardi.learn._design import Features, Missing, ModelRows, Outcome, model_rows, recording
from vardi.learn._glm import Equations, LinearModel, Response, response_of


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ModelInference(Shown, Estimates):
    """Coefficients of a model of the population, with their errors.

    Attributes
    ----------
    names : tuple of str
        ``"intercept"`` first, if the model has one, then the features.
    coefficients : ndarray of shape (p,)
        In the order of the names.
    stderr, df : ndarray of shape (p,)
        Their standard errors, and the degrees of freedom of these.
    covariance : ndarray of shape (p, p)
        Their covariance; NaN where they rest on too few rows to give one.
    interval : ndarray of shape (p, 2)
        Lower and upper ends; each covers on its own, not all together.
    level : float
        Nominal coverage of the intervals.
    influence : Influence
        How much each row moves the coefficients.
    model_ : estimator
        The fitted model.
    rows_left_out : int
        How many rows were left out because values are missing (``missing="drop"``).
    missing : mapping from name to int
        How many of these lack each feature, or the outcome.
    """

    _called = "coefficient"

    model_: LinearModel
    rows_left_out: int = 0
    missing: Mapping[str, int] = field(default_factory=dict)

    @property
    def coefficients(self) -> Floats:
        """The coefficients, in the order of the names."""
        return self.values

    @property
    def z(self) -> Floats:
        """Coefficients over their standard errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.coefficients / self.stderr

    _apart = "\n"

    def _parts(self) -> list[Part]:
        heading = ["", "coefficient", "error", "z", f"{self.level:.0%} interval"]
        left_out = listed(f"{name!r} ({count})" for name, count in self.missing.items())
        is_approximate = self.influence is not None and self.influence.approximate
        return [
            Table(heading, list(zip(self.names, self, self.z, strict=True)), _cells, "coefficients"),
            f"Left out: {number_of_rows(self.rows_left_out)} that lack {left_out}." if self.rows_left_out else "",
            f"From {show(self.among)}." if self.among else "",
            "Errors are approximate." if is_approximate else "",
        ]

    table = Shown.summary
    __repr__ = Shown.__str__


def _cells(coefficient: tuple[str, Estimate, float]) -> list[str]:
    """Return the cells of a name, its coefficient, and this over its error."""
    name, estimate, z = coefficient
    value, error, interval = cells_of(estimate)
    return [name, value, error, f"{z:.1f}" if abs(z) < 1e6 else f"{z:.1e}", interval]


def inference(
    fit: WeightedSample,
    model: LinearModel,
    X: Features,
    y: Outcome = None,
    level: float = 0.95,
    *,
    missing: Missing = "refuse",
) -> ModelInference:
    r"""Return the coefficients of a weighted regression with errors that account for the estimation of the weights.

    The coefficients solve :math:`\sum_i \pi_i \psi_i(\theta) = 0`, the penalty's gradient included in :math:`\psi`.
    With :math:`r_i` the weights, :math:`p_i` the shares of the samples in row i and H the Hessian of the dual,

    .. math::

        \Phi_i = r_i\psi_i + B'p_i,\qquad B = H^+ \sum_i \pi_i p_i \psi_i',\qquad
        A = -\sum_i \pi_i \frac{\partial\psi_i}{\partial\theta},\qquad
        \mathrm{Cov}(\hat\theta) = A^{-1} V(\Phi) A^{-T},

    where V sums the variances within samples. They hold whether or not the model is right: what is estimated is the
    model that fits the population best. With one sample and no bias this is the heteroscedasticity-consistent sandwich.
    Where rows lie in clusters, residuals are those that a cluster would have if it had not been fitted to (CR2 of Bell
    and McCaffrey 2002), since fitting makes those of few clusters too small.

    Parameters
    ----------
    fit : DebiasedSample, or what its ``among`` returns
        The debiased sample. Where only some samples have recorded the outcome, or a feature that is named, the
        coefficients come from their rows, with normalisers and parameters from all samples.
    model : LinearRegression, Ridge, LogisticRegression or PoissonRegressor
        Unfitted, it is cloned, fitted with the debiased weights and solved to rounding. Fitted, it must have been
        fitted with ``sample_weight=fit.weights`` (times counts), and is left as it is.
    X : array, frame, list of str, or formula
        Features of every row of the pool, in its order; or columns and expressions of the pool; or a formula such as
        ``"y ~ x + C(region)"``, for which formulaic is needed (``pip install 'vardi[formula]'``). On its left stands
        what y may be, on its right the language of formulaic: columns of text, and ``C(...)``, are factors. The formula
        determines whether there is an intercept.
    y : array, series or str, optional
        Outcome of every row of the pool; or a column or expression of the pool. Left out with a formula.
    level : float
        Coverage of each interval.
    missing : {"refuse", "drop"}
        Whether rows with missing values are refused by name, or left out. With ``"drop"`` the model is of the part of
        the population whose rows have all values, and the result shows how many lack what.

    Returns
    -------
    ModelInference
        Coefficients, errors, z and intervals; prints as a table.

    Examples
    --------
    >>> import warnings
    >>> import vardi
    >>> from sklearn.linear_model import LinearRegression
    >>> from vardi.learn import inference
    >>> design = vardi.datasets.house_prices(seed=0)
    >>> fit = vardi.debias(design.samples, design.biases)
    >>> with warnings.catch_warnings(action="ignore"):  # few rows carry the errors: see result.df
    ...     result = inference(fit, LinearRegression(), ["RM", "LSTAT"], "MEDV")
    >>> print(result)
               coefficient  error     z    95% interval
    intercept            9     12   0.7       -22 to 40
    RM                 4.0    1.6   2.4     -0.1 to 8.0
    LSTAT            -0.84   0.15  -5.8  -1.24 to -0.43
    >>> print(result["RM"] + 5 * result["LSTAT"])  # a room more, in a district five points poorer
    -0.2 ± 2.2 (95%: -6.3 to 5.8)
    """
    fit = recording(fit, X, y)
    solved = solve(fit, model, X, y, missing)
    estimates = estimates_of(solved.theta, solved.influence, level, among=fit.solved.tangent.measure.recorded_by)
    names = solved.equations.names
    warn_of_doubt(fit.names, [f"the coefficient of {name}" for name in names], estimates.laws)
    found = ModelInference(
        **vars(replace(estimates, names=names)),
        model_=solved.model,
        rows_left_out=solved.rows.left_out,
        missing=solved.rows.missing,
    )
    return in_library(found, fit.data.library)


@dataclass(frozen=True)
class SolvedModel:
    """A model's equations on the debiased rows, solved by theta, and the influence values of its coefficients."""

    equations: Equations
    theta: Floats
    influence: Influence
    model: LinearModel
    rows: ModelRows


def solve(fit: WeightedSample, model: LinearModel, X: Features, y: Outcome, missing: Missing = "refuse") -> SolvedModel:
    """Fit a model to the debiased rows and solve it to rounding; or check that a fitted one solves its equations."""
    response = response_of(model)
    fit.solved.require_rows("A regression")
    rows = model_rows(fit, X, y, missing)
    influence, names, Z = fit.solved.tangent, rows.names, rows.Z
    counted = influence.measure.weights * influence.measure.counts
    is_fitted = _is_fitted(model)
    model = _with_intercept(model, rows.intercept, is_fitted=is_fitted)
    there = counted[rows.complete]
    fitted = model if is_fitted else _fitted(model, rows.features, rows.outcome[rows.complete], there)
    theta = _coefficients(fitted, Z.shape[1])
    if model.fit_intercept:
        names = ("(intercept)" if "intercept" in names else "intercept", *names)
        Z = np.column_stack([rows.complete.astype(np.float64), Z])
    penalty = np.full(len(theta), response.penalty(model, influence.n, float(there.sum() / influence.n)))
    penalty[: int(model.fit_intercept)] = 0.0
    equations = Equations(response, names, Z, response.target(fitted, rows.outcome), counted / influence.n, penalty)
    if not is_fitted:
        theta = equations.polished(theta)
        _set_coefficients(fitted, theta)
    inverse = equations.inverse(theta)
    clusters = influence.measure.arrays.dependence.clusters
    psi = equations.psi(theta) if clusters is None else equations.psi_apart(theta, clusters)
    _, on_coefficients = influence.influence(psi)
    on_coefficients = on_coefficients @ inverse.T  # influence on the coefficients, whose covariance is the sandwich
    if is_fitted:
        _require_solved(inverse @ equations.gradient(theta), on_coefficients.covariance(), response, names)
    return SolvedModel(equations, theta, on_coefficients, fitted, rows)


def _with_intercept(model: LinearModel, intercept: bool | None, *, is_fitted: bool) -> LinearModel:
    """Return a model that has an intercept if and only if the formula has one."""
    if intercept is None or intercept == model.fit_intercept:
        return model
    if intercept or is_fitted:
        has, model_has = ("an", "none") if intercept else ("no", "one")
        raise MismatchError(
            f"The formula has {has} intercept, but the model {model_has}. Write '0 + ...' on the right of the formula "
            "for a model without one, and leave the model's fit_intercept at its default."
        )
    return clone(model).set_params(fit_intercept=False)


def _fitted(model: LinearModel, features: Rows, outcome: np.ndarray, weights: Floats) -> LinearModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # Newton steps continue from where the solver stops
        return clone(model).fit(features, outcome, sample_weight=weights)


def _coefficients(model: LinearModel, p: int) -> Floats:
    """Return intercept and coefficients of a fitted model as one vector."""
    coef = np.asarray(model.coef_, np.float64)
    if coef.ndim == 2 and len(coef) > 1:
        raise VardiError(
            f"The model has {len(coef)} outcomes or classes, but standard errors are for one outcome, or for two "
            "classes. Fit one at a time."
        )
    coef = coef.ravel()
    if len(coef) != p:
        raise MismatchError(
            f"The model was fitted with {len(coef)} features, but X has {p}. Give the features that it was fitted with."
        )
    return np.concatenate([np.ravel(model.intercept_), coef]) if model.fit_intercept else coef


def _set_coefficients(model: LinearModel, theta: Floats) -> None:
    first = int(model.fit_intercept)
    model.coef_ = theta[first:].reshape(np.shape(model.coef_))
    if first:
        model.intercept_ = theta[:1] if np.ndim(model.intercept_) else float(theta[0])


def _require_solved(step: Floats, covariance: Floats, response: Response, names: tuple[str, ...]) -> None:
    """Refuse a fitted model that does not solve the weighted equations."""
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.abs(step) / np.sqrt(np.diag(covariance))
    off = np.where(np.abs(step) <= 1e-12, 0.0, off)  # a perfect fit has no error to compare with
    worst = int(np.argmax(off))
    if off[worst] > response.tolerance:
        raise VardiError(
            f"The fitted model does not solve the debiased equations: its coefficient {names[worst]!r} is "
            f"{off[worst]:.2g} standard errors from the solution. It was fitted with other weights or rows, or its "
            "solver stopped early. Give the model unfitted, or fit it with sample_weight=fit.weights (times the "
            "counts, if there are any) and a smaller tol."
        )


def coefficient_sensitivity(
    fit: DebiasedSample,
    model: LinearModel,
    X: Features,
    y: Outcome,
    coefficient: str,
    gammas: float | Sequence[float] = GAMMAS,
    *,
    samples: Sequence[Name] | None = None,
    kind: Kind = "free",
    threshold: float | None = None,
) -> Sensitivity:
    r"""Return how far a coefficient moves when biases are wrong by up to a factor :math:`\Gamma`.

    The model is refitted to the weights of every set of biases that the search tries. It reaches a local optimum,
    so the range is attained, never sharp; above two million numbers (rows times samples) it is linear.

    Parameters
    ----------
    fit, model, X, y
        As for :func:`vardi.learn.inference`.
    coefficient : str
        ``"intercept"``, or a feature.
    gammas, samples, kind, threshold
        As for :meth:`vardi.DebiasedSample.sensitivity`; with ``threshold=0`` the tipping point is where the
        coefficient changes its sign.

    Returns
    -------
    Sensitivity
        The range of the coefficient at every factor.

    Examples
    --------
    >>> import warnings
    >>> import vardi
    >>> from sklearn.linear_model import LinearRegression
    >>> from vardi.learn import coefficient_sensitivity
    >>> design = vardi.datasets.house_prices(seed=0)
    >>> fit = vardi.debias(design.samples, design.biases)
    >>> with warnings.catch_warnings(action="ignore"):  # few rows carry its error
    ...     print(coefficient_sensitivity(fit, LinearRegression(), ["RM", "LSTAT"], "MEDV", "LSTAT", threshold=0))
    coefficient of LSTAT: -0.84 ± 0.15 (95%: -1.24 to -0.43), if the biases of
    'agency', 'national' are wrong by up to this factor:
    factor  lowest  highest  linear from  linear to
         1   -0.84    -0.84        -0.84      -0.84
       1.1   -0.92    -0.76        -0.91      -0.76
      1.25   -1.03    -0.67        -1.02      -0.66
       1.5   -1.21    -0.54        -1.16      -0.51
         2   -1.53    -0.33        -1.39      -0.28
         3   -2.04    -0.04        -1.72       0.05
    Attained: some biases within the factor give these ends, and the worst ones may
    lie a little beyond.
    One standard error (0.15) is reached at 1.198.
    0 is reached at 3.17.
    """
    question = Question(fit.solved, gammas, samples, kind, threshold)
    solved = solve(fit, model, X, y)
    j = place_of(coefficient, solved.equations.names, "coefficient")
    estimate = Estimate.from_influence(float(solved.theta[j]), solved.influence.column(j))
    warn_of_doubt(fit.names, [f"the coefficient of {coefficient}"], [estimate.law])

    def refitted(pi: Floats) -> tuple[float, Floats]:
        r"""Return the coefficient at other probabilities of the rows, and :math:`g_i = (A^{-1}\psi_i)_j`."""
        equations = replace(solved.equations, pi=pi)
        theta = equations.polished(solved.theta)
        return float(theta[j]), equations.psi(theta) @ equations.inverse(theta)[j]

    return question.answer(refitted, estimate, f"coefficient of {coefficient}")

"""How far a coefficient of a model moves when the biases are wrong by up to a factor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vardi._estimate.estimates import Estimate
from vardi._estimate.reliability import warn_of_doubt
from vardi._estimate.sensitivity.question import Question
from vardi._estimate.sensitivity.result import GAMMAS, Kind, Sensitivity
from vardi._fit.sample import DebiasedSample
from vardi._inputs.pool import Name
from vardi._types import Floats
from vardi.learn._design import Features, Outcome
from vardi.learn._glm import Equations, LinearModel
from vardi.learn.inference import place_of, solve


@dataclass(frozen=True)
class Coefficient:
    r"""One coefficient as a function of the probabilities of the rows: :math:`g_i = (A^{-1}\psi_i)_j`."""

    equations: Equations
    start: Floats
    names: tuple[str, ...]
    j: int

    def __call__(self, pi: Floats) -> tuple[float, Floats]:
        """Refit the model."""
        equations = replace(self.equations, pi=pi)
        theta = equations.polished(self.start, self.names)
        return float(theta[self.j]), equations.psi(theta) @ equations.inverse(theta, self.names)[self.j]


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
    question = Question.of(fit.solved, gammas, samples, kind, threshold)
    solved = solve(fit, model, X, y)
    j = place_of(coefficient, solved.names)
    estimate = Estimate.from_influence(float(solved.theta[j]), solved.influence.column(j))
    warn_of_doubt(fit.names, [f"the coefficient of {coefficient}"], [estimate.law])
    target = Coefficient(solved.equations, solved.theta, solved.names, j)
    return question.answer(target, estimate, f"coefficient of {coefficient}")

"""From where the search stopped to parameters, or to the reason why there are none."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vardi._identify import Verdict
from vardi._newton import Solution
from vardi._parametric.likelihood import Likelihood, Point
from vardi._parametric.models import Logistic
from vardi._parametric.scoring import FAR, Scored, search, solve
from vardi._pool import Name, show
from vardi._sums import Floats
from vardi.errors import ConvergenceError, UnidentifiedParametersError, WeakParametersWarning

LEFT = 1e-6  # share of the information on a direction that other parameters leave, below which it is not determined
SEPARATED = 0.5  # rows, all together, that could be of another sample
STEEP = 5.0  # slope of a logistic curve, for a column of deviation 1, that is as good as a threshold
VAGUE = 2.0  # standard error of the intercept of a logistic curve from which its shape is not known


@dataclass(frozen=True)
class Weakness:
    """The direction of theta that the samples say least of.

    Attributes
    ----------
    left : float
        The share of the information on it that is left when normalisers and other parameters are unknown too.
    direction : ndarray of shape (p,)
        Theta, in units of what is known of each parameter alone.
    """

    left: float
    direction: Floats


def weakness(point: Point) -> Weakness:
    """Compare what is known of theta beside everything else with what would be known of each parameter alone."""
    K, J = len(point.u), point.information
    alone = np.diag(J)[K:]
    if not (alone > 0).all():
        return Weakness(0.0, (alone <= 0).astype(np.float64))
    free = np.delete(np.arange(K), int(np.argmax(point.likelihood.sizes)))
    H, B = J[np.ix_(free, free)], J[np.ix_(free, np.arange(K, len(J)))]
    scale = np.sqrt(np.diag(H))
    inverse = np.linalg.pinv(H / (scale[:, None] * scale), rcond=1e-13, hermitian=True)
    B = B / scale[:, None]
    left = J[K:, K:] - B.T @ inverse @ B
    values, vectors = np.linalg.eigh(left / np.sqrt(alone[:, None] * alone))
    return Weakness(float(values[0]), vectors[:, 0])


def estimate(likelihood: Likelihood, names: Sequence[Name]) -> Scored:
    """Return the maximum of the likelihood, or say what is not determined."""
    scored = search(likelihood)
    point = scored.point
    apart = float(likelihood.counts @ (1.0 - point.probabilities[np.arange(len(likelihood.source)), likelihood.source]))
    if apart < SEPARATED:
        raise _separated(likelihood, names)
    weak = weakness(point)
    far = bool(np.abs(point.theta[likelihood.scaled]).max(initial=0.0) > FAR / 2)
    if weak.left < LEFT or far:
        raise _not_told(point, weak, names)
    if not scored.converged:
        raise ConvergenceError(
            f"The parameters of {show(names[k] for k in likelihood.models)} were not found in {scored.iterations} "
            f"steps: the gradient of their likelihood is {scored.score:.1e} of its standard error. The likelihood is "
            "not smooth, or the start is far off. Give another start, or a gradient.",
            solution=Solution(
                point.u, False, scored.iterations, scored.score, scored.step, np.nan, np.inf, np.zeros(len(point.u))
            ),
        )
    return scored


def _separated(likelihood: Likelihood, names: Sequence[Name]) -> UnidentifiedParametersError:
    samples = [names[k] for k in likelihood.models]
    return UnidentifiedParametersError(
        f"The columns that the biases of {show(samples)} read separate the samples: with ever larger parameters every "
        "row is certain to be of its own sample, so no finite parameters fit best. The samples do not overlap in these "
        "columns. Add rows where they do, or let the bias read fewer columns.",
        sample=str(samples[0]) if len(samples) == 1 else "",
        parameters=[name for model in likelihood.models.values() for name in model.names],
        groups=[names],
    )


def _not_told(point: Point, weak: Weakness, names: Sequence[Name]) -> UnidentifiedParametersError:
    likelihood = point.likelihood
    heavy = np.abs(weak.direction) > 0.3 * np.abs(weak.direction).max()
    by_sample = {
        k: [model.names[j] for j in np.flatnonzero(heavy[likelihood.places[k]])]
        for k, model in likelihood.models.items()
    }
    by_sample = {k: found for k, found in by_sample.items() if found}
    said = "; ".join(f"{', '.join(map(repr, found))} of {str(names[k])!r}" for k, found in by_sample.items())
    several = sum(map(len, by_sample.values())) > 1
    they = "they cannot be told from one another, or" if several else "it cannot be told"
    left = f"a share of {weak.left:.0e} of the information is left" if weak.left > 1e-12 else "no information is left"
    fact = f"The samples do not determine {said}: {they} from the normaliser ({left})."
    k = next(iter(by_sample))
    return UnidentifiedParametersError(
        f"{fact} {_remedy(point, k)}",
        sample=str(names[k]) if len(by_sample) == 1 else "",
        parameters=[name for found in by_sample.values() for name in found],
        groups=[names],
    )


def _remedy(point: Point, k: int) -> str:
    model, theta = point.likelihood.models[k], point.theta[point.likelihood.places[k]]
    if isinstance(model, Logistic):
        columns = ", ".join(repr(name) for name in model.names[1:])
        if np.abs(theta[1:]).max() > STEEP:
            return (
                "Ever larger parameters fit ever better, as where selection has a threshold, or where it is nearly "
                "sure. Declare a threshold as a condition, use vardi.exponential_tilt"
                f"({columns}), which has no intercept, or fix the parameters with .at(...)."
            )
        return (
            "Where selection is rare, nearly sure, or hardly depends on the columns, many logistic curves are alike up "
            f"to a constant. Use vardi.exponential_tilt({columns}), which has no intercept, or fix the parameters with "
            ".at(...)."
        )
    return (
        "Only ratios of biases on rows that samples share tell of parameters. Add rows of a sample with a known bias "
        "there, leave out what depends on other columns, or fix the parameters with .at(...)."
    )


def unknown_everywhere(names: Sequence[Name], verdict: Verdict | None) -> UnidentifiedParametersError:
    """Return the error that no bias is known."""
    what = f"The bias of {show(names)} has" if len(names) == 1 else f"The biases of {show(names)} all have"
    return UnidentifiedParametersError(
        f"{what} parameters, and no sample has a known bias. Samples tell only ratios of biases, so the population "
        "itself could be tilted and all parameters with it, and nothing would look different. Add a sample whose bias "
        "is known (1 for a random sample, however small), or fix the parameters of one bias with .at(...).",
        sample=str(names[0]) if len(names) == 1 else "",
        groups=[names],
        verdict=verdict,
    )


def warn_of_vague_parameters(scored: Scored, names: Sequence[Name], stacklevel: int) -> None:
    """Warn of a logistic curve of which it is not known whether selection is rare or nearly sure."""
    point = scored.point
    likelihood, K = point.likelihood, len(point.u)
    free = np.delete(np.arange(K + len(point.theta)), int(np.argmax(likelihood.sizes)))
    variances = np.diag(solve(point.information[np.ix_(free, free)], np.eye(len(free))))[K - 1 :] / likelihood.n
    for k, model in likelihood.models.items():
        error = float(np.sqrt(variances[likelihood.places[k].start]))
        if isinstance(model, Logistic) and error > VAGUE:
            columns = ", ".join(repr(name) for name in model.names[1:])
            warnings.warn(
                f"The log odds of selection into {str(names[k])!r}, where columns have their means, have standard "
                f"error {error:.1f}: the samples hardly tell which logistic curve it is, so normal intervals of its "
                "parameters are rough. Means over the population do not suffer. vardi.exponential_tilt"
                f"({columns}) has no intercept to estimate.",
                WeakParametersWarning,
                stacklevel=stacklevel,
            )

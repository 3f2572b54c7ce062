r"""What the paper proves but does not simulate: errors fall like :math:`n^{-1/2}`, and small overlap costs a constant.

**Population.** X is uniform on (-1, 1), Y is 0 or 1. With :math:`s(x) = 2|x| - 1`, which runs from -1 to 1,

.. math:: 2\,P(Y = 1 \mid X = x) - 1 = a\,\mathrm{sign}(x) + (1 - a)\,\mathrm{sign}(s)\,|s|^k,
          \qquad a = \tfrac12,\quad k = 6.

**Rules.** :math:`g_t(x) = 1\{|x| > t\}` with t in [0, 1], under 0-1 loss: one threshold for both sides, while the left
side alone would want a larger one and the right side a smaller one. The best t balances the two. From

.. math:: R'(t) = \tfrac12 \{(2\eta(t) - 1) + (2\eta(-t) - 1)\} = (1 - a)\,\mathrm{sign}(2t - 1)\,|2t - 1|^k

it is t = 1/2, and the excess risk is exactly :math:`(1 - a)\,|2t - 1|^{k + 1} / (2(k + 1))`.

**Samples.** A quarter of the n rows have X uniform on (-1, kappa), the others on (-kappa, 1): the biases are the
indicators of these intervals, which both hold on an interval of P-mass kappa, and
:math:`\Omega_1 = \Omega_2 = (1 + \kappa)/2`. How much the left side counts relative to the right is known only from the
rows in the overlap.

**Rates.** The minimum is flat, so that the learner's task is nearly as hard as the bound allows. Within :math:`|s|` of
the best threshold the empirical risk is off by about :math:`(|s|/n)^{1/2}`, which meets the excess
:math:`|s|^{k+1}` at :math:`|s| = n^{-1/(2k+1)}`: the excess risk falls like :math:`n^{-(k+1)/(2k+1)} = n^{-7/13}`, near
the bound's :math:`n^{-1/2}`. (Least squares would show :math:`n^{-1}`, as strongly convex problems do, and tell nothing
about the bound.) A relative weight of left and right that is off by a factor :math:`e^\delta` moves the minimum to
:math:`|s|^k = \tanh(|\delta|/2)\,a/(1 - a)`. As :math:`\delta` is of order :math:`(\kappa n)^{-1/2}`, this adds an
excess of order :math:`(\kappa n)^{-(k+1)/(2k)} = (\kappa n)^{-7/12}`: the constant grows as the overlap shrinks. The
sup distance of the cdf and the error of :math:`\Omega` are of order :math:`n^{-1/2}` exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paper.experiment import Cell, Experiment, Scores
from vardi import debias_matrix
from vardi.errors import NotIdentifiableError

Floats = NDArray[np.float64]

SIZES = tuple(2**power for power in range(8, 16))
KAPPAS = (0.4, 0.2, 0.1, 0.05, 0.02)
POOLED_KAPPA = 0.1
FLATNESS = 6  # k
TILT = 0.5  # a
LEFT_SHARE = 0.25  # of the rows, drawn from the left interval
FEWEST_SIZES = 3  # to which a slope is fitted

EXCESS, SUP, OMEGA = "excess risk", "sup distance of the cdf", "error of Omega"
UNBIASED = "unbiased"
POOLED = f"kappa={POOLED_KAPPA}, no weights"
EXPONENTS = {EXCESS: -(FLATNESS + 1) / (2 * FLATNESS + 1), SUP: -0.5, OMEGA: -0.5}


@dataclass(frozen=True)
class Draw:
    """Rows (x, y), the sample of each, and the values of the biases."""

    x: Floats
    y: NDArray[np.bool_]
    source: NDArray[np.int64]
    omega: Floats


def run(seeds: np.random.SeedSequence, trees: int) -> Scores:
    r"""Return excess risk, sup distance and error of Omega for each n: with each overlap, and for unbiased rows.

    One biased design is also learned from without weights, which does not converge. The error of Omega is
    :math:`\max_k |\log(\hat\Omega_k / \Omega_k)|`; without weights there is none, and no such cell. A draw whose
    samples cannot be compared has NaN.
    """
    rng = np.random.default_rng(seeds)
    scores: dict[Cell, float] = {}
    for n in SIZES:
        place, luck = rng.random((2, n))  # the same for every overlap, so that overlaps are compared rather than draws
        scores |= _cells(UNBIASED, n, _learned(draw(place, luck, kappa=1.0), np.ones(n)))
        for kappa in KAPPAS:
            biased = draw(place, luck, kappa)
            scores |= _cells(scenario(kappa), n, _debiased(biased, kappa))
            if kappa == POOLED_KAPPA:
                scores |= _cells(POOLED, n, _learned(biased, np.ones(n)))
    return scores


def scenario(kappa: float) -> str:
    """Return the name of a biased design."""
    return f"kappa={kappa}"


def cell(scenario: str, n: int, quantity: str) -> Cell:
    """Return the name of a score."""
    return Cell("rates", "Threshold", scenario, f"n={n}", quantity)


def draw(place: Floats, luck: Floats, kappa: float) -> Draw:
    """Make rows of two samples that overlap on P-mass kappa; with kappa = 1 both are samples of P.

    Parameters
    ----------
    place, luck : arrays of n numbers
        Uniform on (0, 1): where in its interval each x lies, and the chance that decides y.
    kappa : float
        The overlap.
    """
    n = len(place)
    left = round(LEFT_SHARE * n)
    source = np.repeat([0, 1], [left, n - left])
    x = np.array([-1.0, -kappa])[source] + (1.0 + kappa) * place
    return Draw(
        x=x,
        y=luck < probability(x),
        source=source,
        omega=np.column_stack([x <= kappa, x >= -kappa]).astype(np.float64),
    )


def probability(x: ArrayLike) -> Floats:
    """Return P(Y = 1 | X = x)."""
    x = np.asarray(x, np.float64)
    s = 2.0 * np.abs(x) - 1.0
    return 0.5 * (1.0 + TILT * np.sign(x) + (1.0 - TILT) * np.sign(s) * np.abs(s) ** FLATNESS)


def excess_risk(t: float) -> float:
    """Return how much more often the rule 1{abs(x) > t} errs than the best one, which has t = 1/2."""
    return (1.0 - TILT) * abs(2.0 * t - 1.0) ** (FLATNESS + 1) / (2.0 * (FLATNESS + 1))


def best_threshold(x: Floats, y: NDArray[np.bool_], weights: Floats) -> float:
    """Return the t with the least weighted error of 1{abs(x) > t}, exactly: one sort and a cumulative sum.

    The error is constant between neighbours among abs(x). Of several minimisers the smallest is returned, which is 0 or
    one of abs(x).

    Examples
    --------
    >>> import numpy as np
    >>> best_threshold(np.array([0.1, -0.2, 0.3, -0.4]), np.array([False, False, True, True]), np.ones(4))
    0.2
    """
    thresholds, place = np.unique(np.append(0.0, np.abs(x)), return_inverse=True)
    inside = np.bincount(place, np.append(0.0, np.where(y, weights, -weights)))
    return float(thresholds[np.argmin(np.cumsum(inside))])  # a row with y = 1 is an error once t has passed it


def sup_distance(x: Floats, weights: Floats) -> float:
    """Return the sup over t of abs(F~(t) - F(t)), where F is uniform on (-1, 1): it is reached at or just before a row.

    Examples
    --------
    >>> import numpy as np
    >>> sup_distance(np.array([0.5, -0.5]), np.array([1.0, 3.0]))  # just before 0.5, where F is 0.75, and at -0.5
    0.5
    """
    order = np.argsort(x)
    true = (x[order] + 1.0) / 2.0
    after = np.cumsum(weights[order]) / weights.sum()
    before = np.concatenate([[0.0], after[:-1]])
    return float(max(np.abs(after - true).max(), np.abs(before - true).max()))


def slopes(scores: Mapping[Cell, ArrayLike]) -> dict[tuple[str, str], float]:
    """Return the slope of log mean score against log n for each scenario and quantity.

    By least squares, with all n weighted equally, over those n at which every run was identifiable (has no NaN).

    Parameters
    ----------
    scores : mapping from Cell to array of float
        The scores of all runs, or their means; cells of other tables are ignored.

    Returns
    -------
    dict of (scenario, quantity) to float
        NaN if fewer than three n remain.
    """
    return {key: _slope(*curve) for key, curve in curves(scores).items()}


def curves(scores: Mapping[Cell, ArrayLike]) -> dict[tuple[str, str], tuple[Floats, Floats]]:
    """Return n, and the mean score at each n where every run was identifiable, for each scenario and quantity."""
    return {
        (name, quantity): points
        for name, quantity in _curve_names()
        if (points := _curve(scores, name, quantity)) is not None
    }


def _curve_names() -> Iterator[tuple[str, str]]:
    for quantity in (EXCESS, SUP, OMEGA):
        for name in (UNBIASED, *map(scenario, KAPPAS), POOLED):
            yield name, quantity


def _curve(scores: Mapping[Cell, ArrayLike], name: str, quantity: str) -> tuple[Floats, Floats] | None:
    cells = {n: cell(name, n, quantity) for n in SIZES}
    means = {n: float(np.mean(np.asarray(scores[at], np.float64))) for n, at in cells.items() if at in scores}
    kept = [n for n, mean in means.items() if not np.isnan(mean)]
    return (np.array(kept, np.float64), np.array([means[n] for n in kept])) if means else None


def _slope(n: Floats, means: Floats) -> float:
    if len(n) < FEWEST_SIZES:
        return float("nan")
    return float(np.polyfit(np.log(n), np.log(means), 1)[0])


def _debiased(rows: Draw, kappa: float) -> dict[str, float]:
    try:
        fit = debias_matrix(rows.omega, rows.source)
    except NotIdentifiableError:
        return dict.fromkeys((EXCESS, SUP, OMEGA), float("nan"))
    true = np.log((1.0 + kappa) / 2.0)
    error = max(abs(log_omega - true) for log_omega in fit.log_omegas.values())
    return _learned(rows, fit.weights) | {OMEGA: float(error)}


def _learned(rows: Draw, weights: Floats) -> dict[str, float]:
    return {
        EXCESS: excess_risk(best_threshold(rows.x, rows.y, weights)),
        SUP: sup_distance(rows.x, weights),
    }


def _cells(name: str, n: int, quantities: Mapping[str, float]) -> Scores:
    return {cell(name, n, quantity): value for quantity, value in quantities.items()}


RATES = Experiment("rates", run)

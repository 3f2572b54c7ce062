r"""Free energy differences of two states from the work of switching between them, under pymbar's names.

With forward works from the first state and reverse works from the second, Bennett's acceptance ratio is :class:`MBAR`
of two states:

.. math:: \sum_F f(M + w_F - \Delta f) = \sum_R f(w_R - M + \Delta f), \quad f(x) = \frac{1}{1 + e^x}, \quad
    M = \log\frac{n_F}{n_R}
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_expit, logsumexp

from vardi._estimate.reliability import warn_of_few_bridging
from vardi._types import Floats
from vardi.mbar._arguments import as_series, require_one_of
from vardi.mbar.multistate import MBAR
from vardi.mbar.timeseries import statistical_inefficiency


def bar(
    w_F: ArrayLike,
    w_R: ArrayLike,
    DeltaF: float = 0.0,
    compute_uncertainty: bool = True,
    uncertainty_method: str = "BAR",
    maximum_iterations: int = 500,
    relative_tolerance: float = 1e-12,
    verbose: bool = False,
    method: str = "false-position",
    iterated_solution: bool = True,
) -> dict[str, float]:
    r"""Return the free energy difference of two states by Bennett's acceptance ratio, solved as :class:`MBAR`.

    Works that do not overlap are refused, as states are.

    Parameters
    ----------
    w_F, w_R : array of shape (n_F,), (n_R,)
        Works forward, of frames of the first state, and in reverse, of frames of the second; in kT.
    DeltaF : float
        The difference that such steps start from, and at which the error is taken then.
    compute_uncertainty : bool
        Whether the error is given.
    uncertainty_method : {"BAR", "MBAR"}
        Bennett's variance, or that of :class:`MBAR`, which is larger where overlap is poor.
    maximum_iterations, relative_tolerance, verbose, method
        Options of pymbar's solvers, which change nothing here.
    iterated_solution : bool
        Whether the equation is solved; if not, two self-consistent steps are made from ``DeltaF``,
        as pymbar makes them.

    Returns
    -------
    dict
        ``Delta_f``, and ``dDelta_f``, its standard error.

    Examples
    --------
    >>> import numpy as np
    >>> import vardi
    >>> rng = np.random.default_rng(0)
    >>> found = vardi.mbar.bar(rng.normal(2.5, 1.0, 300), rng.normal(-1.5, 1.0, 300))  # 2 in truth
    >>> round(found["Delta_f"], 2), round(found["dDelta_f"], 2)
    (1.98, 0.04)
    """
    require_one_of(method, ("false-position", "bisection", "self-consistent-iteration"), "method")
    require_one_of(uncertainty_method, ("BAR", "MBAR"), "uncertainty_method")
    forward, reverse = as_series(w_F, "w_F"), as_series(w_R, "w_R")
    if iterated_solution:
        potentials = np.zeros((2, len(forward) + len(reverse)))  # of each state's own frames 0
        potentials[1, : len(forward)], potentials[0, len(forward) :] = forward, reverse
        mbar = MBAR(potentials, [len(forward), len(reverse)])
        DeltaF = found = float(mbar.f_k[1])
        if compute_uncertainty:
            warn_of_few_bridging(mbar.fit.bridge, "The error of the free energy rests")
    else:
        found = DeltaF - bar_zero(forward, reverse, DeltaF)
        found -= bar_zero(forward, reverse, found)
    if not compute_uncertainty:
        return {"Delta_f": found}
    arguments = _arguments(forward, reverse, DeltaF)
    if uncertainty_method == "BAR":
        logs = [log_expit(-x) for x in arguments]
        variance = sum(math.exp(logsumexp(2.0 * log) - 2.0 * logsumexp(log)) for log in logs)
    else:
        variance = 1.0 / sum(float(np.exp(log_expit(x) + log_expit(-x)).sum()) for x in arguments)
    variance -= 1.0 / len(forward) + 1.0 / len(reverse)
    return {"Delta_f": found, "dDelta_f": math.sqrt(max(variance, 0.0))}


def bar_zero(w_F: ArrayLike, w_R: ArrayLike, DeltaF: float) -> float:
    """Return by how much the logs of the two sides of Bennett's equation differ at a free energy difference.

    Parameters
    ----------
    w_F, w_R : array of shape (n_F,), (n_R,)
        Works forward and in reverse.
    DeltaF : float
        The difference to try.
    """
    forward, reverse = _arguments(as_series(w_F, "w_F"), as_series(w_R, "w_R"), DeltaF)
    return float(logsumexp(log_expit(-forward)) - logsumexp(log_expit(-reverse)))


def _arguments(forward: Floats, reverse: Floats, DeltaF: float) -> tuple[Floats, Floats]:
    shift = math.log(len(forward) / len(reverse)) - DeltaF
    return forward + shift, reverse - shift


def exp(w_F: ArrayLike, compute_uncertainty: bool = True, is_timeseries: bool = False) -> dict[str, float]:
    r"""Return the free energy difference to another state from works to it alone, :math:`-\log E\,e^{-w}`.

    Parameters
    ----------
    w_F : array of shape (n,)
        Works, in kT.
    compute_uncertainty : bool
        Whether the error is given.
    is_timeseries : bool
        Whether works are in time order, and the error allows for their correlation.

    Returns
    -------
    dict
        ``Delta_f``, and ``dDelta_f``, its standard error.

    Examples
    --------
    >>> import numpy as np
    >>> import vardi
    >>> found = vardi.mbar.exp(np.random.default_rng(0).normal(2.5, 1.0, 300))  # 2 in truth
    >>> round(found["Delta_f"], 2), round(found["dDelta_f"], 2)
    (1.95, 0.08)
    """
    w = as_series(w_F, "w_F")
    x = np.exp(w.min() - w)
    found = {"Delta_f": float(w.min() - np.log(x.mean()))}
    if compute_uncertainty:
        g = statistical_inefficiency(x) if is_timeseries else 1.0
        found["dDelta_f"] = float(x.std() / x.mean() / math.sqrt(len(x) / g))
    return found

r"""Correlation in time, as pymbar measures it: names, arguments and results of ``pymbar.timeseries`` 4.

.. math:: g = 1 + 2 \sum_{t \ge 1} \left(1 - \frac{t}{N}\right) C(t), \quad
    C(t) = \frac{\sum_i (a_i b_{i+t} + b_i a_{i+t})}{2 (N - t) \sigma_{ab}}

with a and b what was recorded minus its mean, summed up to the first correlation that is not positive.
:func:`vardi.mbar.statistical_inefficiency` sums in pairs instead, and ``series=True`` needs no subsample at all.

Correlation times, (g - 1) / 2, the correlation functions themselves and the search for the start in steps are not
here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from vardi._types import Floats
from vardi.mbar._arguments import ParameterError, as_series


def statistical_inefficiency(
    A_n: ArrayLike, B_n: ArrayLike | None = None, fast: bool = False, mintime: int = 3, fft: bool = False
) -> float:
    r"""Return how many successive frames are worth an independent one.

    Parameters
    ----------
    A_n : array of shape (N,)
        What was recorded, in time order.
    B_n : array of shape (N,), optional
        Something else that was recorded, for the correlation of both.
    fast : bool
        Whether lags are ever further apart, each standing for those up to the next.
    mintime : int
        The lag up to which negative correlations are summed, too.
    fft : bool
        Ignored; accepted for scripts that were written for pymbar.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.signal import lfilter
    >>> from vardi.mbar import timeseries
    >>> memory = 0.9  # g is (1 + memory) / (1 - memory) = 19
    >>> x = lfilter([1], [1, -memory], np.random.default_rng(0).normal(size=100_000))
    >>> round(timeseries.statistical_inefficiency(x), 1)
    20.8
    """
    a = as_series(A_n)
    b = a if B_n is None else as_series(B_n)
    if a.shape != b.shape:
        raise ParameterError(f"A_n has {len(a)} frames, and B_n has {len(b)}. Give both for the same frames.")
    return _summed([a - a.mean()], [b - b.mean()], fast, mintime)[0]


def statistical_inefficiency_multiple(
    A_kn: Sequence[Floats] | Floats, fast: bool = False, return_correlation_function: bool = False
) -> float | tuple[float, list[tuple[int, float]]]:
    """Return how many frames are worth an independent one, over several simulations of one process.

    Parameters
    ----------
    A_kn : list of arrays, or array of shape (K, N)
        What was recorded in each simulation, in time order; their lengths may differ.
    fast : bool
        As for :func:`statistical_inefficiency`.
    return_correlation_function : bool
        Whether the lags and their correlations are returned, too.

    Examples
    --------
    >>> import numpy as np
    >>> from vardi.mbar import timeseries
    >>> runs = np.random.default_rng(0).normal(size=(3, 1000)).repeat(4, axis=1)  # each frame four times
    >>> round(timeseries.statistical_inefficiency_multiple(runs), 1)
    4.1
    """
    several = [A_kn] if isinstance(A_kn, np.ndarray) and A_kn.ndim == 1 else A_kn
    runs = [as_series(one) for one in several]
    if not runs:
        raise ParameterError("A_kn has no series. Give one for each simulation.")
    mean = np.concatenate(runs).mean()
    deviations = [run - mean for run in runs]
    g, correlations = _summed(deviations, deviations, fast, 10)  # the lag that pymbar has here
    return (g, correlations) if return_correlation_function else g


def _summed(a: list[Floats], b: list[Floats], fast: bool, mintime: int) -> tuple[float, list[tuple[int, float]]]:
    """Return g of deviations from the mean in several simulations, and each lag with its correlation."""
    lengths = np.array([len(one) for one in a])
    covariance = sum(float(x @ y) for x, y in zip(a, b, strict=True)) / float(lengths.sum())
    if covariance == 0.0:
        raise ParameterError(
            "The covariance of the series is 0, so there is no correlation in time to measure. Give a series that "
            "varies."
        )
    g, t, step = 1.0, 1, 1
    correlations: list[tuple[int, float]] = []
    while t < lengths.max() - 1:
        products = sum(float(x[:-t] @ y[t:] + y[:-t] @ x[t:]) for x, y in zip(a, b, strict=True))
        C = products / (2.0 * float(np.maximum(lengths - t, 0).sum()) * covariance)
        correlations.append((t, C))
        if C <= 0.0 and t > mintime:
            break
        g += 2.0 * C * (1.0 - t / float(lengths.mean())) * step
        t += step
        step += int(fast)
    return max(g, 1.0), correlations


def subsample_correlated_data(
    A_t: ArrayLike, g: float | None = None, fast: bool = False, conservative: bool = False, verbose: bool = False
) -> list[int]:
    """Return frames that are about as far apart as independent ones: n g, rounded, for n = 0, 1, ...

    Parameters
    ----------
    A_t : array of shape (N,)
        What was recorded, in time order.
    g : float, optional
        The statistical inefficiency; that of the series by default.
    fast : bool
        As for :func:`statistical_inefficiency`.
    conservative : bool
        Whether frames are evenly spaced, g rounded up.
    verbose : bool
        Ignored; accepted for scripts that were written for pymbar.

    Examples
    --------
    >>> from vardi.mbar import timeseries
    >>> timeseries.subsample_correlated_data(range(10), g=2.5)
    [0, 2, 5, 8]
    """
    x = as_series(A_t)
    g = g or statistical_inefficiency(x, fast=fast)
    if not g > 0.0:
        raise ParameterError(f"g is {g}, but a frame is worth a positive number of others. Give 1 or more.")
    if conservative:
        return list(range(0, len(x), math.ceil(g)))
    frames = np.rint(np.arange(math.ceil(len(x) / g) + 1) * g)
    return np.unique(frames[frames < len(x)]).astype(np.int64).tolist()


def detect_equilibration(A_t: ArrayLike, fast: bool = True, nskip: int = 1) -> tuple[int, float, float]:
    """Return the frame from which on most effective frames are left, their inefficiency, and their number.

    Parameters
    ----------
    A_t : array of shape (N,)
        What was recorded, in time order.
    fast : bool
        As for :func:`statistical_inefficiency`.
    nskip : int
        How many frames lie between the starts that are tried.

    Examples
    --------
    >>> import numpy as np
    >>> from vardi.mbar import timeseries
    >>> x = np.random.default_rng(0).normal(size=500) + 8 * np.exp(-np.arange(500) / 20)
    >>> t, g, worth = timeseries.detect_equilibration(x)
    >>> t, round(float(g), 2), round(float(worth))
    (68, 1.0, 433)
    """
    x = as_series(A_t)
    T = len(x)
    if x.std() == 0.0:
        return 0, 1, 1
    inefficiency, worth = np.ones((2, T - 1), np.float32)  # pymbar compares starts in single precision
    for t in range(0, T - 1, nskip):
        try:
            inefficiency[t] = statistical_inefficiency(x[t:], fast=fast)
        except ParameterError:  # constant from here on: worth one frame
            inefficiency[t] = T - t + 1
        worth[t] = (T - t + 1) / inefficiency[t]
    best = int(worth.argmax())
    return best, float(inefficiency[best]), float(worth[best])

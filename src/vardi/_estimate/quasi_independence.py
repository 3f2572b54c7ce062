r"""Whether the windows of truncated rows are independent of their values, except that each contains its value.

Two rows are comparable if each would have been seen through the other's window. If windows and values are independent
in the population (quasi-independence), two comparable rows are as likely to have had their windows swapped, so

.. math::

    h_{ij} = 1\{i, j \text{ comparable}\}\,\mathrm{sign}(x_i - x_j)\,\mathrm{sign}(u_i - u_j)

has mean zero: Tsai's (1990) conditional Kendall's tau for left truncation, and that of Martin and Betensky (2005) for
windows with two ends, where the upper ones :math:`v` are compared as well. Any column of the rows may stand for x. The
mean over pairs is a U-statistic; with :math:`h_i` the mean of :math:`h_{ij}` over j its covariance is

.. math:: V = \frac4n\,\overline{h_i h_i'} - \frac{2}{n (n - 1)}\,\overline{h_{ij} h_{ij}'}

and :math:`U'V^+U` is chi-square with rank V degrees of freedom. Values that are tied add nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from vardi._estimate.bias_check import BiasCheck
from vardi._inputs.pool import Name
from vardi._rows.windows import Windows
from vardi._types import Floats

METHOD = "quasi-independence"
MOST_ROWS = 20_000  # up to which all pairs are compared; beyond, those of a random part


def quasi_independence(
    name: Name, windows: Windows, ends: Mapping[str, Floats], columns: Mapping[str, Floats], counts: Floats
) -> BiasCheck:
    """Test columns of truncated rows against the ends of their windows.

    Parameters
    ----------
    name : hashable
        The name of the sample.
    windows : Windows
        The value and the window of each row.
    ends : mapping of str to ndarray
        The lower or upper ends, or both.
    columns : mapping of str to ndarray
        What to compare with them: the value, or anything else that the rows hold.
    counts : ndarray
        How many rows each stands for.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> x, u = rng.exponential(size=(2, 400))
    >>> seen = x >= u
    >>> windows = Windows(x[seen], u[seen], np.full(seen.sum(), np.inf))
    >>> bool(quasi_independence("seen", windows, {"u": u[seen]}, {"x": x[seen]}, np.ones(seen.sum())).pvalue > 0.05)
    True
    """
    from vardi._estimate.bias_test import chi_square  # loads what only checks need

    if len(windows.x) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(len(windows.x), MOST_ROWS, replace=False))
        windows = Windows(windows.x[rows], windows.low[rows], windows.high[rows])
        ends, columns = ({key: values[rows] for key, values in part.items()} for part in (ends, columns))
        counts = counts[rows]
    first, second, partners = _sums(windows, list(ends.values()), list(columns.values()), counts)
    n = counts.sum()
    U = counts @ first / (n * (n - 1.0)) if n > 1 else np.zeros(first.shape[1])
    means = first / max(n - 1.0, 1.0)
    V = 4.0 * (means.T * counts) @ means / n**2 - 2.0 * second / (n * max(n - 1.0, 1.0)) ** 2
    statistic, pvalue, df = chi_square(U, V, np.zeros(len(U)))
    if not df:
        statistic = pvalue = math.nan
    reason = "" if df else "no two rows with different values would have been seen through each other's windows."
    untested = {name: float(counts @ (partners == 0) / n)}
    return BiasCheck(pvalue, statistic, df or None, METHOD, tuple(columns), {name: pvalue}, None, untested, reason)


def _sums(
    windows: Windows, ends: list[Floats], columns: list[Floats], c: Floats, *, pairs: int = 2**20
) -> tuple[Floats, Floats, Floats]:
    """Return sum_j c_j h_ij for every row i, sum_ij c_i c_j h_ij h_ij', and how many rows each is compared with.

    So many pairs are compared at once.
    """
    n, m = len(windows.x), len(ends) * len(columns)
    first, second, partners = np.zeros((n, m)), np.zeros((m, m)), np.zeros(n)
    x, low, high = windows.x, windows.low, windows.high
    step = max(pairs // n, 1)
    for start in range(0, n, step):
        i = slice(start, min(start + step, n))
        values = x[i, None]
        comparable = (low <= values) & (values <= high) & (low[i, None] <= x) & (x <= high[i, None])
        partners[i] = _summed(comparable.view(np.int8), c) - c[i]
        signs = [_signs(end, i) * comparable for end in ends]
        concordant = [_signs(column, i) * sign for column in columns for sign in signs]
        for a, h in enumerate(concordant):
            first[i, a] = _summed(h, c)
            for b in range(a + 1):
                second[a, b] = second[b, a] = second[a, b] + c[i] @ _summed(h * concordant[b], c)
    return first, second, partners


def _summed(h: NDArray[np.int8], c: Floats) -> Floats:
    """Return sum_j c_j h_ij, without an array of floats if all counts are 1."""
    return h.sum(axis=1, dtype=np.int64).astype(np.float64) if (c == 1.0).all() else np.asarray(h @ c)


def _signs(values: Floats, i: slice) -> NDArray[np.int8]:
    """Return the signs of the differences between the values at i and all values."""
    return (values[i, None] > values).astype(np.int8) - (values[i, None] < values).astype(np.int8)

r"""Known values on the rows: the functions are evaluated, reduced to a basis, and tested for weights that meet them.

With :math:`g_i = h(z_i) - \tau`, weights that meet exact values exist if and only if 0 is in the convex hull of the
:math:`g_i`, and positive ones if it is in its relative interior. A value with an error can move, so it rules out none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from vardi._inputs.frames import Frame
from vardi._inputs.known import Known
from vardi._inputs.pool import Pool
from vardi._types import Floats
from vardi.biases import Bias, ExpressionBias
from vardi.biases._nodes import is_condition
from vardi.errors import InvalidKnownError, MissingValuesError
from vardi.errors._texts import show

ROUNDING = 1e-9  # what is smaller, relative to its function or to the range of that, is only rounding

Omega: TypeAlias = "list[np.ndarray] | np.ndarray | sparse.sparray"
"""The values of all biases on all rows."""


def values_on(known: Known, pool: Pool, omega: Omega, *, log: bool) -> Floats:
    """Return h of every row of a pool, of shape (n, m); raise if a function has no value on some row.

    Parameters
    ----------
    known : Known
        Whose functions are evaluated.
    pool : Pool
        The rows.
    omega : list of arrays, array or SciPy sparse array
        The biases of all states, or with ``log`` their logs.
    """
    functions = {j: h for j, h in enumerate(known.functions) if isinstance(h, Bias)}

    def evaluate() -> list[np.ndarray]:
        labels = [known.labels[j] for j in functions]
        values = iter(pool.evaluate(list(functions.values()), labels, "expression"))
        return [_column(omega, h, log=log) if isinstance(h, int) else next(values) for h in known.functions]

    return _values(known, evaluate, len(pool))


def values_on_frame(known: Known, frame: Frame, biases: Sequence[Bias]) -> Floats:
    """Return h of rows that need not be in the pool, of shape (n, m); ``biases`` are those of all states."""
    functions = [biases[h] if isinstance(h, int) else h for h in known.functions]
    return _values(known, lambda: frame.evaluate(functions, called="expression"), len(frame))


def reduced(known: Known, H: Floats, *, unlikely: float = 1e-6, block: int = 65_536) -> Floats:
    r"""Return directions D of shape (m, r) such that the columns of (H - tau) D are linearly independent.

    If :math:`a'h` is constant over the rows, its known value is :math:`a'\tau`. Exact values must agree with the
    constant, and such directions are left out. Values with errors that concern the same thing are weighted by their
    errors: with N the directions that are left out, :math:`D = (I - N (N'VN)^+ N'V)\,Q` has :math:`D'VN = 0`.

    Parameters
    ----------
    known : Known
        The values.
    H : ndarray of shape (n, m)
        The functions on the rows, or on the distinct ones.
    unlikely : float
        The p-value below which values with errors contradict one another.
    block : int
        How many rows are factored into a triangle at a time.

    Raises
    ------
    InvalidKnownError
        If known values contradict one another, or the constant that a function is on all rows.
    """
    low, high = H.min(axis=0), H.max(axis=0)
    mean = np.where(high > low, H.mean(axis=0), low)
    kept, null = _split(H, low, high, mean, block)
    chosen = np.eye(len(known))[:, kept]
    if not null.shape[1]:
        return chosen
    size = np.abs(null).T @ np.maximum.reduce([np.abs(known.values), np.abs(mean), high - low])
    null = null / np.where(size > 0.0, size, 1.0)
    off = null.T @ (known.values - mean)
    spread = null.T @ known.covariance @ null
    variances, axes = np.linalg.eigh(spread)
    loose = variances > ROUNDING**2
    along = axes.T @ off
    if (np.abs(along[~loose]) > ROUNDING).any():
        stiff = np.abs(axes[:, ~loose] @ along[~loose])
        raise _contradiction(known, low, mean, null[:, int(np.argmax(stiff))])
    if loose.any():
        statistic = float((along[loose] ** 2 / variances[loose]).sum())
        if scipy.special.chdtrc(int(loose.sum()), statistic) < unlikely:
            raise _contradiction(known, low, mean, null[:, int(np.argmax(np.abs(off)))])
        inverse = (axes[:, loose] / variances[loose]) @ axes[:, loose].T
        chosen = chosen - null @ (inverse @ (null.T @ known.covariance @ chosen))
    return chosen


def out_of_reach(known: Known, H: Floats) -> InvalidKnownError | None:
    """Return the error for known values that no positive weights on the rows can meet, with what the rows allow.

    Parameters
    ----------
    known : Known
        The values.
    H : ndarray of shape (n, m)
        The functions on the rows, or on the distinct ones.

    Returns
    -------
    InvalidKnownError or None
        None if there are such weights.
    """
    low, high, tau = H.min(axis=0), H.max(axis=0), known.values
    error = beyond(known, low, high)
    if error is not None:
        return error
    scale = np.where(high > low, high - low, 1.0)
    V = known.covariance / np.outer(scale, scale)
    variances, axes = np.linalg.eigh(V)
    free = axes[:, variances > ROUNDING**2]  # the values move along these
    G = (H - tau) / scale
    gain, y, _ = _separating(G, free, G.mean(axis=0), (0.0, 0.0))
    if gain <= ROUNDING:
        return None
    _, _, s = _separating(G, free, np.zeros(len(tau)), (None, None))
    off = np.flatnonzero(np.abs(s) > ROUNDING)
    if len(off):
        return _not_at_once(known, tau - s * scale, off)
    return _nothing_left(known, H, G @ y, np.flatnonzero(np.abs(y) > ROUNDING))


def _split(H: Floats, low: Floats, high: Floats, mean: Floats, block: int) -> tuple[NDArray[np.int64], Floats]:
    """Return which functions are linearly independent, and the combinations (columns) that are constant."""
    m = len(mean)
    scale = np.where(high > low, high - low, 1.0)
    triangle = np.zeros((0, m))  # R of the centred and scaled functions
    for start in range(0, len(H), block):
        rows = (H[start : start + block] - mean) / scale
        triangle = np.asarray(np.linalg.qr(np.vstack([triangle, rows]), mode="r"))
    triangle[:, high - low <= 1e-12 * np.maximum(np.abs(low), np.abs(high))] = 0.0  # these vary by rounding alone
    lengths = np.linalg.norm(triangle, axis=0)
    lengths[lengths == 0.0] = 1.0
    R, order = scipy.linalg.qr(triangle / lengths, mode="r", pivoting=True)
    rank = int((np.abs(np.diag(R)) > ROUNDING).sum())
    kept, dropped = order[:rank], order[rank:]
    coefficients = scipy.linalg.solve_triangular(R[:rank, :rank], R[:rank, rank:])
    coefficients[np.abs(coefficients) <= ROUNDING] = 0.0
    unit = scale * lengths
    null = np.eye(m)[:, dropped]
    null[kept] = -coefficients * unit[dropped] / unit[kept][:, None]
    return np.sort(kept), null


def _separating(
    G: Floats, free: Floats, gain: Floats, level: tuple[float | None, float | None], added: int = 50, rounds: int = 1000
) -> tuple[float, Floats, Floats]:
    """Maximise gain'y + t, with G y >= t on all rows, free'y = 0, every |y| <= 1, and t between the ends of ``level``.

    Return the maximum, y, and how much the maximum grows with the bounds on each y. At t = 0 and the mean of G as gain,
    a positive maximum rules out positive weights. Without gain, and with any t, the third answer is how far the known
    values are from the nearest ones that some weights meet, by the sum of distances. The programme over all rows is
    solved by that over a few: each round adds those that it violates most.
    """
    from scipy.optimize import linprog  # slow to load, and needed only before an error

    m = len(gain)
    active = np.unique(np.concatenate([G.argmin(axis=0), G.argmax(axis=0), np.arange(min(len(G), added))]))
    for _ in range(rounds):
        optimum = linprog(
            np.append(-gain, -1.0),
            A_ub=np.column_stack([-G[active], np.ones(len(active))]),
            b_ub=np.zeros(len(active)),
            A_eq=np.column_stack([free.T, np.zeros(free.shape[1])]),
            b_eq=np.zeros(free.shape[1]),
            bounds=[(-1.0, 1.0)] * m + [level],
        )
        slack = G @ optimum.x[:m] - optimum.x[m]
        if -optimum.fun <= ROUNDING or float(slack.min()) >= -ROUNDING:  # with more rows it is no larger
            break
        worst = np.argpartition(slack, added)[:added] if len(slack) > added else np.arange(len(slack))
        active = np.union1d(active, worst[slack[worst] < 0.0])
    return -float(optimum.fun), optimum.x[:m], (optimum.lower.marginals + optimum.upper.marginals)[:m]


def _contradiction(known: Known, low: Floats, mean: Floats, combination: Floats) -> InvalidKnownError:
    """Return the error for a combination that is one constant on the rows and another by the known values."""
    places = np.flatnonzero(np.abs(combination) > ROUNDING * np.abs(combination).max())
    labels = [known.labels[j] for j in places]
    if len(places) == 1:
        return _constant(known, int(places[0]), float(low[places[0]]))
    a = combination[places] / (np.abs(combination[places]).min() * np.sign(combination[places[0]]))
    terms = " ".join(
        f"{'-' if factor < 0 else '+'} {'' if abs(factor) == 1 else f'{abs(factor):.4g} * '}{label!r}"
        for factor, label in zip(np.round(a, 9).tolist(), labels, strict=True)
    ).removeprefix("+ ")
    size = float(np.abs(a) @ np.maximum(np.abs(mean[places]), np.abs(known.values[places])))
    on_rows, as_known = (
        value if abs(value) > ROUNDING * size else 0.0
        for value in (float(a @ mean[places]), float(a @ known.values[places]))
    )
    errors = "" if known.exact else ", by far more than their standard errors allow"
    return InvalidKnownError(
        f"The known values of {show(labels)} contradict one another: {terms} is {on_rows:.6g} on every row of "
        f"the pool, but {as_known:.6g} by the values given{errors}. Correct them, or leave out one that "
        "follows from the others.",
        labels=labels,
    )


def _constant(known: Known, j: int, constant: float) -> InvalidKnownError:
    label, value, h = known.labels[j], float(known.values[j]), known.functions[j]
    if isinstance(h, ExpressionBias) and is_condition(h.node) and constant == 0.0:
        message = (
            f"No row of the pool is in {label!r}, so no row can carry its share of {value:g}. Add such rows; or leave "
            "it out, and give what is known of the rest of the population, which the result then represents."
        )
    else:
        message = (
            f"{label!r} is {constant:g} on every row of the pool, so that is its mean whatever the weights, but "
            f"{value:g} is given as known. Correct the value, or add rows where it differs."
        )
    return InvalidKnownError(message, labels=[label], allowed={label: (constant, constant)})


def beyond(known: Known, low: Floats, high: Floats) -> InvalidKnownError | None:
    """Return the error for exact values outside the range of their functions on the rows, from low to high."""
    exact, tau = np.diag(known.covariance) == 0.0, known.values
    places = np.flatnonzero(exact & ((tau < low - ROUNDING * np.abs(low)) | (tau > high + ROUNDING * np.abs(high))))
    if not len(places):
        return None
    j, h = int(places[0]), known.functions[int(places[0])]
    if low[j] == high[j]:
        return _constant(known, j, float(low[j]))
    label, value = known.labels[j], float(known.values[j])
    more = "" if len(places) == 1 else f" The same holds for {show(known.labels[k] for k in places[1:])}."
    side = f"below {low[j]:.6g}" if value < low[j] else f"above {high[j]:.6g}"
    remedy = "Correct the value." if isinstance(h, int) else f"Correct the value, or add rows {side}."
    return InvalidKnownError(
        f"The known value of {label!r} is {value:.6g}, but on the rows of the pool it ranges from {low[j]:.6g} to "
        f"{high[j]:.6g}, so no weights on them have that mean.{more} {remedy}",
        labels=[known.labels[k] for k in places],
        allowed={known.labels[k]: (float(low[k]), float(high[k])) for k in places},
    )


def _not_at_once(known: Known, met: Floats, off: NDArray[np.int64]) -> InvalidKnownError:
    nearest = ", ".join(f"{met[j]:.4g} instead of {known.values[j]:.4g} for {known.labels[j]!r}" for j in off[:4])
    return InvalidKnownError(
        "No weights on the rows of the pool meet all known values at once: the nearest values that weights can meet "
        f"are {nearest}. The values contradict one another, or parts of the population that should overlap share no "
        "row of the pool. Correct the values, or add rows where they are missing.",
        labels=[known.labels[j] for j in off],
        nearest={known.labels[j]: float(met[j]) for j in off},
    )


def _nothing_left(known: Known, H: Floats, along: Floats, places: NDArray[np.int64]) -> InvalidKnownError:
    """Return the error for values that can be met, but not by weights that are positive on all rows."""
    row = int(np.argmax(along))
    where = " and ".join(f"{known.labels[j]!r} = {H[row, j]:.4g}" for j in places[:4])
    targets = " and ".join(f"{known.values[j]:.4g} for {known.labels[j]!r}" for j in places[:4])
    return InvalidKnownError(
        f"The known values leave nothing for rows with {where}, but the pool has such rows, so no positive weights "
        f"meet {targets}. Correct the values; or remove these rows, if the population has no such units.",
        labels=[known.labels[j] for j in places],
    )


def _values(known: Known, evaluate: Callable[[], Sequence[np.ndarray]], n: int) -> Floats:
    """Return the functions on n rows as columns; raise if one has no value on some row."""
    try:
        H = np.column_stack([np.empty((n, 0)), *evaluate()])
    except MissingValuesError as error:
        reading = [
            label
            for label, h in zip(known.labels, known.functions, strict=True)
            if isinstance(h, Bias) and not set(h.columns).isdisjoint(error.columns)
        ]
        raise MissingValuesError(
            f"The known value of {(*reading, *known.labels)[0]!r} needs a value in every row. {error}",
            columns=error.columns,
        ) from error
    bad = np.argwhere(~np.isfinite(H))
    if len(bad):
        i, j = bad[0].tolist()
        raise InvalidKnownError(
            f"{known.labels[j]!r} is {H[i, j]} on {int((bad[:, 1] == j).sum())} of the rows (the first is row {i}), so "
            "it has no mean over them. Fill in what is missing, or give the known mean of a function that is finite.",
            labels=[known.labels[j]],
        )
    return H


def _column(omega: Omega, k: int, *, log: bool) -> np.ndarray:
    """Return the values of a bias."""
    if sparse.issparse(omega):
        stored = sparse.csc_array(omega)[:, [k]].tocoo()
        column = np.full(stored.shape[0], -np.inf if log else 0.0)
        column[stored.row] = stored.data
    else:
        column = np.asarray(omega[k] if isinstance(omega, list) else omega[:, k])
    return np.exp(column) if log else column

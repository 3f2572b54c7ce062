"""The pipeline: samples and biases -> rows -> verdict -> solution -> DebiasedSample."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vardi._identify import Verdict, connected, cut_verdict, judge
from vardi._lazy import LazyDebiasedSample, LazyPool, any_lazy, as_lazy_pool
from vardi._newton import GAP, Solution, solve
from vardi._pool import Name, Pool, as_pool, matrix_pool, show
from vardi._rows import Rows, as_rows
from vardi._sample import DebiasedSample
from vardi.errors import ConvergenceError, DroppedSamplesWarning, MismatchError, NeedsRowsError

OnUnidentified = Literal["raise", "largest"]


def debias(
    samples: Any,
    biases: Any,
    *,
    source: Any = None,
    counts: Any = None,
    on_unidentified: OnUnidentified = "raise",
    tol: float = 1e-10,
    max_iterations: int = 100,
) -> DebiasedSample:
    r"""Turn K biased samples of one population into one debiased sample.

    Sample k was drawn from the law :math:`\omega_k\,dP / \Omega_k`, where the bias :math:`\omega_k` is known and the
    normaliser :math:`\Omega_k = E_P\,\omega_k` is not. The normalisers solve Vardi's (1985) system, and row i gets

    .. math:: \pi_i = \frac{1}{n} \Big/ \sum_l \lambda_l \frac{\omega_l(z_i)}{\Omega_l},\qquad \lambda_l = n_l / n.

    Parameters
    ----------
    samples : mapping from name to rows, list of rows, or one frame (with ``source``)
        Rows are a NumPy array (columns ``x``, or ``x0``, ``x1``, ...), a frame of pandas, Polars or PyArrow, or a lazy
        frame (Polars, DuckDB): then only sums leave the engine, and ``weights`` is a lazy frame.
    biases : mapping from name to bias, or list of biases
        A number, an expression in text, a :class:`~vardi.biases.Bias`, a function of the rows, or an array with a value
        for each row of the pool. A bias whose name no sample has describes a state that was not sampled: its normaliser
        is estimated all the same.
    source : str or array of labels, optional
        For one frame that holds all samples: the column with the label of each row's sample, or the labels themselves.
    counts : array, mapping from name to array, or str, optional
        How many rows each row stands for (frequency weights), or the column that says so.
    on_unidentified : {"raise", "largest"}
        What to do where some samples cannot be compared: raise, or keep the group with the most rows and warn.
    tol : float
        Largest relative error of Vardi's equations, max_k abs(Gamma_k - 1).
    max_iterations : int
        Newton steps after which :class:`~vardi.errors.ConvergenceError` is raised.

    Returns
    -------
    DebiasedSample
        Weights, normalisers, and what follows from them.

    Examples
    --------
    Lengths, seen once as they are and once with longer ones seen more often:

    >>> import numpy as np
    >>> import vardi
    >>> plain, seen = np.array([1.0, 2.0, 4.0]), np.array([2.0, 4.0, 4.0, 8.0])
    >>> fit = vardi.debias({"plain": plain, "seen": seen}, {"plain": 1, "seen": "x"})
    >>> fit.weights.round(3)
    array([1.599, 1.217, 0.823, 1.217, 0.823, 0.823, 0.499])
    >>> round(fit.omegas["seen"], 3)  # the mean length in the population
    2.905
    """
    _require_choice(on_unidentified)
    if any_lazy(samples):
        lazy = as_lazy_pool(samples, biases, source=source, counts=counts)
        return _fit_lazy(lazy, on_unidentified, tol, max_iterations)
    pool = as_pool(samples, biases, source=source, counts=counts)
    return _fit(pool, pool.values(), on_unidentified, tol, max_iterations, log=False)


def debias_matrix(
    omega: Any,
    source: Any,
    log: bool = False,
    *,
    counts: Any = None,
    names: Iterable[Name] | None = None,
    on_unidentified: OnUnidentified = "raise",
    tol: float = 1e-10,
    max_iterations: int = 100,
) -> DebiasedSample:
    """Debias from the values of the biases alone.

    Parameters
    ----------
    omega : array or SciPy sparse array of shape (n, K)
        omega_k(z_i), or with ``log`` their logs, -inf for zero. What a sparse array does not store is omega = 0.
    source : array of int of shape (n,)
        Column of omega that each row's sample was drawn with, 0 to K - 1.
    log : bool
        Whether logs are given: a physicist gives minus the reduced potentials.
    counts, on_unidentified, tol, max_iterations
        As for :func:`debias`.
    names : iterable, optional
        Names of the columns; "0", "1", ... by default.

    Examples
    --------
    >>> import numpy as np
    >>> import vardi
    >>> fit = vardi.debias_matrix(np.array([[1, 1], [1, 0], [1, 1.0]]), [0, 0, 1])
    >>> fit.weights
    array([0.75, 1.5 , 0.75])
    """
    if not sparse.issparse(omega):
        try:
            omega = np.asarray(omega)
        except ValueError as error:
            raise MismatchError(
                "omega has rows of different lengths. Give a matrix with a column for each bias.",
                expected=("matrix",),
                got=(type(omega).__name__,),
            ) from error
    if omega.dtype.kind not in "fiub":
        raise MismatchError(
            f"omega holds {omega.dtype}, and biases are numbers. Give a matrix of floats.",
            expected=("float",),
            got=(str(omega.dtype),),
        )
    _require_choice(on_unidentified)
    pool = matrix_pool(omega, source, counts, names)
    return _fit(pool, omega, on_unidentified, tol, max_iterations, log=log)


def identify(samples: Any, biases: Any, *, source: Any = None, counts: Any = None) -> Verdict:
    """Tell whether the samples can be compared with one another, before any solve.

    Parameters are those of :func:`debias`.

    Examples
    --------
    >>> import numpy as np
    >>> import vardi
    >>> low, high = np.array([1.0, 2.0, 3.0]), np.array([7.0, 8.0])
    >>> verdict = vardi.identify({"low": low, "high": high}, {"low": "x <= 5", "high": "x >= 6"})
    >>> verdict.identified, verdict.groups
    (False, (('low',), ('high',)))
    >>> bool(vardi.identify({"low": low, "high": high}, {"low": "x <= 8", "high": "x >= 3"}))
    True
    """
    if any_lazy(samples):
        lazy = as_lazy_pool(samples, biases, source=source, counts=counts)
        return judge(lazy.rows(), lazy.names)
    pool = as_pool(samples, biases, source=source, counts=counts)
    return _judge(pool, _rows(pool, pool.values(), _counted(pool), log=False))


def _fit(
    pool: Pool, omega: Any, on_unidentified: OnUnidentified, tol: float, max_iterations: int, *, log: bool
) -> DebiasedSample:
    kept = _counted(pool)
    while True:
        rows = _rows(pool, omega, kept, log=log)
        fitted = _solve(pool, rows, tol, max_iterations)
        if isinstance(fitted, Solution):
            break
        if on_unidentified == "raise":
            raise fitted.error()
        kept = kept & _largest_group(fitted, rows, pool)
    weights, shift = rows.weights(fitted.u)
    solution = replace(fitted, u=fitted.u + shift)
    return DebiasedSample(pool, rows, solution, weights, None if kept.all() else kept)


def _require_choice(on_unidentified: str) -> None:
    if on_unidentified not in ("raise", "largest"):
        raise MismatchError(
            f"on_unidentified is {on_unidentified!r}. Give 'raise' or 'largest'.",
            expected=("raise", "largest"),
            got=(on_unidentified,),
        )


def _fit_lazy(pool: LazyPool, on_unidentified: OnUnidentified, tol: float, max_iterations: int) -> DebiasedSample:
    rows = pool.rows()
    fitted = _solve(pool, rows, tol, max_iterations)
    if not isinstance(fitted, Solution):
        if on_unidentified == "largest":
            raise NeedsRowsError(
                f"{fitted.message} Leaving samples out needs rows in memory, and these are in their engine: give the "
                "samples of one group only."
            )
        raise fitted.error()
    weights, shift = rows.weights(fitted.u)
    return LazyDebiasedSample(pool, rows, replace(fitted, u=fitted.u + shift), weights)


def _counted(pool: Pool) -> NDArray[np.bool_]:
    return np.ones(len(pool), bool) if pool.counts is None else pool.counts > 0


def _largest_group(verdict: Verdict, rows: Rows, pool: Pool) -> NDArray[np.bool_]:
    """Return which rows of the pool belong to the group with the most rows, and warn of the others."""
    size = dict(zip(pool.names, rows.sizes.tolist(), strict=True))
    largest = max(verdict.groups, key=lambda group: sum(size[name] for name in group))
    dropped = [name for group in verdict.groups if group is not largest for name in group]
    warnings.warn(
        f"Left out {show(dropped)} with {sum(size[name] for name in dropped):g} rows. {verdict.message}",
        DroppedSamplesWarning,
        stacklevel=4,
    )
    return np.isin(pool.source, [k for k, name in enumerate(pool.names) if name in largest])


def _rows(pool: Pool, omega: Any, kept: NDArray[np.bool_], *, log: bool) -> Rows:
    if kept.all():
        return as_rows(omega, pool.source, pool.counts, pool.names, log=log)
    omega = [column[kept] for column in omega] if isinstance(omega, list) else omega[kept]
    counts = None if pool.counts is None else pool.counts[kept]
    return as_rows(omega, pool.source[kept], counts, pool.names, log=log, positions=np.flatnonzero(kept))


def _judge(pool: Pool, rows: Any) -> Verdict:
    """Return the verdict; where groups share no row, with the two samples that lie nearest to one another."""
    verdict = judge(rows, pool.names)
    hint = "" if verdict.identified else pool.nearest(verdict.groups)
    return replace(verdict, message=f"{verdict.message} {hint}") if hint else verdict


def _solve(pool: Pool, rows: Any, tol: float, max_iterations: int) -> Solution | Verdict:
    """Return the solution, or the verdict that there is none."""
    if not connected(rows.reach(), rows.sizes):
        return _judge(pool, rows)
    solution = solve(rows, tol=tol, max_iterations=max_iterations)
    if solution.gap < GAP:
        return cut_verdict(judge(rows, pool.names), solution.cut[rows.sizes > 0], solution.gap)
    if not solution.converged:
        raise ConvergenceError(
            f"Vardi's equations hold to {solution.residual:.1e} only after {solution.iterations} iterations, and "
            f"{tol:.0e} was asked for (spectral gap {solution.gap:.1e}). The samples overlap too little for the "
            "rounding of the sums, or the tolerance is below it. Raise tol or max_iterations, or add a sample "
            "between those that overlap least.",
            solution=solution,
        )
    return solution

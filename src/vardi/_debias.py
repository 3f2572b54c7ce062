"""What users call: samples and biases, or their values, checked and handed to the pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

from vardi._arrays import as_array
from vardi._fit import (
    OnUnidentified,
    anchored_lazy_pool,
    anchored_pool,
    counted,
    fit,
    fit_anchored,
    fit_lazy,
    fit_lazy_anchored,
    fit_parametric,
    joined,
    judged,
    rows_of,
)
from vardi._identify import Verdict, judge
from vardi._lazy import any_lazy, as_lazy_pool
from vardi._parametric import Setup, has_parameters
from vardi._pool import Name, Pool, as_biases, as_named, as_pool, matrix_pool
from vardi._rows import Windows
from vardi._rows.readers import as_reader
from vardi._sample import DebiasedSample
from vardi.biases import ParametricBias
from vardi.errors import MismatchError, NeedsRowsError


def debias(
    samples: Any,
    biases: Any,
    *,
    source: Any = None,
    counts: Any = None,
    shares: Any = None,
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
        frame (Polars, DuckDB, Ibis, Spark): then only sums leave the engine, and ``weights`` is a lazy frame.
    biases : mapping from name to bias, or list of biases
        A number, an expression in text, a :class:`~vardi.biases.Bias`, a function of the rows, or an array with a value
        for each row of the pool. A bias whose name no sample has describes a state that was not sampled: its normaliser
        is estimated all the same. Biases with parameters, such as :func:`vardi.logistic`, are estimated too, beside at
        least one sample whose bias is known.
    source : str or array of labels, optional
        For one frame that holds all samples: the column with the label of each row's sample, or the labels themselves.
    counts : array, mapping from name to array, or str, optional
        How many rows each row stands for (frequency weights), or the column that says so.
    shares : mapping, optional
        Shares of the population that are known, as from a census. From the name of a sample whose bias is a condition,
        or from a condition (text or :class:`~vardi.biases.Bias`), to its share; or from a column to the shares of its
        values, which sum to 1. Of all weights that meet them those nearest to the debiased ones are taken (raking).
        Shares join samples that overlap does not; where the samples can tell, the shares are tested, and ``fit.shares``
        has the outcome.
    on_unidentified : {"raise", "largest"}
        What to do where some samples cannot be compared: raise, or keep the group with the most rows and warn.
    tol : float
        Largest relative error of Vardi's equations, max_k abs(Gamma_k - 1).
    max_iterations : int
        Newton steps after which :class:`~vardi.errors.ConvergenceError` is raised.

    Returns
    -------
    DebiasedSample
        Weights, normalisers, and what follows from them; a :class:`~vardi.ParametricSample` where biases have
        parameters.

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

    Two regions that no sample spans, whose shares a census knows:

    >>> regions = {"north": np.array([3.0, 5.0]), "south": np.array([10.0, 12.0, 14.0])}
    >>> fit = vardi.debias(regions, {"north": "x <= 5", "south": "x > 5"}, shares={"north": 0.25})
    >>> fit.probabilities.round(12)
    array([0.125, 0.125, 0.25 , 0.25 , 0.25 ])
    """
    _require_choice(on_unidentified)
    _require_rows_for_parameters(samples, biases)
    if shares is not None:
        _refuse_largest(on_unidentified)
        if any_lazy(samples):
            lazy = as_lazy_pool(samples, biases, source=source, counts=counts)
            return fit_lazy_anchored(lazy, shares, tol, max_iterations)
        pool = as_pool(samples, biases, source=source, counts=counts)
        _refuse_parameters(pool)
        return fit_anchored(pool, pool.values(), shares, tol, max_iterations, log=False)
    if any_lazy(samples):
        lazy = as_lazy_pool(samples, biases, source=source, counts=counts)
        return fit_lazy(lazy, on_unidentified, tol, max_iterations)
    pool = as_pool(samples, biases, source=source, counts=counts)
    if has_parameters(pool):
        return fit_parametric(pool, on_unidentified, tol, max_iterations)
    return fit(pool, pool.values(), on_unidentified, tol, max_iterations, log=False)


def debias_matrix(
    omega: Any,
    source: Any,
    log: bool = False,
    *,
    counts: Any = None,
    shares: Any = None,
    names: Iterable[Name] | None = None,
    on_unidentified: OnUnidentified = "raise",
    tol: float = 1e-10,
    max_iterations: int = 100,
) -> DebiasedSample:
    """Debias from the values of the biases alone.

    Parameters
    ----------
    omega : array or SciPy sparse array of shape (n, K), or function that yields its rows in blocks
        omega_k(z_i), or with ``log`` their logs, -inf for zero. What a sparse array does not store is omega = 0. Memory
        maps, data sets of Zarr and HDF5, and functions without arguments that yield arrays of successive rows are read
        block by block in each pass, and need not fit in memory. Where biases are windows on a line, and many,
        :class:`~vardi.Windows` stands for a matrix that would not fit. It is read in place, so leave it as it is while
        the fit is in use.
    source : array of int of shape (n,)
        Column of omega that each row's sample was drawn with, 0 to K - 1.
    log : bool
        Whether logs are given: a physicist gives minus the reduced potentials.
    counts, on_unidentified, tol, max_iterations
        As for :func:`debias`.
    shares : mapping, optional
        Known shares of the population, by the names of columns of omega that are 0 or a constant.
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
    _require_choice(on_unidentified)
    omega = _as_matrix(omega, source)
    pool = matrix_pool(omega, source, counts, names)
    if shares is not None:
        _refuse_largest(on_unidentified)
        return fit_anchored(pool, omega, shares, tol, max_iterations, log=log)
    return fit(pool, omega, on_unidentified, tol, max_iterations, log=log)


def _as_matrix(omega: Any, source: Any) -> Any:
    """Return a matrix of numbers in memory, sparse, read in blocks, or of windows."""
    if isinstance(omega, Windows):
        return omega
    reader = None if sparse.issparse(omega) else as_reader(omega, np.size(source))
    if reader is not None:
        omega = reader
    elif sparse.issparse(omega):
        omega = sparse.csr_array(omega)  # rows cannot be taken from every format
    else:
        omega = as_array(omega, "omega", "a matrix with a column for each bias")
    if omega.dtype.kind not in "fiub":
        raise MismatchError(
            f"omega holds {omega.dtype}, and biases are numbers. Give a matrix of floats.",
            expected=("float",),
            got=(str(omega.dtype),),
        )
    return omega


def identify(samples: Any, biases: Any, *, source: Any = None, counts: Any = None, shares: Any = None) -> Verdict:
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
    >>> known = {"low": 0.4}  # of the population, by a census
    >>> bool(vardi.identify({"low": low, "high": high}, {"low": "x <= 5", "high": "x >= 6"}, shares=known))
    True
    """
    _require_rows_for_parameters(samples, biases)
    if any_lazy(samples):
        lazy = as_lazy_pool(samples, biases, source=source, counts=counts)
        return judge(lazy.rows(), lazy.names) if shares is None else joined(lambda: anchored_lazy_pool(lazy, shares))
    pool = as_pool(samples, biases, source=source, counts=counts)
    if has_parameters(pool):
        if shares is not None:
            _refuse_parameters(pool)
        setup = Setup.of(pool)
        return setup.judged(judged(pool, setup.start()))
    if shares is not None:
        return joined(lambda: anchored_pool(pool, pool.values(), shares, log=False))
    return judged(pool, rows_of(pool, pool.values(), counted(pool), log=False))


def _require_rows_for_parameters(samples: Any, biases: Any) -> None:
    """Refuse lazy frames where biases have parameters."""
    if not any_lazy(samples):
        return
    by_name = as_named(biases, "biases")
    for name, bias in zip(by_name, as_biases(by_name, tuple(by_name)), strict=True):
        if isinstance(bias, ParametricBias):
            raise NeedsRowsError(
                f"The bias of {str(name)!r}, {bias}, has parameters, and to estimate them needs rows in memory: these "
                "are in their engine. Collect the columns you need, or fix the parameters with .at(...)."
            )


def _refuse_parameters(pool: Pool) -> None:
    if has_parameters(pool):
        raise MismatchError(
            "Known shares beside biases with parameters are not supported: what shares tell of the parameters has no "
            "place in the likelihood. Leave the shares out, or fix the parameters with .at(...).",
            expected=("known biases",),
            got=("biases with parameters",),
        )


def _refuse_largest(on_unidentified: str) -> None:
    if on_unidentified == "largest":
        raise MismatchError(
            "on_unidentified='largest' leaves samples out, and shares speak of the whole population. Give shares that "
            "join the groups, or debias the samples of one group without shares.",
            expected=("raise",),
            got=("largest",),
        )


def _require_choice(on_unidentified: str) -> None:
    if on_unidentified not in ("raise", "largest"):
        raise MismatchError(
            f"on_unidentified is {on_unidentified!r}. Give 'raise' or 'largest'.",
            expected=("raise", "largest"),
            got=(on_unidentified,),
        )

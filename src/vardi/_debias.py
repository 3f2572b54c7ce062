"""The pipeline: samples and biases -> rows -> verdict -> solution -> DebiasedSample."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vardi._anchored import AnchoredSample
from vardi._blocked import BlockedSample
from vardi._identify import Verdict, connected, cut_verdict, joined_verdict, judge
from vardi._lazy import LazyDebiasedSample, LazyPool, any_lazy, as_lazy_pool
from vardi._lazy.shares import LazyAnchoredSample, LazyTable, collapse, with_cells
from vardi._newton import GAP, Solution, solve
from vardi._parametric import ParametricSample, Setup, estimate, has_parameters, warn_of_vague_parameters
from vardi._pool import Name, Pool, as_biases, as_named, as_pool, matrix_pool, show
from vardi._rows import Rows, Windows, as_rows
from vardi._rows.blocks import Blocks
from vardi._rows.lazy import Part
from vardi._rows.readers import as_reader
from vardi._sample import DebiasedSample
from vardi._shares import Anchor, SharesCheck, anchored_rows, as_cells, find_groups, members_of
from vardi._shares.anchor import alone, merged
from vardi._shares.cells import PoolTable, require_rows_in
from vardi._shares.raking import infeasible
from vardi.biases import ParametricBias
from vardi.errors import (
    ContradictedSharesWarning,
    ConvergenceError,
    DroppedSamplesWarning,
    MismatchError,
    NeedsRowsError,
    NotIdentifiableError,
)

OnUnidentified = Literal["raise", "largest"]

MANY = 10_000  # rows from which a few of them are looked at first
FEW = 50  # rows of each sample that mostly show that all are linked


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
            return _fit_lazy_anchored(lazy, shares, tol, max_iterations)
        pool = as_pool(samples, biases, source=source, counts=counts)
        _refuse_parameters(pool)
        return _fit_anchored(pool, pool.values(), shares, tol, max_iterations, log=False)
    if any_lazy(samples):
        lazy = as_lazy_pool(samples, biases, source=source, counts=counts)
        return _fit_lazy(lazy, on_unidentified, tol, max_iterations)
    pool = as_pool(samples, biases, source=source, counts=counts)
    if has_parameters(pool):
        return _fit_parametric(pool, on_unidentified, tol, max_iterations)
    return _fit(pool, pool.values(), on_unidentified, tol, max_iterations, log=False)


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
        :class:`~vardi.Windows` stands for a matrix that would not fit.
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
        return _fit_anchored(pool, omega, shares, tol, max_iterations, log=log)
    return _fit(pool, omega, on_unidentified, tol, max_iterations, log=log)


def _as_matrix(omega: Any, source: Any) -> Any:
    """Return a matrix of numbers in memory, sparse, read in blocks, or of windows."""
    if isinstance(omega, Windows):
        return omega
    reader = None if sparse.issparse(omega) else as_reader(omega, np.size(source))
    if reader is not None:
        omega = reader
    elif not sparse.issparse(omega):
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
        return judge(lazy.rows(), lazy.names) if shares is None else _joined(lambda: _lazy_anchored(lazy, shares))
    pool = as_pool(samples, biases, source=source, counts=counts)
    if has_parameters(pool):
        if shares is not None:
            _refuse_parameters(pool)
        setup = Setup.of(pool)
        return setup.judged(_judge(pool, setup.start()))
    if shares is not None:
        return _joined(lambda: _anchored(pool, pool.values(), shares, log=False))
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
    made = BlockedSample if isinstance(rows, Blocks) else DebiasedSample
    return made(pool, rows, solution, weights, None if kept.all() else kept)


def _fit_parametric(pool: Pool, on_unidentified: OnUnidentified, tol: float, max_iterations: int) -> DebiasedSample:
    """Estimate parameters with the normalisers, then solve for the latter at these."""
    if on_unidentified == "largest":
        raise MismatchError(
            "on_unidentified='largest' leaves samples out, and with them what is known of parameters. Debias the "
            "samples of one group.",
            expected=("raise",),
            got=("largest",),
        )
    setup = Setup.of(pool)
    verdict = _judge(pool, setup.start()).require()
    setup.require_known(verdict)
    names = [pool.names[k] for k in setup.sampled]
    scored = estimate(setup.likelihood, names)
    rows = setup.rows(scored.point.theta)
    fitted = _solve(pool, rows, tol, max_iterations)
    if not isinstance(fitted, Solution):
        raise fitted.error()
    warn_of_vague_parameters(scored, names, stacklevel=4)
    weights, shift = rows.weights(fitted.u)
    return ParametricSample(setup, rows, replace(fitted, u=fitted.u + shift), weights, scored)


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


def _fit_anchored(pool: Pool, omega: Any, shares: Any, tol: float, max_iterations: int, *, log: bool) -> DebiasedSample:
    """Solve each group of samples on its own, and join them by the shares."""
    anchor, rows, _ = _anchored(pool, omega, shares, log=log)
    solution = _solve_groups(pool, rows, anchor, tol, max_iterations)
    refit = anchor.weigh(rows, solution.u)
    if refit is None:
        raise infeasible(anchor.cells, anchor.patterns)
    kept = _counted(pool)
    fit = AnchoredSample(pool, rows, solution, anchor, refit, None if kept.all() else kept)
    _warn_of_contradiction(fit.shares)
    return fit


def _fit_lazy_anchored(pool: LazyPool, shares: Any, tol: float, max_iterations: int) -> DebiasedSample:
    anchor, rows, _, parts = _lazy_anchored(pool, shares)
    solution = _solve_groups(pool, rows, anchor, tol, max_iterations)
    refit = anchor.weigh(rows, solution.u)
    if refit is None:
        raise infeasible(anchor.cells, anchor.patterns)
    fit = LazyAnchoredSample(replace(pool, parts=parts), rows, solution, anchor, refit)
    _warn_of_contradiction(fit.shares)
    return fit


def _lazy_anchored(pool: LazyPool, shares: Any) -> tuple[Anchor, Rows, Verdict, tuple[Part, ...]]:
    cells = as_cells(shares, pool.names, LazyTable(pool))
    parts = with_cells(pool, cells)
    collapsed, members = collapse(pool, parts, cells)
    require_rows_in(cells, members)
    rows, pattern, patterns = anchored_rows(collapsed, members, None)
    verdict = judge(rows, pool.names)
    return Anchor.of(cells, find_groups(rows, verdict), rows, pattern, patterns, verdict), rows, verdict, parts


def _warn_of_contradiction(shares: SharesCheck) -> None:
    if shares.contradicted:
        warnings.warn(
            f"{shares.verdict} A bias or a share is wrong, or they speak of different populations; the weights meet "
            "the shares all the same. fit.shares has the details.",
            ContradictedSharesWarning,
            stacklevel=4,
        )


def _solve_groups(pool: Pool, rows: Rows, anchor: Anchor, tol: float, max_iterations: int) -> Solution:
    """Return the solutions of all groups as one."""
    solutions = []
    for label in range(len(anchor.masses)):
        states = np.flatnonzero(anchor.groups == label)
        if len(states) == 1:
            solutions.append(alone(int(states[0]), len(anchor.groups)))
            continue
        part = rows if len(anchor.masses) == 1 else rows.subset(np.flatnonzero(anchor.groups[rows.source] == label))
        fitted = _solve(pool, part, tol, max_iterations)
        if not isinstance(fitted, Solution):
            raise fitted.error()
        solutions.append(fitted)
    return merged(solutions, anchor.groups)


def _anchored(pool: Pool, omega: Any, shares: Any, *, log: bool) -> tuple[Anchor, Rows, Verdict]:
    """Tie shares to the rows of a pool: cells, groups, and what the shares say of these."""
    cells = as_cells(shares, pool.names, PoolTable(pool))
    kept = _counted(pool)
    members = members_of(cells, pool, omega, log=log)[kept]
    require_rows_in(cells, members)
    counts = None if pool.counts is None else pool.counts[kept]
    rows, pattern, patterns = anchored_rows(_rows(pool, omega, kept, log=log), members, counts)
    verdict = judge(rows, pool.names)
    return Anchor.of(cells, find_groups(rows, verdict), rows, pattern, patterns, verdict), rows, verdict


def _joined(anchored: Callable[[], tuple[Any, ...]]) -> Verdict:
    """Return the verdict on groups that shares join, or leave apart."""
    try:
        anchor, _, verdict, *_ = anchored()
    except NotIdentifiableError as error:
        if error.verdict is None:
            raise
        return replace(error.verdict, identified=False, message=str(error))
    return joined_verdict(verdict, anchor.masses)


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
    kept = set(largest)
    return np.isin(pool.source, [k for k, name in enumerate(pool.names) if name in kept])


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
    few = rows if len(rows) <= MANY else rows.subsample(0.0, least=FEW)  # what these link is linked
    if not connected(few.reach(), few.sizes) and (few is rows or not connected(rows.reach(), rows.sizes)):
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

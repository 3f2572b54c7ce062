"""The functions that users call, and what they do: inputs -> rows -> verdict -> solution -> DebiasedSample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vardi._fit.inputs import Depends, FrameInputs, MatrixInputs, OnUnidentified, Options, as_matrix
from vardi._fit.known import as_identified, warn_of_contradiction
from vardi._fit.rows_in_memory import RowsInMemory
from vardi._fit.sample import DebiasedSample
from vardi._fit.solved import Solved
from vardi._fit.user_rows import Prepared, UserRows
from vardi._inputs.given import Biases, ByRow, Counts, Known, Labels, Population, Samples
from vardi._inputs.pool import Name
from vardi._inputs.shared_units import warn_of_shared_units
from vardi._rows.stored import MAX_IN_MEMORY
from vardi._solve.identify import Verdict, joined_verdict
from vardi._solve.model import JointProblem
from vardi._solve.newton import JointFit, Solution, shifted, solve_plain
from vardi._solve.parameters import unknown_everywhere
from vardi.errors import DroppedSamplesWarning, MismatchError, NotIdentifiableError
from vardi.errors._texts import show
from vardi.errors._warn import warn


def debias(
    samples: Samples,
    biases: Biases,
    *,
    source: Labels | None = None,
    counts: Counts | None = None,
    known: Known | None = None,
    clusters: ByRow | None = None,
    series: ByRow | bool | None = None,
    strata: ByRow | None = None,
    population: Population | None = None,
    on_unidentified: OnUnidentified = "raise",
    tol: float = 1e-10,
    max_iterations: int = 100,
) -> DebiasedSample:
    r"""Turn K biased samples of one population into one debiased sample.

    Sample k was drawn from the distribution :math:`\omega_k\,dP / \Omega_k`, where the bias :math:`\omega_k` is known
    and the normaliser :math:`\Omega_k = E_P\,\omega_k` is not. The normalisers solve Vardi's (1985) system, and row i
    gets

    .. math:: \pi_i = \frac{1}{n} \Big/ \sum_l \lambda_l \frac{\omega_l(z_i)}{\Omega_l},\qquad \lambda_l = n_l / n.

    Parameters
    ----------
    samples : mapping from name to rows, list of rows, or one frame (with ``source``)
        Rows are a NumPy array (columns ``x``, or ``x0``, ``x1``, ...), a frame of pandas, Polars or PyArrow, or a lazy
        frame (Polars, DuckDB, Ibis, Spark): then only sums leave the engine, and ``weights`` is a lazy frame.
    biases : mapping from name to bias, or list of biases
        A number, an expression as text, a Polars or narwhals expression, a :class:`~vardi.biases.Bias`, a function of
        the rows, or an array with a value for each row of the pool. A bias whose name no sample has describes a state
        that was not sampled: its normaliser is still estimated. Biases with parameters, such as :func:`vardi.logistic`,
        are estimated too, given a sample whose bias is known, or from what is known of the population; a wholly unknown
        bias can be learned, by :func:`vardi.learned`.
    source : str or array of labels, optional
        For one frame that holds all samples: the column with the label of each row's sample, or the labels themselves.
    counts : array, mapping from name to array, or str, optional
        How many rows each row stands for (frequency weights), or the column with these counts.
    known : mapping, optional
        What is known of the population, as from a census. From a column or an expression to its mean; from a condition
        (text or :class:`~vardi.biases.Bias`) to its share; from a column to the shares of its values (a margin: a
        mapping or a pandas Series), which sum to 1; from the name of a sample to the mean of its bias, on the scale on
        which it is declared. A value is a number, or ``(value, standard error)``, or an
        :class:`~vardi.Estimate`. The weights meet it; it sharpens estimates, and joins samples that overlap does not.
        Where the samples allow, it is tested, and ``fit.known`` has the outcome.
    clusters : str, array, or mapping from name to these, optional
        Rows that depend on one another, such as those of a household, a district or a patient: the column with the
        cluster of each row, or its labels. Equal labels in two samples are one cluster. Every error accounts for it;
        weights and estimates do not change.
    series : str, array, mapping from name to these, or True, optional
        Rows that follow one another in time within each sample, as in a simulation: the column that orders them, or
        True where they are in order. Errors account for their autocorrelation, and no row is thrown away.
    strata : str, array, or mapping from name to these, optional
        Strata within each sample from which a fixed number of rows was drawn independently: errors leave out what
        varies between them. Rates that differ between strata must be declared as a bias.
    population : int, or mapping from name to int, optional
        How many units a sample was drawn from without replacement, where it is a sizeable part of them: errors are then
        those of these units, and 0 for a census.
    on_unidentified : {"raise", "largest"}
        What to do where some samples cannot be compared: raise, or keep the group with the most rows and warn.
    tol : float
        Largest relative error of Vardi's equations, max_k abs(Gamma_k - 1).
    max_iterations : int
        Newton steps after which :class:`~vardi.errors.ConvergenceError` is raised.

    Returns
    -------
    DebiasedSample
        Weights, normalisers, parameters, and what follows from them.

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
    >>> fit = vardi.debias(regions, {"north": "x <= 5", "south": "x > 5"}, known={"north": 0.25})
    >>> fit.probabilities.round(12)
    array([0.125, 0.125, 0.25 , 0.25 , 0.25 ])
    """
    _require_choice(on_unidentified)
    options = Options(on_unidentified, tol, max_iterations)
    depends = Depends(clusters, series, strata, population)
    return fitted(FrameInputs(samples, biases, source, counts, known, depends, options))


def debias_matrix(
    omega: Any,
    source: ArrayLike,
    log: bool = False,
    *,
    counts: ArrayLike | None = None,
    known: Known | None = None,
    clusters: ArrayLike | None = None,
    series: ArrayLike | bool | None = None,
    strata: ArrayLike | None = None,
    population: Population | None = None,
    names: Iterable[Name] | None = None,
    max_in_memory: int = MAX_IN_MEMORY,
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
        block by block in each pass, and need not fit in memory; small ones are read once (see ``max_in_memory``). Where
        biases are windows on a line, and many,
        :class:`~vardi.Windows` stands for a matrix that would not fit. It is read in place, so leave it as it is while
        the fit is in use.
    source : array of int of shape (n,)
        Column of omega that each row's sample was drawn with, 0 to K - 1.
    log : bool
        Whether logs are given: in physics, minus the reduced potentials.
    counts, clusters, series, strata, population, on_unidentified, tol, max_iterations
        As for :func:`debias`, with labels as arrays.
    known : mapping, optional
        What is known of the population, by the names of columns of omega: the mean of such a column, on its scale. A
        column that no row was drawn with can hold any function.
    names : iterable, optional
        Names of the columns; "0", "1", ... by default.
    max_in_memory : int
        How many numbers a matrix that is stored or yielded in blocks may have to be read once and kept in memory: 2**22
        (32 MB) by default. More spares the passes over a larger one that fits, 0 leaves even a small one in place.

    Examples
    --------
    >>> import numpy as np
    >>> import vardi
    >>> fit = vardi.debias_matrix(np.array([[1, 1], [1, 0], [1, 1.0]]), [0, 0, 1])
    >>> fit.weights
    array([0.75, 1.5 , 0.75])
    """
    _require_choice(on_unidentified)
    options = Options(on_unidentified, tol, max_iterations)
    depends = Depends(clusters, series, strata, population)
    names = None if names is None else tuple(names)
    matrix = as_matrix(omega, source, max_in_memory)
    return fitted(MatrixInputs(matrix, source, log, names, counts, known, depends, options))


def identify(
    samples: Samples,
    biases: Biases,
    *,
    source: Labels | None = None,
    counts: Counts | None = None,
    known: Known | None = None,
) -> Verdict:
    """Return whether the samples can be compared with one another, before any solve.

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
    >>> census = {"low": 0.4}  # of the population
    >>> bool(vardi.identify({"low": low, "high": high}, {"low": "x <= 5", "high": "x >= 6"}, known=census))
    True
    """
    return verdict_of(FrameInputs(samples, biases, source, counts, known).opened().prepare())


def identify_with_notes(
    samples: Samples, biases: Biases, *, source: Labels | None, counts: Counts | None, known: Known | None
) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict, and what is odd about the declared biases."""
    prepared = FrameInputs(samples, biases, source, counts, known).opened().prepare()
    verdict = verdict_of(prepared)
    return verdict, prepared.data.notes(verdict, prepared.sizes)


def _require_choice(on_unidentified: str) -> None:
    if on_unidentified not in ("raise", "largest"):
        raise MismatchError(f"on_unidentified is {on_unidentified!r}. Give 'raise' or 'largest'.")


def fitted(
    inputs: FrameInputs | MatrixInputs,
    near: Mapping[Name, float] | None = None,
    among: NDArray[np.bool_] | None = None,
) -> DebiasedSample:
    """Debias all rows, or some in memory, starting near given log normalisers if any."""
    rows = inputs.opened()
    if among is not None:
        assert isinstance(rows, RowsInMemory)
        rows = rows.among(among)
    fit = DebiasedSample(solve(rows, inputs.options, near), inputs)
    if fit.solved.prepared.known:
        warn_of_contradiction(fit.known)
    if isinstance(inputs, FrameInputs) and rows.in_memory and among is None:
        warn_of_shared_units(inputs.samples, rows.pool)
    return fit


def solve(rows: UserRows, options: Options, near: Mapping[Name, float] | None = None) -> Solved:
    """Return the solution at the rows, or at those of the largest group of samples, if that was asked for."""
    prepared = rows.prepare()
    if not prepared.is_plain:
        return _solve_joint(prepared, options, near)
    found = solve_plain(prepared.rows, prepared.names, options.tol, options.max_iterations, near)
    if isinstance(found, Solution):
        weights, shift = prepared.rows.settled(found.u).weights(found.u)
        return rows.solved(prepared, JointFit(replace(shifted(found, shift), weights=weights)))
    verdict = rows.explained(found)
    if options.on_unidentified == "raise":
        raise verdict.error()
    return solve(rows.of_samples(_largest_group(verdict, prepared.sizes)), options, near)


def _solve_joint(prepared: Prepared, options: Options, near: Mapping[Name, float] | None) -> Solved:
    _refuse_largest(options.on_unidentified, known=bool(prepared.known))
    problem = _problem(prepared, prepared.data.overlap(prepared), options, near)
    return prepared.data.solved(prepared, problem.solve())


def _problem(
    prepared: Prepared, verdict: Verdict, options: Options, near: Mapping[Name, float] | None = None
) -> JointProblem:
    """Return what determines parameters and multipliers of known values, given the verdict on the overlap."""
    tol, most = options.tol, options.max_iterations
    return JointProblem(prepared.joint, prepared.names, prepared.known, prepared.values, verdict, tol, most, near)


def verdict_of(prepared: Prepared) -> Verdict:
    """Judge samples, solving only what that takes."""
    verdict, joint, names = prepared.data.overlap(prepared), prepared.joint, prepared.names
    if prepared.is_plain:
        return verdict
    sampled = [name for name, size in zip(names, joint.sizes, strict=True) if size > 0]
    if not prepared.known:
        if len(joint.families) == len(sampled) and verdict.identified:
            return as_identified(verdict, str(unknown_everywhere(sampled, verdict)))
        return verdict
    try:
        joining = _problem(prepared, verdict, Options(tol=1e-6)).joining()
    except NotIdentifiableError as error:
        if error.verdict is None:
            raise
        return as_identified(error.verdict, str(error))
    return joined_verdict(verdict, joining)


def _refuse_largest(on_unidentified: str, *, known: bool) -> None:
    """Refuse to leave samples out if known values or parameters concern all of them."""
    if on_unidentified != "largest":
        return
    fact, remedy = (
        (
            "but known values describe the whole population",
            "Give known values that join the groups, or debias the samples of one group without them.",
        )
        if known
        else ("and with them information about the parameters", "Debias the samples of one group.")
    )
    raise MismatchError(f"on_unidentified='largest' leaves samples out, {fact}. {remedy}")


def _largest_group(verdict: Verdict, sizes: Mapping[Name, float]) -> set[Name]:
    """Return the samples of the group with the most rows, and warn of the others."""
    largest = max(verdict.groups, key=lambda group: sum(sizes[name] for name in group))
    dropped = [name for group in verdict.groups if group is not largest for name in group]
    rows = sum(sizes[name] for name in dropped)
    warn(DroppedSamplesWarning(f"Left out {show(dropped)} with {rows:g} rows. {verdict.message}"))
    return set(largest)

"""The functions that users call, and what they do: inputs -> rows -> verdict -> solution -> DebiasedSample.

The arguments of a call are kept, so that it can be repeated with more rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from vardi._fit.capabilities import refusal
from vardi._fit.rows_in_memory import RowsInMemory
from vardi._fit.sample import DebiasedSample
from vardi._fit.solved import Prepared, Solved
from vardi._inputs.by_row import concat, stacked
from vardi._inputs.dependence import Depends, as_dependence
from vardi._inputs.frames import any_lazy, as_frame
from vardi._inputs.given import Biases, ByRow, Counts, Known, Labels, Population, Samples
from vardi._inputs.pool import Name, Pool, as_named, as_pool, matrix_pool
from vardi._inputs.shared_units import warn_of_shared_units
from vardi._rows import Windows
from vardi._rows.stored import MAX_IN_MEMORY, Reader, as_reader
from vardi._solve.identify import Verdict, joined_verdict
from vardi._solve.model import JointProblem
from vardi._solve.newton import JointFit, Solution, shifted, solve_plain
from vardi._solve.parameters import unknown_everywhere
from vardi._types import Floats
from vardi.biases import LearnedBias, ValuesBias, WindowBias, as_bias
from vardi.biases._kinds import factors_of, parts_of
from vardi.biases._values import as_array
from vardi.errors import (
    ContradictedKnownWarning,
    DroppedSamplesWarning,
    EmptySampleError,
    MismatchError,
    NotIdentifiableError,
    VardiWarning,
    suggest,
)
from vardi.errors._texts import show
from vardi.errors._warn import warn

if TYPE_CHECKING:
    from vardi._fit.solved import AnyRows
    from vardi._inputs.lazy_pool import OpenFrames
    from vardi.biases._constructors import BiasLike

OnUnidentified = Literal["raise", "largest"]

Matrix: TypeAlias = np.ndarray | sparse.csr_array | Reader | Windows
"""A matrix of biases: in memory, sparse, stored or yielded in blocks, or as windows."""


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
        frame (Polars, DuckDB, Ibis, Spark): then only sums leave the engine, unless a model is to see the rows, and
        ``weights`` is a lazy frame.
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
    options = Options(on_unidentified, tol, max_iterations)
    depends = Depends(clusters, series, strata, population)
    return fitted(FrameInputs(samples, biases, source, counts=counts, known=known, depends=depends, options=options))


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
    options = Options(on_unidentified, tol, max_iterations)
    depends = Depends(clusters, series, strata, population)
    names = None if names is None else tuple(names)
    matrix = as_matrix(omega, source, max_in_memory)
    return fitted(
        MatrixInputs(matrix, source, log, names, counts=counts, known=known, depends=depends, options=options)
    )


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
    return verdict_of(FrameInputs(samples, biases, source, counts=counts, known=known).opened().prepare())


def identify_with_notes(
    samples: Samples, biases: Biases, *, source: Labels | None, counts: Counts | None, known: Known | None
) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict, and what is odd about the declared biases."""
    prepared = FrameInputs(samples, biases, source, counts=counts, known=known).opened().prepare()
    verdict = verdict_of(prepared)
    return verdict, prepared.data.notes(verdict, prepared.sizes)


def fitted(
    inputs: FrameInputs | MatrixInputs, near: Mapping[Name, float] | None = None, among: NDArray[np.bool_] | None = None
) -> DebiasedSample:
    """Debias all rows, or some in memory, starting near given log normalisers if any."""
    rows = inputs.opened()
    if among is not None:
        assert isinstance(rows, RowsInMemory)
        rows = rows.among(among)
    fit = DebiasedSample(solve(rows, inputs.options, near), inputs)
    check = fit.known if fit.solved.prepared.known.labels else None
    if check is not None and check.contradicted:
        said = f"{check.verdict} The weights meet the known values nevertheless. fit.known has the details."
        warn(ContradictedKnownWarning(said))
    if isinstance(inputs, FrameInputs) and rows.in_memory and among is None:
        warn_of_shared_units(inputs.samples, rows.pool)
    return fit


def solve(rows: AnyRows, options: Options, near: Mapping[Name, float] | None = None) -> Solved:
    """Return the solution at the rows, or at those of the largest group of samples, if that was asked for."""
    prepared = rows.prepare()
    if not prepared.is_plain:
        if options.on_unidentified == "largest":  # known values or parameters concern all samples
            raise MismatchError(
                "on_unidentified='largest' leaves samples out, but known values describe the whole population. Give "
                "known values that join the groups, or debias the samples of one group without them."
                if prepared.known
                else "on_unidentified='largest' leaves samples out, and with them information about the parameters. "
                "Debias the samples of one group."
            )
        problem = _problem(prepared, prepared.data.overlap(prepared), options, near)
        return prepared.data.solved(prepared, problem.solve())
    found = solve_plain(prepared.rows, prepared.names, options.tol, options.max_iterations, near)
    if isinstance(found, Solution):
        weights, shift = prepared.rows.settled(found.u).weights(found.u)
        return rows.solved(prepared, JointFit(replace(shifted(found, shift), weights=weights)))
    verdict = rows.explained(found)
    if options.on_unidentified == "raise":
        raise verdict.error()
    return solve(rows.of_samples(_largest_group(verdict, prepared.sizes)), options, near)


def _problem(
    prepared: Prepared, verdict: Verdict, options: Options, near: Mapping[Name, float] | None = None
) -> JointProblem:
    """Return what determines parameters and multipliers of known values, given the verdict on the overlap."""
    values, tol, most = np.asarray(prepared.joint.few.known.values), options.tol, options.max_iterations
    return JointProblem(prepared.joint, prepared.names, prepared.known, values, verdict, tol, most, near)


def verdict_of(prepared: Prepared) -> Verdict:
    """Judge samples, solving only what that takes."""
    verdict, joint, names = prepared.data.overlap(prepared), prepared.joint, prepared.names
    sampled = [name for name, size in zip(names, joint.sizes, strict=True) if size > 0]
    if not prepared.known:
        if len(joint.families) == len(sampled) and verdict.identified:
            return replace(verdict, identified=False, message=str(unknown_everywhere(sampled, verdict)))
        return verdict
    try:
        joining = _problem(prepared, verdict, Options(tol=1e-6)).joining()
    except NotIdentifiableError as error:
        if error.verdict is None:
            raise
        return replace(error.verdict, identified=False, message=str(error))
    return joined_verdict(verdict, joining)


def _largest_group(verdict: Verdict, sizes: Mapping[Name, float]) -> set[Name]:
    """Return the samples of the group with the most rows, and warn of the others."""
    largest = max(verdict.groups, key=lambda group: sum(sizes[name] for name in group))
    dropped = [name for group in verdict.groups if group is not largest for name in group]
    rows = sum(sizes[name] for name in dropped)
    warn(DroppedSamplesWarning(f"Left out {show(dropped)} with {rows:g} rows. {verdict.message}"))
    return set(largest)


@dataclass(frozen=True)
class Options:
    """How a fit is solved: the arguments of the same names of :func:`vardi.debias`."""

    on_unidentified: OnUnidentified = "raise"
    tol: float = 1e-10
    max_iterations: int = 100

    def __post_init__(self) -> None:
        if self.on_unidentified not in ("raise", "largest"):
            raise MismatchError(f"on_unidentified is {self.on_unidentified!r}. Give 'raise' or 'largest'.")


NOTHING, DEFAULT = Depends(), Options()


@dataclass(frozen=True, eq=False, kw_only=True)
class Inputs:
    """The arguments that all functions have."""

    counts: Counts | None = None
    known: Known | None = None
    depends: Depends = NOTHING
    options: Options = DEFAULT

    def refuse_given_by_row(self, remedy: str) -> None:
        """Refuse what was given row by row, and not as the name of a column: it is unknown for new rows."""
        for what, value in {"counts": self.counts, **self.depends._asdict()}.items():
            if what != "population" and value is not None and not isinstance(value, bool | str):
                raise MismatchError(
                    f"{what}= was given as an array for the rows of the fit, so it is unknown for new rows. {remedy}."
                )


@dataclass(frozen=True, eq=False)
class FrameInputs(Inputs):
    """The arguments of :func:`vardi.debias`."""

    samples: Samples
    biases: Biases
    source: Labels | None = None

    def opened(self) -> AnyRows:
        """Return the rows: in an engine if one of them is a lazy frame and no bias is to be learned, else in memory."""
        if not any_lazy(self.samples):
            return self._opened_in_memory(self.samples)
        frames = self._frames()
        if frames.learns:
            return self._opened_in_memory(frames.read(self.depends))
        from vardi._fit.rows_in_engine import RowsInEngine  # what asks engines is loaded only for them

        return RowsInEngine.of_frames(frames, self)

    def _frames(self) -> OpenFrames:
        from vardi._inputs.lazy_pool import open_frames

        return open_frames(self.samples, self.biases, source=self.source, counts=self.counts)

    def _opened_in_memory(self, samples: object) -> RowsInMemory:
        pool = as_pool(samples, self.biases, source=self.source, counts=self.counts)
        pool = replace(pool, dependence=as_dependence(pool, self.depends))
        if window := next((bias for bias in pool.biases if isinstance(bias, WindowBias)), None):
            from vardi._fit.truncation import TruncatedRows

            return TruncatedRows.of_window(pool, window, self.known)
        parts = [parts_of(bias) for bias in pool.biases]
        if unknown := [k for k, own in enumerate(parts) if any(isinstance(part, LearnedBias) for part in own)]:
            from vardi._fit.learned import opened_with_learned

            return opened_with_learned(pool, unknown, self.known, self.options)
        return RowsInMemory.of_pool(pool, self.known)

    def solved_in_memory(self, near: Mapping[Name, float]) -> Solved:
        """Return the fit of lazy frames with their rows in memory."""
        rows = self._opened_in_memory(self._frames().read(self.depends))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VardiWarning)  # the fit in the engine has warned
            return solve(rows, self.options, near)

    def updated(self, samples: Samples, biases: Biases | None, pool: Pool) -> FrameInputs:
        """Return the inputs with further rows."""
        self.refuse_given_by_row("Name a column of the frames instead, which new rows have too")
        for name, bias in as_named(self.biases, "biases").items():
            if any(isinstance(part, ValuesBias) for part in factors_of(as_bias(bias))):
                raise MismatchError(
                    f"The bias of {str(name)!r} was given by its values on the rows of the fit, so it is unknown on "
                    "new rows. Give it as an expression or a function of the rows, or debias all rows together."
                )
        if self.source is not None:
            return self._with_labelled(samples, biases, pool)
        given, own = as_named(samples, "samples"), as_named(self.samples, "samples")
        by_name = _joined_biases(given, as_named(self.biases, "biases"), biases)
        joined = {name: stacked(own[name], rows) if name in own else rows for name, rows in given.items()}
        return replace(self, samples={**own, **joined}, biases=by_name)

    def _with_labelled(self, samples: Samples, biases: Biases | None, pool: Pool) -> FrameInputs:
        """Return the inputs of one labelled frame with further rows and their labels."""
        own, is_lazy = as_named(self.biases, "biases"), any_lazy(self.samples) or any_lazy(samples)
        by_sample = isinstance(samples, Mapping | list | tuple)
        if is_lazy and by_sample:
            raise MismatchError(
                f"The samples of the fit are one lazy frame, with their names in {self.source!r}, but the new rows "
                "were given by sample. Give them as one such frame."
            )
        if is_lazy or (isinstance(self.source, str) and not by_sample):  # the new rows have the column of labels too
            given = own if is_lazy else dict.fromkeys(as_frame(samples).column(str(self.source)).tolist())
            return replace(self, samples=stacked(self.samples, samples), biases=_joined_biases(given, own, biases))
        new = as_named(samples, "samples")
        by_name = _joined_biases(new, own, biases)
        rows = concat([as_frame(rows) for rows in new.values()]).native
        names = (name for name, rows in new.items() for _ in range(len(as_frame(rows))))
        labels = np.fromiter(chain((pool.names[k] for k in pool.source), names), object)
        return replace(self, samples=stacked(self.samples, rows), biases=by_name, source=labels)


@dataclass(frozen=True, eq=False)
class MatrixInputs(Inputs):
    """The arguments of :func:`vardi.debias_matrix`."""

    omega: Matrix
    source: ArrayLike
    log: bool = False
    names: tuple[Name, ...] | None = None

    def opened(self) -> AnyRows:
        """Return the matrix as rows."""
        pool = matrix_pool(self.omega.shape, self.source, self.counts, self.names)
        pool = replace(pool, dependence=as_dependence(pool, self.depends))
        return RowsInMemory.of_pool(pool, self.known, self.omega, log=self.log)

    def updated(self, samples: Samples, biases: Biases | None, pool: Pool) -> MatrixInputs:
        """Return the inputs with further rows of the matrix, and further columns."""
        if isinstance(self.omega, Reader):
            raise refusal("update", "blocks")
        self.refuse_given_by_row("Debias all rows together")
        given = as_named(samples, "samples")
        named = _joined_biases(given, dict.fromkeys(pool.names, 1), biases)
        new = {name: values for name, values in named.items() if name not in pool.names}
        pieces = {name: _piece(name, rows, self.omega) for name, rows in given.items()}
        source = np.repeat([list(named).index(name) for name in pieces], [piece.shape[0] for piece in pieces.values()])
        if isinstance(self.omega, Windows):
            x, low, high = self.omega.x, self.omega.low, self.omega.high
            ends = np.array([_ends(name, window) for name, window in new.items()]).reshape(-1, 2)
            low, high = np.append(low, ends[:, 0]), np.append(high, ends[:, 1])
            omega: Matrix = Windows(np.concatenate([x, *pieces.values()]), low, high)
        else:
            of = sparse if sparse.issparse(self.omega) else np
            tall = of.vstack([self.omega, *pieces.values()])
            wide = of.hstack([tall, *(_column(name, values, tall.shape[0]) for name, values in new.items())])
            omega = sparse.csr_array(wide) if sparse.issparse(wide) else wide
        joined = np.concatenate([np.asarray(self.source), source])
        return replace(self, omega=omega, source=joined, names=tuple(named))


def as_matrix(omega: object, source: ArrayLike, max_in_memory: int) -> Matrix:
    """Return a matrix of numbers: an array, a sparse array, a reader of blocks if it is large, or windows."""
    if isinstance(omega, Windows):
        return omega
    matrix: np.ndarray | sparse.csr_array | Reader
    if sparse.issparse(omega):
        matrix = sparse.csr_array(omega)  # rows cannot be taken from every format
    elif (reader := as_reader(omega, np.size(source))) is not None:
        matrix = reader.whole() if 0 < reader.shape[0] * reader.shape[1] <= max_in_memory else reader
    else:
        matrix = as_array(omega, "omega", "a matrix with a column for each bias")
    if matrix.dtype.kind not in "fiub":
        raise MismatchError(f"omega holds {matrix.dtype}, but biases are numbers. Give a matrix of floats.")
    return matrix


def _joined_biases(
    given: Mapping[Name, object], own: Mapping[Name, BiasLike], biases: Biases | None
) -> dict[Name, BiasLike]:
    """Return the biases of all samples; raise if a sample has none, or a second one."""
    if not given:
        raise EmptySampleError("update() was given no rows. Give new rows by the name of their sample.")
    new = {} if biases is None else as_named(biases, "biases")
    twice = [name for name in new if name in own]
    if twice:
        raise MismatchError(
            f"The fit already has a bias for {show(twice)}, and update() adds rows without changing biases. Leave it "
            "out of biases=, or debias all rows together."
        )
    unknown = [name for name in given if name not in own and name not in new]
    if unknown:
        raise MismatchError(
            f"The fit has no sample {str(unknown[0])!r}: its samples are {show(own)}.{suggest(unknown[0], own)} Give "
            "the bias of a new sample in biases=."
        )
    return {**own, **new}


def _piece(name: Name, rows: object, omega: Matrix) -> np.ndarray | sparse.csr_array:
    """Return new rows in the form of the matrix; raise if they do not fit it."""
    if isinstance(omega, Windows):
        piece = as_array(rows, f"The rows of {str(name)!r}").astype(np.float64)
        wanted, fits = "(m,), the value of each row", piece.ndim == 1
    else:
        piece = sparse.csr_array(rows) if sparse.issparse(omega) else as_array(rows, f"The rows of {str(name)!r}")
        K = omega.shape[1]
        wanted, fits = f"(m, {K}), a column for each bias of the fit", piece.ndim == 2 and piece.shape[1] == K
    if not fits or not piece.shape[0]:
        raise MismatchError(f"The new rows of {str(name)!r} have shape {piece.shape}. Give an array of shape {wanted}.")
    return piece


def _column(name: Name, values: object, n: int) -> np.ndarray:
    column = as_array(values, f"The bias of {str(name)!r}")
    if column.shape != (n,):
        raise MismatchError(
            f"The bias of {str(name)!r} has shape {column.shape}, but there are {n} rows with the new ones. Give its "
            "value on each row of the fit, then on each new row."
        )
    return column[:, None]


def _ends(name: Name, window: object) -> Floats:
    ends = np.ravel(np.asarray(window, np.float64))
    if ends.shape != (2,):
        raise MismatchError(f"The window of {str(name)!r} has {len(ends)} ends. Give its lower and its upper end.")
    return ends

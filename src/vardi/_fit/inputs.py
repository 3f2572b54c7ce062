"""The inputs of a fit, samples and biases or a matrix of biases, kept so that it can be repeated with more rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from vardi._fit.capabilities import refusal
from vardi._fit.rows_in_memory import RowsInMemory
from vardi._fit.user_rows import UserRows
from vardi._inputs.dependence import as_dependence
from vardi._inputs.frames import as_frame, concat, stacked
from vardi._inputs.frames.frame import any_lazy
from vardi._inputs.given import Biases, ByRow, Counts, Known, Labels, Population, Samples
from vardi._inputs.pool import Name, Pool, as_named, as_pool, matrix_pool
from vardi._rows import Windows
from vardi._rows.stored import Reader, as_reader
from vardi.biases import LearnedBias, ValuesBias, WindowBias, as_bias
from vardi.biases._kinds import factors_of, parts_of
from vardi.biases._values import as_array
from vardi.errors import EmptySampleError, MismatchError, suggest
from vardi.errors._texts import show

if TYPE_CHECKING:
    from vardi.biases._constructors import BiasLike


OnUnidentified = Literal["raise", "largest"]


@dataclass(frozen=True)
class Options:
    """How a fit is solved: the arguments of the same names of :func:`vardi.debias`."""

    on_unidentified: OnUnidentified = "raise"
    tol: float = 1e-10
    max_iterations: int = 100


class Depends(NamedTuple):
    """How rows depend on one another, as given by the user."""

    clusters: ByRow | None = None
    series: ByRow | bool | None = None
    strata: ByRow | None = None
    population: Population | None = None


NOTHING, DEFAULT = Depends(), Options()

Matrix: TypeAlias = np.ndarray | sparse.csr_array | Reader | Windows
"""A matrix of biases: in memory, sparse, stored or yielded in blocks, or as windows."""


@dataclass(frozen=True, eq=False)
class FrameInputs:
    """The arguments of :func:`vardi.debias`."""

    samples: Samples
    biases: Biases
    source: Labels | None = None
    counts: Counts | None = None
    known: Known | None = None
    depends: Depends = NOTHING
    options: Options = DEFAULT

    def opened(self) -> UserRows:
        """Return the rows: in an engine if one of them is a lazy frame, else in memory."""
        given = {"source": self.source, "counts": self.counts}
        if any_lazy(self.samples):
            from vardi._fit.rows_in_engine import RowsInEngine  # what asks engines is loaded only for them
            from vardi._inputs.lazy_pool import open_frames

            return RowsInEngine.of_frames(open_frames(self.samples, self.biases, **given), self.known, self.depends)
        pool = as_pool(self.samples, self.biases, **given)
        pool = replace(pool, dependence=as_dependence(pool, *self.depends))
        if window := next((bias for bias in pool.biases if isinstance(bias, WindowBias)), None):
            from vardi._fit.truncation import TruncatedRows

            return TruncatedRows.of_window(pool, window, self.known)
        if any(isinstance(part, LearnedBias) for bias in pool.biases for part in parts_of(bias)):
            from vardi._fit.learned import opened_with_learned

            return opened_with_learned(pool, self.known, self.options)
        return RowsInMemory.of_pool(pool, self.known)

    def updated(self, samples: Samples, biases: Biases | None, pool: Pool) -> FrameInputs:
        """Return the inputs with further rows."""
        _refuse_given_by_row(self.counts, self.depends, lambda given: isinstance(given, str), BY_COLUMN)
        for name, bias in as_named(self.biases, "biases").items():
            _refuse_values(name, bias)
        if self.source is not None:
            return self._with_labelled(samples, biases, pool)
        given, own = as_named(samples, "samples"), as_named(self.samples, "samples")
        by_name = _joined_biases(given, as_named(self.biases, "biases"), biases)
        joined = {name: stacked(own[name], given[name]) if name in given else own[name] for name in own}
        joined |= {name: rows for name, rows in given.items() if name not in own}
        return replace(self, samples=joined, biases=by_name)

    def _with_labelled(self, samples: Samples, biases: Biases | None, pool: Pool) -> FrameInputs:
        """Return the inputs of one labelled frame with further rows and their labels."""
        if any_lazy(self.samples) or any_lazy(samples):
            return self._with_lazy(samples, biases)
        if isinstance(self.source, str) and not isinstance(samples, Mapping | list | tuple):
            labels = np.asarray(as_frame(samples).column(self.source))
            rows, given = samples, dict.fromkeys(labels.tolist(), samples)
        else:
            given = as_named(samples, "samples")
            _require_rows(given)
            rows = concat([as_frame(own) for own in given.values()]).native
            labels = _labels(name for name, own in given.items() for _ in range(len(as_frame(own))))
        by_name = _joined_biases(given, as_named(self.biases, "biases"), biases)
        own = _labels(pool.names[k] for k in pool.source)
        joined = np.concatenate([own, labels.astype(object)])
        return replace(self, samples=stacked(self.samples, rows), biases=by_name, source=joined)

    def _with_lazy(self, samples: Samples, biases: Biases | None) -> FrameInputs:
        """Return the inputs of one labelled lazy frame with another: its labels are read when it is solved."""
        if isinstance(samples, Mapping | list | tuple):
            raise MismatchError(
                f"The samples of the fit are one lazy frame, with their names in {self.source!r}, but the new rows "
                "were given by sample. Give them as one such frame."
            )
        own = as_named(self.biases, "biases")
        return replace(self, samples=stacked(self.samples, samples), biases=_joined_biases(own, own, biases))


@dataclass(frozen=True, eq=False)
class MatrixInputs:
    """The arguments of :func:`vardi.debias_matrix`."""

    omega: Matrix
    source: ArrayLike
    log: bool = False
    names: tuple[Name, ...] | None = None
    counts: Counts | None = None
    known: Known | None = None
    depends: Depends = NOTHING
    options: Options = DEFAULT

    def opened(self) -> UserRows:
        """Return the matrix as rows."""
        pool = matrix_pool(self.omega, self.source, self.counts, self.names)
        pool = replace(pool, dependence=as_dependence(pool, *self.depends))
        return RowsInMemory.of_pool(pool, self.known, self.omega, log=self.log)

    def updated(self, samples: Samples, biases: Biases | None, pool: Pool) -> MatrixInputs:
        """Return the inputs with further rows of the matrix, and further columns."""
        if isinstance(self.omega, Reader):
            raise refusal("update", "blocks")
        _refuse_given_by_row(self.counts, self.depends, lambda given: given is True, BY_MATRIX)
        given, names = as_named(samples, "samples"), pool.names
        _require_rows(given)
        new = {} if biases is None else as_named(biases, "biases")
        named = [*names, *new]
        _joined_biases(given, dict.fromkeys(names, 1), biases)
        pieces = {name: _piece(name, rows, self.omega) for name, rows in given.items()}
        lengths = [len(piece) if isinstance(piece, np.ndarray) else piece.shape[0] for piece in pieces.values()]
        source = np.repeat([named.index(name) for name in pieces], lengths)
        if isinstance(self.omega, Windows):
            low, high = (
                np.append(ends, [_ends(name, window)[j] for name, window in new.items()])
                for j, ends in enumerate((self.omega.low, self.omega.high))
            )
            omega: Matrix = Windows(np.concatenate([self.omega.x, *pieces.values()]), low, high)
        else:
            is_sparse = sparse.issparse(self.omega)
            rows = [self.omega, *pieces.values()]
            tall = sparse.vstack(rows, format="csr") if is_sparse else np.concatenate(rows)
            columns = [_column(name, values, tall.shape[0]) for name, values in new.items()]
            wide = [tall, *columns]
            omega = sparse.csr_array(sparse.hstack(wide)) if is_sparse else np.hstack(wide)
        joined = np.concatenate([np.asarray(self.source), source])
        return replace(self, omega=omega, source=joined, names=tuple(named))


def as_matrix(omega: object, source: ArrayLike, max_in_memory: int) -> Matrix:
    """Return a matrix of numbers: an array, a sparse array, a reader of blocks if it is large, or windows."""
    if isinstance(omega, Windows):
        return omega
    reader = None if sparse.issparse(omega) else as_reader(omega, np.size(source))
    matrix: np.ndarray | sparse.csr_array | Reader
    if reader is not None:
        matrix = reader.whole() if 0 < reader.shape[0] * reader.shape[1] <= max_in_memory else reader
    elif sparse.issparse(omega):
        matrix = sparse.csr_array(omega)  # rows cannot be taken from every format
    else:
        matrix = as_array(omega, "omega", "a matrix with a column for each bias")
    if matrix.dtype.kind not in "fiub":
        raise MismatchError(f"omega holds {matrix.dtype}, but biases are numbers. Give a matrix of floats.")
    return matrix


BY_COLUMN = "Name a column of the frames instead, which new rows have too"
BY_MATRIX = "Debias all rows together"


def _joined_biases(
    given: Mapping[Name, object], own: Mapping[Name, BiasLike], biases: Biases | None
) -> dict[Name, BiasLike]:
    """Return the biases of all samples; raise if a sample has none, or a second one."""
    _require_rows(given)
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


def _require_rows(given: Mapping[Name, object]) -> None:
    if not given:
        raise EmptySampleError("update() was given no rows. Give new rows by the name of their sample.")


def _refuse_given_by_row(
    counts: Counts | None, depends: Depends, extends: Callable[[object], bool], remedy: str
) -> None:
    """Refuse what was given row by row: it is unknown for new rows."""
    given = {"counts": counts, **{what: getattr(depends, what) for what in ("clusters", "series", "strata")}}
    for what, value in given.items():
        if value is not None and value is not False and value is not True and not extends(value):
            raise MismatchError(
                f"{what}= was given as an array for the rows of the fit, so it is unknown for new rows. {remedy}."
            )


def _refuse_values(name: Name, bias: BiasLike) -> None:
    found = as_bias(bias)
    if any(isinstance(part, ValuesBias) for part in factors_of(found)):
        raise MismatchError(
            f"The bias of {str(name)!r} was given by its values on the rows of the fit, so it is unknown on new "
            "rows. Give it as an expression or a function of the rows, or debias all rows together."
        )


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


def _ends(name: Name, window: ArrayLike) -> Sequence[float]:
    ends = np.ravel(np.asarray(window, np.float64))
    if ends.shape != (2,):
        raise MismatchError(f"The window of {str(name)!r} has {len(ends)} ends. Give its lower and its upper end.")
    return ends.tolist()


def _labels(names: Iterable[Name]) -> np.ndarray:
    """Return labels as an array of objects, each as it is."""
    found = list(names)
    return np.fromiter(found, dtype=object, count=len(found))

"""Whatever holds rows, behind one interface: NumPy arrays, and the eager frames that narwhals takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

import vardi._narwhals as nw
from vardi._inputs.column_types import types_in, types_of_arrays
from vardi._inputs.given import Formula, bias_of
from vardi._inputs.library_expressions import Eager, EagerTarget, Series, as_narwhals, evaluate_expression, of_sample
from vardi._types import Integers
from vardi.biases import Bias, ExpressionBias, FrameExpressionBias, FunctionBias, ValuesBias
from vardi.biases._compile import NumpyTarget, compile_node
from vardi.biases._kinds import factors_of
from vardi.biases._learned import LearnedValues
from vardi.biases._nodes import Column, to_text
from vardi.biases._values import (
    as_array,
    as_numbers,
    belongs_elsewhere,
    coded,
    index_of,
    is_missing,
    read_only,
    require_columns,
)
from vardi.errors import InvalidBiasError, MismatchError, MissingValuesError, VardiError, number_of_rows
from vardi.errors._texts import LISTED, lines_of

Native: TypeAlias = Any
"""Rows, or a column of them, in the library and the form that the user gave."""
ACCEPTED = "a NumPy array, or a frame of pandas, Polars, PyArrow or another library that narwhals supports"


def as_frame(rows: object) -> Frame:
    """Return rows behind one interface.

    Parameters
    ----------
    rows : array or frame
        A NumPy array has the column ``x`` (one dimension), ``x0``, ``x1``, ... (two) or those of its fields.

    Examples
    --------
    >>> import numpy as np
    >>> from vardi._inputs.frames import as_frame
    >>> from vardi.biases import where
    >>> frame = as_frame(np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]))
    >>> frame.columns
    ('x0', 'x1')
    >>> frame.evaluate([where("x0 <= 2 and x1 > 5"), where("x1 / 2")])
    [array([False,  True, False]), array([2.5, 3. , 3.5])]
    """
    if isinstance(rows, Frame):
        return rows
    if isinstance(rows, np.ndarray):
        return Frame(rows)
    try:
        data: Any = nw.from_native(rows, allow_series=True)
    except TypeError:
        data = None
    except nw.exceptions.DuplicateError:
        raise _same_name(list(getattr(rows, "column_names", getattr(rows, "columns", ())))) from None
    if isinstance(data, nw.DataFrame | nw.Series):
        return NarwhalsFrame(rows, data)
    if isinstance(data, nw.LazyFrame):
        raise MismatchError(
            f"Rows were given as a lazy frame ({type(rows).__module__}.{type(rows).__qualname__}), but this needs "
            "rows in memory. Collect it first."
        )
    read = "Read the file first, as by pandas.read_csv. " if isinstance(rows, str | os.PathLike) else ""
    raise MismatchError(f"Rows cannot be a {type(rows).__qualname__}. {read}Give {ACCEPTED}.")


class Frame:
    """Rows in memory, with named columns: those of a NumPy array, unless a subclass holds them in another way.

    Attributes
    ----------
    native
        The rows as the user gave them.
    is_read : bool
        Whether they were read from an engine, which keeps no order of rows.
    """

    native: Native
    library: str | None = None  # of frames, if the rows are one
    is_read = False

    def __init__(self, native: np.ndarray) -> None:
        self.native = native = as_array(native, "Rows")
        if native.ndim not in (1, 2) or (native.dtype.names and native.ndim != 1):
            raise MismatchError(
                f"Rows were given as an array of {native.ndim} dimensions. Give one (a column) or two (rows by "
                "columns)."
            )
        if native.dtype.names:
            self._arrays = {name: native[name] for name in native.dtype.names}
        elif native.ndim == 1:
            self._arrays = {"x": native}
        else:
            self._arrays = {f"x{place}": native[:, place] for place in range(native.shape[1])}

    def __len__(self) -> int:
        return len(self.native)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._arrays)

    def column(self, name: str) -> np.ndarray:
        """Return one column as an array."""
        require_columns((name,), self._arrays)
        return self._arrays[name]

    def take(self, indices: ArrayLike) -> Native:
        """Return the rows at some positions, in the library and the form that the user gave."""
        return self.native[np.asarray(indices)]

    def wrap(self, values: np.ndarray, *names: str) -> Native:
        """Return numbers by row as a series, or columns of them as a frame, of the user's library, with its index."""
        return read_only(values)

    def drop(self, *names: str) -> Frame:
        """Return the frame without some columns."""
        require_columns(names, self._arrays)
        if self.native.dtype.names:
            return Frame(self.native[[field for field in self.columns if field not in names]])
        places = [self.columns.index(name) for name in names]
        return Frame(np.delete(np.atleast_2d(self.native.T).T, places, axis=1))

    def coded(self, name: str) -> tuple[Integers, list[Hashable]]:
        """Return a column as codes in order of first appearance, and the distinct values."""
        return coded(self.column(name))

    def is_text(self, name: str) -> bool:
        """Return whether a column is declared as one of texts."""
        return False

    def values_at(self, name: str, rows: Integers) -> np.ndarray:
        """Return the values of a column on some rows."""
        return self.column(name)[rows]

    def kind(self, name: str) -> str:
        """Return the kind of a column's array, as NumPy calls it."""
        return self.column(name).dtype.kind

    def types(self, columns: Collection[str]) -> dict[str, str]:
        """Return the types of some columns as texts."""
        return types_of_arrays({name: array for name, array in self._arrays.items() if name in columns})

    def gaps(self, name: str) -> NDArray[np.bool_]:
        """Return where a column has a missing or infinite value."""
        return gaps_in(self.column(name))

    def categories(self, name: str) -> list[Hashable] | None:
        """Return the values of a categorical column in their order; None for any other column."""
        return None

    def _target(self, names: Sequence[str]) -> NumpyTarget | EagerTarget:
        """Return what computes expressions of some columns."""
        return NumpyTarget(self._arrays)

    def _eager(self, library: str) -> Eager:
        """Return the rows as a frame on which expressions of a library can be computed."""
        return as_narwhals(self._arrays, library)

    def evaluate(self, biases: Sequence[Bias], sample: str | None = None, called: str = "bias") -> list[np.ndarray]:
        """Return the values of biases on all rows, those of all expressions in one pass.

        Parameters
        ----------
        biases : sequence of Bias
            Expressions, functions and products of them.
        sample, called : str, optional
            The name of these rows, and what the biases are, for messages.

        Returns
        -------
        list of array
            For each bias an array of `len(self)`: bool for a condition, otherwise float64. Its sign is not checked.
            It may be a view of the rows, so do not write to it.
        """

        def values(factors: Sequence[Bias]) -> list[np.ndarray]:
            expressions = [part for part in factors if isinstance(part, ExpressionBias)]
            computed = iter(self._expressions(expressions, sample, called))
            return [
                next(computed) if isinstance(part, ExpressionBias) else self._factor(part, sample) for part in factors
            ]

        return by_factor(biases, values)

    def _expressions(self, expressions: Sequence[ExpressionBias], sample: str | None, called: str) -> list[np.ndarray]:
        """Return the values of expressions, by one pass: bool for conditions, otherwise float64.

        Raises
        ------
        MissingValuesError
            If a value is unknown because a column has missing values.
        InvalidBiasError
            If a condition compares NaN, such as the logarithm of a negative number.
        """
        names = tuple(dict.fromkeys(name for bias in expressions for name in bias.columns))
        require_columns(names, self.columns)
        with np.errstate(all="ignore"):  # NaN and infinity are found when the values are checked
            target = self._target(names)
            missing = target.missing(names)
            compiled = [compile_node(bias.node, target, missing) for bias in expressions]
            doubtful = [part for part in compiled if part.known is not None]
            columns = iter(target.compute([part.value for part in compiled] + [part.known for part in doubtful]))
        arrays = [_on_rows(next(columns), len(self), is_condition=part.is_condition) for part in compiled]
        for part, known in zip(doubtful, columns, strict=True):
            unknown = np.flatnonzero(~_on_rows(known, len(self), is_condition=True)).tolist()
            if unknown:
                raise unknown_value(ExpressionBias(part.node), sample, len(unknown), missing, unknown, called=called)
        return arrays

    def evaluate_formula(self, formula: Formula, sample: str | None = None) -> np.ndarray:
        """Return the values of a function of the row."""
        if isinstance(formula, str) and formula in self.columns and self.column(formula).dtype.kind in "fiub":
            return self.column(formula)
        return self.evaluate([bias_of(formula, self.columns)], sample, called="expression")[0]

    def _factor(self, bias: Bias, sample: str | None) -> np.ndarray:
        if isinstance(bias, FrameExpressionBias):
            return evaluate_expression(bias, self._eager(bias.library), sample)
        if isinstance(bias, FunctionBias):
            return self._function(bias, sample)
        if isinstance(bias, LearnedValues):
            return bias.on(self.column)
        if isinstance(bias, ValuesBias):
            raise InvalidBiasError(
                f"The bias {bias} is tied to the rows of the pool, so it has no values for other rows. "
                "Give an expression or a function of the rows instead.",
                sample=sample or "",
            )
        raise InvalidBiasError(f"A {type(bias).__name__} cannot be evaluated on rows.", sample=sample or "")

    def _function(self, bias: FunctionBias, sample: str | None) -> np.ndarray:
        what = f"The bias {bias}{of_sample(sample)}"
        try:
            returned = bias.function(self.native)
        except VardiError:
            raise
        except (TypeError, ValueError) as error:
            raise InvalidBiasError(
                f"{what} failed: {lines_of(error)[0].rstrip('.')}. It is called "
                f"once with all rows (a {type(self.native).__qualname__}), not row by row. Return one number for each "
                "row, e.g. with numpy.where instead of if, and numpy.maximum instead of max.",
                sample=sample or "",
            ) from error
        index, rows_index = index_of(returned), index_of(self.native)
        if index is not None and rows_index is not None and belongs_elsewhere(index, rows_index):
            raise MismatchError(
                f"{what} returned a series whose index is not that of the rows, so its values may "
                "belong to other rows. Return them in the order of the rows, or an array."
            )
        result = as_array(returned, what)
        if result.ndim == 0:
            result = np.full(len(self), result)
        if result.shape != (len(self),):
            raise MismatchError(
                f"{what} returned values of shape {result.shape} for {number_of_rows(len(self))}. "
                "It must return one number for each row, or one for all."
            )
        numbers = as_numbers(result)
        if numbers is None:
            raise InvalidBiasError(
                f"{what} returned {result.dtype}, which is not a numeric type. It must return one number for each row.",
                sample=sample or "",
            )
        return numbers


def gaps_in(values: np.ndarray) -> NDArray[np.bool_]:
    """Return in which rows a value is missing or infinite; of several in a row, any."""
    if values.dtype.kind in "fiub":
        return np.asarray(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
    return np.fromiter((not hasattr(value, "__len__") and is_missing(value) for value in values), bool, len(values))


def joined(pieces: Sequence[np.ndarray]) -> np.ndarray:
    """Return pieces one after the other; a single one without a copy."""
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def by_factor(biases: Sequence[Bias], values: Callable[[Sequence[Bias]], Sequence[np.ndarray]]) -> list[np.ndarray]:
    """Return the values of biases, given what evaluates their different factors together."""
    factors = [factors_of(bias) for bias in biases]
    distinct = list(dict.fromkeys(part for parts in factors for part in parts))
    known = dict(zip(distinct, values(distinct), strict=True))
    return [
        known[parts[0]] if len(parts) == 1 else np.prod([known[part].astype(np.float64) for part in parts], axis=0)
        for parts in factors
    ]


def _on_rows(value: np.ndarray, length: int, *, is_condition: bool) -> np.ndarray:
    """Return a computed column; one number that is the same for all rows, on each of them."""
    array: np.ndarray = np.asarray(value, dtype=np.bool if is_condition else np.float64)
    return array if array.shape == (length,) else np.full(length, array.item())


def unknown_value(
    bias: ExpressionBias,
    sample: object,
    unknown: int,
    missing: Mapping[str, int],
    rows: Sequence[int] = (),
    *,
    called: str = "bias",
) -> MissingValuesError | InvalidBiasError:
    """Return the error for an expression without a value on some rows: values are missing, or it compares NaN.

    Parameters
    ----------
    bias : ExpressionBias
        The expression.
    sample : str or None
        The sample of these rows; None if all samples are in one frame.
    unknown : int
        The number of rows without a value.
    missing : mapping of str to int
        The columns that have missing values, with their number; if it reads none of them, it compares NaN.
    rows : sequence of int
        Positions of these rows, if they have any.
    called : str
        What it is: a bias, or an expression whose mean was asked for.
    """
    read = {name: missing[name] for name in bias.columns if name in missing}
    what = f"The {called} {bias}{of_sample(sample)}"
    if not read:
        first = f" (the first is row {rows[0]})" if len(rows) else ""
        return InvalidBiasError(
            f"{what} compares NaN on {number_of_rows(unknown)}{first}: a logarithm, root, "
            "power or quotient has no value there. Exclude such rows with a condition.",
            sample="" if sample is None else str(sample),
            rows=rows[:LISTED],
        )
    columns = ", ".join(f"{name!r} ({count})" for name, count in read.items())
    return MissingValuesError(
        f"{what} is unknown on {number_of_rows(unknown)}, since there are missing values in "
        f"{columns}. A missing value is neither true nor false. Fill or drop these rows, or handle them in the "
        f"expression, e.g. {to_text(Column(next(iter(read))))} is not missing and ...",
        columns=read,
    )


class NarwhalsFrame(Frame):
    """Rows of an eager frame, or of one series."""

    def __init__(self, native: Native, data: Eager | Series, *, is_read: bool = False) -> None:
        self.native, self.is_read = native, is_read
        self.is_series = isinstance(data, nw.Series)
        if isinstance(data, nw.Series):
            data = (data if data.name else data.alias("x")).to_frame()
        self.data = _with_text_names(data)
        self.library = str(data.implementation)
        require_read_as_names(self.data.columns, data.implementation)

    def __len__(self) -> int:
        return len(self.data)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.schema)

    @cached_property
    def schema(self) -> nw.Schema:
        return self.data.schema

    def column(self, name: str) -> np.ndarray:
        require_columns((name,), self.columns)
        return _as_array(self.data.get_column(name))

    def coded(self, name: str) -> tuple[Integers, list[Hashable]]:
        require_columns((name,), self.columns)
        column, is_pandas = self.data.get_column(name), self.data.implementation.is_pandas_like()
        if column.dtype != nw.String or (not is_pandas and column.null_count()):
            return super().coded(name)
        if is_pandas:  # texts that NumPy would make an object each of
            codes, distinct = column.to_native().factorize(use_na_sentinel=False)
            return codes.astype(np.int64, copy=False), distinct.tolist()
        values = column.unique(maintain_order=True).to_list()
        codes = column.replace_strict(values, range(len(values)), return_dtype=nw.Int64).to_numpy()
        return codes.astype(np.int64, copy=False), values

    def is_text(self, name: str) -> bool:
        return bool(self.schema[name] == nw.String)

    def kind(self, name: str) -> str:
        is_read = self.schema[name].is_numeric() or self.schema[name] == nw.Boolean
        return super().kind(name) if is_read else "O"  # an array of anything else takes long to make

    def types(self, columns: Collection[str]) -> dict[str, str]:
        return types_in({name: dtype for name, dtype in self.schema.items() if name in columns})

    def gaps(self, name: str) -> NDArray[np.bool_]:
        if self.schema[name].is_numeric():
            return super().gaps(name)
        return np.asarray(self.data.get_column(name).is_null().to_numpy(), bool)

    def values_at(self, name: str, rows: Integers) -> np.ndarray:
        return _as_array(self.data.get_column(name)[rows])

    def categories(self, name: str) -> list[Hashable] | None:
        dtype = self.schema[name]
        if isinstance(dtype, nw.Enum):
            return list(dtype.categories)
        if dtype == nw.Categorical and self.data.implementation.is_pandas_like():
            return list(self.data.get_column(name).to_native().cat.categories)
        return None

    def take(self, indices: ArrayLike) -> Native:
        rows = nw.from_native(self.native, allow_series=True)
        return rows[np.asarray(indices)].to_native()

    def wrap(self, values: np.ndarray, *names: str) -> Native:
        backend = self.data.implementation
        if values.ndim == 1:
            native = nw.new_series(names[0], values, backend=backend).to_native()
        else:
            native = nw.from_numpy(values, names, backend=backend).to_native()
        if index_of(self.native) is not None:
            native.index = self.native.index
        return native

    def beside(self, values: np.ndarray, names: Sequence[str]) -> Native:
        """Return the rows with further columns of numbers."""
        require_new(names, self.columns)
        columns = zip(names, values.reshape(len(self), -1).T, strict=True)
        series = [nw.new_series(name, column, backend=self.data.implementation) for name, column in columns]
        return self.data.with_columns(*series).to_native()

    def drop(self, *names: str) -> Frame:
        require_columns(names, self.columns)
        return as_frame(self.data.drop(*names).to_native())

    def _target(self, names: Sequence[str]) -> NumpyTarget | EagerTarget:
        plain = {name: self._plain(name) for name in names}
        arrays = {name: array for name, array in plain.items() if array is not None}
        return NumpyTarget(arrays) if len(arrays) == len(names) else EagerTarget(self.data)

    def _eager(self, library: str) -> Eager:
        return self.data

    def _plain(self, name: str) -> np.ndarray | None:
        """Return a column of numbers or truth values, with which NumPy computes fastest, as an array; None for others.

        Nulls may change the kind of an array; then the column is left to its library.
        """
        dtype = self.schema[name]
        kinds = "iu" if dtype.is_integer() else "f" if dtype.is_float() else "b" if dtype == nw.Boolean else ""
        array = _in_64_bits(self.data.get_column(name)).to_numpy() if kinds else None
        return array if array is not None and array.dtype.kind in kinds else None


def _as_array(column: Series) -> np.ndarray:
    """Return a column as an array, in which a structure or an array in each row is one value."""
    column = _in_64_bits(column)
    array = column.to_numpy()
    if array.ndim == 1:
        return array
    values = np.empty(len(column), dtype=object)
    values[:] = column.to_list()
    return values


def _in_64_bits(column: Series) -> Series:
    """Return 128-bit integers, which NumPy lacks, as floats; any other column as it is."""
    return column.cast(nw.Float64) if column.dtype in (nw.Int128, nw.UInt128) else column


def _with_text_names(data: Eager) -> Eager:
    """Return the frame with texts as column names; pandas allows numbers too."""
    names: Sequence[object] = data.columns
    if all(isinstance(name, str) for name in names):
        return data
    texts = [str(name) for name in names]
    if len(set(texts)) < len(texts):
        raise _same_name(texts)
    return nw.from_native(data.to_native().set_axis(texts, axis=1), eager_only=True)


def _same_name(names: Sequence[object]) -> MismatchError:
    texts = [str(name) for name in names]
    twice = sorted({name for name in texts if texts.count(name) > 1})
    return MismatchError(
        f"More than one column is named {', '.join(map(repr, twice))}, so the name is ambiguous. Rename them."
    )


def require_new(names: Iterable[str], columns: Collection[str]) -> None:
    """Refuse to add a column of a name that there is already."""
    if lost := [name for name in names if name in columns]:
        raise MismatchError(
            f"There is already a column {lost[0]!r}, which would be lost. Rename it in the frame before the fit."
        )


def any_lazy(samples: object) -> bool:
    """Return whether any of the samples is a lazy frame of an engine."""
    if isinstance(samples, Mapping):
        samples = list(samples.values())
    every = samples if isinstance(samples, list | tuple) else [samples]
    for rows in [one for one in every if not isinstance(one, np.ndarray)]:  # narwhals need not be loaded for these
        with suppress(nw.exceptions.DuplicateError):  # as_frame raises our own error for it
            if isinstance(nw.from_native(rows, pass_through=True, allow_series=True), nw.LazyFrame):
                return True
    return False


def misread_names(names: Iterable[str], implementation: nw.Implementation) -> list[str]:
    """Return those names that an engine would read as a pattern or a path, and so resolve to other columns.

    Examples
    --------
    >>> import narwhals as nw
    >>> misread_names(["x", "*", "^x.*$", "a.b"], nw.Implementation.POLARS)
    ['*', '^x.*$']
    >>> misread_names(["x", "*", "^x.*$", "a.b"], nw.Implementation.DUCKDB)
    ['*', '^x.*$', 'a.b']
    """
    if implementation.is_polars():
        return [name for name in names if name == "*" or (name.startswith("^") and name.endswith("$"))]
    if implementation.is_duckdb():
        return [name for name in names if name == "*" or "." in name or '"' in name]
    return []


def require_read_as_names(names: Iterable[str], implementation: nw.Implementation) -> None:
    """Refuse columns whose names an engine would read as something else.

    Examples
    --------
    >>> import narwhals as nw
    >>> require_read_as_names(["x", "*"], nw.Implementation.POLARS)
    Traceback (most recent call last):
    ...
    vardi.errors.MismatchError: Polars takes the column name '*' for a pattern of other columns' names. Rename it.
    """
    misread = misread_names(names, implementation)
    if misread:
        engine, as_what = ("Polars", "a pattern of") if implementation.is_polars() else ("DuckDB", "a path to")
        raise MismatchError(
            f"{engine} takes the column name {misread[0]!r} for {as_what} other columns' names. Rename it."
        )

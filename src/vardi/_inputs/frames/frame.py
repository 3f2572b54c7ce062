"""Whatever holds rows: NumPy arrays, and the eager frames that narwhals takes."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

import vardi._narwhals as nw
from vardi._inputs.frames.evaluate import Eager, EagerFrame, Engine, evaluate
from vardi._inputs.frames.library_expressions import Series, as_narwhals, evaluate_expression
from vardi._types import Integers
from vardi.biases import Bias, ExpressionBias, FrameExpressionBias, FunctionBias, ValuesBias, as_bias
from vardi.biases._compile import NumpyTarget, require_columns
from vardi.biases._kinds import factors_of, library_of
from vardi.biases._learned import LearnedValues
from vardi.biases._nodes import Column
from vardi.biases._values import as_array, as_numbers, belongs_elsewhere, coded, index_of, is_missing, read_only
from vardi.errors import InvalidBiasError, MismatchError, VardiError, number_of_rows
from vardi.errors._texts import lines_of

if TYPE_CHECKING:
    import narwhals

Native: TypeAlias = Any
"""Rows, or a column of them, in the library and the form that the user gave."""
Formula: TypeAlias = "str | narwhals.Expr"
"""A function of the row: a column, an expression as text, or a narwhals or Polars expression."""
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
        return NumpyFrame(rows)
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


class Frame(ABC):
    """Rows in memory, with named columns.

    Attributes
    ----------
    native
        The rows as the user gave them.
    """

    native: Native

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""

    @abstractmethod
    def column(self, name: str) -> np.ndarray:
        """Return one column as an array."""

    @abstractmethod
    def take(self, indices: ArrayLike) -> Native:
        """Return the rows at some positions, in the library and the form that the user gave."""

    @abstractmethod
    def wrap(self, values: np.ndarray, *names: str) -> Native:
        """Return numbers by row as a series, or columns of them as a frame, of the user's library, with its index."""

    @abstractmethod
    def drop(self, *names: str) -> Frame:
        """Return the frame without some columns."""

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

    def gaps(self, name: str) -> NDArray[np.bool_]:
        """Return where a column has a missing or infinite value."""
        return gaps_in(self.column(name))

    def categories(self, name: str) -> list[Hashable] | None:
        """Return the values of a categorical column in their order; None for any other column."""
        return None

    @abstractmethod
    def _engine(self, names: Sequence[str]) -> Engine:
        """Return an engine that computes expressions of some columns."""

    @abstractmethod
    def _eager(self, library: str) -> Eager:
        """Return the rows as a frame on which expressions of a library can be computed."""

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
        factors = [factors_of(bias) for bias in biases]
        expressions = list(
            dict.fromkeys(part for parts in factors for part in parts if isinstance(part, ExpressionBias))
        )
        names = tuple(dict.fromkeys(name for bias in expressions for name in bias.columns))
        require_columns(names, self.columns)
        with np.errstate(all="ignore"):  # NaN and infinity are found when the values are checked
            arrays = evaluate(expressions, self._engine(names), len(self), sample, called)
        known = dict(zip(expressions, arrays, strict=True))
        return [product([self._factor(part, known, sample) for part in parts]) for parts in factors]

    def evaluate_formula(self, formula: Formula, sample: str | None = None) -> np.ndarray:
        """Return the values of a function of the row."""
        if isinstance(formula, str) and formula in self.columns and self.column(formula).dtype.kind in "fiub":
            return self.column(formula)
        return self.evaluate([bias_of(formula, self.columns)], sample, called="expression")[0]

    def _factor(self, bias: Bias, known: Mapping[ExpressionBias, np.ndarray], sample: str | None) -> np.ndarray:
        if isinstance(bias, ExpressionBias):
            return known[bias]
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
        of_sample = f" on rows of sample '{sample}'" if sample is not None else ""
        try:
            returned = bias.function(self.native)
        except VardiError:
            raise
        except (TypeError, ValueError) as error:
            raise InvalidBiasError(
                f"The bias {bias}{of_sample} failed: {lines_of(error)[0].rstrip('.')}. It is called "
                f"once with all rows (a {type(self.native).__qualname__}), not row by row. Return one number for each "
                "row, e.g. with numpy.where instead of if, and numpy.maximum instead of max.",
                sample=sample or "",
            ) from error
        if _is_reordered(returned, self.native):
            raise MismatchError(
                f"The bias {bias}{of_sample} returned a series whose index is not that of the rows, so its values may "
                "belong to other rows. Return them in the order of the rows, or an array."
            )
        result = as_array(returned, f"The bias {bias}{of_sample}")
        if result.ndim == 0:
            result = np.full(len(self), result)
        if result.shape != (len(self),):
            raise MismatchError(
                f"The bias {bias}{of_sample} returned values of shape {result.shape} for {number_of_rows(len(self))}. "
                "It must return one number for each row, or one for all."
            )
        numbers = as_numbers(result)
        if numbers is None:
            raise InvalidBiasError(
                f"The bias {bias}{of_sample} returned {result.dtype}, which is not a numeric type. "
                "It must return one number for each row.",
                sample=sample or "",
            )
        return numbers


def is_function(values: object) -> TypeGuard[Formula]:
    """Return whether values are given by a text or an expression, not as an array."""
    return isinstance(values, str) or library_of(values) is not None


def name_of(function: Formula) -> str:
    """Return the name of a function for messages and tables."""
    return function if isinstance(function, str) else str(FrameExpressionBias(function))


def bias_of(function: Formula, columns: Collection[str]) -> Bias:
    """Return a function in a form that can be evaluated; a text that is the name of a column is that column."""
    if isinstance(function, str) and function in columns:
        return ExpressionBias(Column(function))
    return as_bias(function)


def columns_read(function: Formula, columns: Collection[str]) -> tuple[str, ...]:
    """Return the columns that a function reads."""
    return (function,) if isinstance(function, str) and function in columns else bias_of(function, columns).columns


def gaps_in(values: np.ndarray) -> NDArray[np.bool_]:
    """Return in which rows a value is missing or infinite; of several in a row, any."""
    if values.dtype.kind in "fiub":
        return np.asarray(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
    return np.fromiter((not hasattr(value, "__len__") and is_missing(value) for value in values), bool, len(values))


def joined(pieces: Sequence[np.ndarray]) -> np.ndarray:
    """Return pieces one after the other; a single one without a copy."""
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def product(factors: Sequence[np.ndarray]) -> np.ndarray:
    """Return the product of columns; a single one as it is."""
    if len(factors) == 1:
        return factors[0]
    return np.asarray(np.prod([factor.astype(np.float64) for factor in factors], axis=0))


class NumpyFrame(Frame):
    """Rows of a NumPy array."""

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
        return tuple(self._arrays)

    def column(self, name: str) -> np.ndarray:
        require_columns((name,), self._arrays)
        return self._arrays[name]

    def take(self, indices: ArrayLike) -> np.ndarray:
        return self.native[np.asarray(indices)]

    def wrap(self, values: np.ndarray, *names: str) -> np.ndarray:
        return read_only(values)

    def drop(self, *names: str) -> Frame:
        require_columns(names, self._arrays)
        if self.native.dtype.names:
            return NumpyFrame(self.native[[field for field in self.columns if field not in names]])
        places = [self.columns.index(name) for name in names]
        return NumpyFrame(np.delete(np.atleast_2d(self.native.T).T, places, axis=1))

    def _engine(self, names: Sequence[str]) -> Engine:
        return NumpyTarget(self._arrays)

    def _eager(self, library: str) -> Eager:
        return as_narwhals(self._arrays, library)


class NarwhalsFrame(Frame):
    """Rows of an eager frame, or of one series."""

    def __init__(self, native: Native, data: Eager | Series) -> None:
        self.native = native
        self._is_series = isinstance(data, nw.Series)
        if isinstance(data, nw.Series):
            data = (data if data.name else data.alias("x")).to_frame()
        self._data = _with_text_names(data)
        require_read_as_names(self._data.columns, data.implementation)

    def __len__(self) -> int:
        return len(self._data)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._schema)

    @cached_property
    def _schema(self) -> nw.Schema:
        return self._data.schema

    def column(self, name: str) -> np.ndarray:
        require_columns((name,), self.columns)
        return _as_array(self._data.get_column(name))

    def coded(self, name: str) -> tuple[Integers, list[Hashable]]:
        require_columns((name,), self.columns)
        column = self._data.get_column(name)
        if column.dtype != nw.String:
            return super().coded(name)
        if self._data.implementation.is_pandas_like():  # texts that NumPy would make an object each of
            codes, distinct = column.to_native().factorize(use_na_sentinel=False)
            return codes.astype(np.int64, copy=False), distinct.tolist()
        if column.null_count():
            return super().coded(name)
        values = column.unique(maintain_order=True).to_list()
        codes = column.replace_strict(values, range(len(values)), return_dtype=nw.Int64).to_numpy()
        return codes.astype(np.int64, copy=False), values

    def is_text(self, name: str) -> bool:
        return bool(self._schema[name] == nw.String)

    def kind(self, name: str) -> str:
        is_read = self._schema[name].is_numeric() or self._schema[name] == nw.Boolean
        return super().kind(name) if is_read else "O"  # an array of anything else takes long to make

    def gaps(self, name: str) -> NDArray[np.bool_]:
        if self._schema[name].is_numeric():
            return super().gaps(name)
        return np.asarray(self._data.get_column(name).is_null().to_numpy(), bool)

    def values_at(self, name: str, rows: Integers) -> np.ndarray:
        if self._schema[name].is_numeric():  # an array of numbers is a view
            return super().values_at(name, rows)
        return _as_array(self._data.get_column(name)[rows])

    def categories(self, name: str) -> list[Hashable] | None:
        dtype = self._schema[name]
        if isinstance(dtype, nw.Enum):
            return list(dtype.categories)
        if dtype == nw.Categorical and self._data.implementation.is_pandas_like():
            return list(self._data.get_column(name).to_native().cat.categories)
        return None

    def take(self, indices: ArrayLike) -> Native:
        rows = nw.from_native(self.native, allow_series=True)
        return rows[np.asarray(indices)].to_native()

    def wrap(self, values: np.ndarray, *names: str) -> Native:
        backend = self._data.implementation
        if values.ndim == 1:
            native = nw.new_series(names[0], values, backend=backend).to_native()
        else:
            native = nw.from_numpy(values, names, backend=backend).to_native()
        if index_of(self.native) is not None:
            native.index = self.native.index
        return native

    def drop(self, *names: str) -> Frame:
        require_columns(names, self.columns)
        return as_frame(self._data.drop(*names).to_native())

    def _engine(self, names: Sequence[str]) -> Engine:
        arrays: dict[str, np.ndarray] = {}
        for name in names:
            array = self._plain(name)
            if array is None:
                return EagerFrame(self._data)
            arrays[name] = array
        return NumpyTarget(arrays)

    def _eager(self, library: str) -> Eager:
        return self._data

    def _plain(self, name: str) -> np.ndarray | None:
        """Return a column of numbers or truth values, with which NumPy computes fastest, as an array; None for others.

        Nulls may change the kind of an array; then the column is left to its library.
        """
        dtype = self._schema[name]
        kinds = "iu" if dtype.is_integer() else "f" if dtype.is_float() else "b" if dtype == nw.Boolean else ""
        array = _in_64_bits(self._data.get_column(name)).to_numpy() if kinds else None
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


def _is_reordered(series: object, rows: object) -> bool:
    """Return whether a function of the rows returned a series whose index is that of other rows."""
    index, rows_index = index_of(series), index_of(rows)
    return index is not None and rows_index is not None and belongs_elsewhere(index, rows_index)


def any_lazy(samples: object) -> bool:
    """Return whether any of the samples is a lazy frame of an engine."""
    if isinstance(samples, Mapping):
        samples = list(samples.values())
    rows = samples if isinstance(samples, list | tuple) else [samples]
    return any(_is_lazy(one) for one in rows)


def _is_lazy(rows: object) -> bool:
    if isinstance(rows, np.ndarray):
        return False
    try:
        return isinstance(nw.from_native(rows, pass_through=True, allow_series=True), nw.LazyFrame)
    except nw.exceptions.DuplicateError:  # as_frame raises our own error for it
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
    names = list(names)
    misread = misread_names(names, implementation)
    if misread:
        engine, as_what = ("Polars", "a pattern of") if implementation.is_polars() else ("DuckDB", "a path to")
        raise MismatchError(
            f"{engine} takes the column name {misread[0]!r} for {as_what} other columns' names. Rename it."
        )

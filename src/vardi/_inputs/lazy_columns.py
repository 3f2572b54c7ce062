"""The columns added to lazy frames: biases, what their parameters multiply, and functions whose means are known.

Expressions of Polars and narwhals are added to their frame as columns, too, and read as such. A value is null, and so
unknown, if the engine returns null, or if a column it reads is NaN, which engines compare in different ways. Frames of
pandas, which uses NaN for null, and partitions of Dask are copied to columns with nulls, as rows in memory are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import count
from operator import mul

import narwhals as nw
import numpy as np

from vardi._inputs.engines import DataFrame, LazyFrame, collected
from vardi._inputs.frames import unknown_value
from vardi._inputs.lazy_part import FEATURE, FUNCTION, OMEGA, PREFIX, Change, Part
from vardi._inputs.library_expressions import (
    columns_read,
    computed,
    in_library,
    known_only,
    lost_values,
    require_by_row,
    selected,
    unknown_expression,
    with_nulls,
)
from vardi._inputs.partitions import in_pandas
from vardi.biases import Bias, ExpressionBias, FrameExpressionBias, FunctionFamily, ParametricBias, WindowBias
from vardi.biases._compile import Compiled, NarwhalsTarget, compile_node
from vardi.biases._kinds import factors_of
from vardi.biases._nodes import Column
from vardi.errors import InvalidBiasError, MismatchError, NeedsRowsError
from vardi.errors._refusals import needs_rows

GIVEN = "__vardi_given_{}_{}"


@dataclass(frozen=True, repr=False)
class ColumnBias(ExpressionBias):
    """A bias with expressions of Polars or narwhals, in terms of the columns that hold these on its frame.

    Attributes
    ----------
    given : Bias
        The bias as the user gave it.
    read : tuple of str
        The user's columns that it reads.
    """

    given: Bias
    read: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read: the user's own, and those added to the frame."""
        return tuple(dict.fromkeys((*super().columns, *self.read)))

    def __str__(self) -> str:
        return str(self.given)


def is_computable(bias: Bias) -> bool:
    """Return whether an engine can compute a bias: an expression, or a product of expressions."""
    return all(isinstance(factor, ExpressionBias | FrameExpressionBias) for factor in factors_of(bias))


def on_frame(
    frame: LazyFrame, biases: Sequence[Bias], sample: str | None, what: str = "bias", probed: int = 16
) -> tuple[list[Change], tuple[ExpressionBias, ...]]:
    """Return changes that add expressions of Polars and narwhals to a frame as columns, and the biases that read these.

    Parameters
    ----------
    frame : nw.LazyFrame
        A frame of any engine.
    biases : sequence of Bias
        Expressions in text, of Polars and of narwhals, and products of them.
    sample : str or None
        Name of the sample, for messages.
    what : str
        Their purpose: a part of the columns' names, so that columns of one purpose do not replace those of another.
    probed : int
        On how many rows to test whether a value depends on other rows.
    """
    for bias in biases:
        if not is_computable(bias):
            raise InvalidBiasError(f"An engine cannot compute {bias}. Give an expression as text.", sample=sample or "")
    if all(isinstance(bias, ExpressionBias) for bias in biases):
        return [], tuple(bias for bias in biases if isinstance(bias, ExpressionBias))
    few = collected(frame.head(probed), sample)
    changes: list[Change] = []
    found = []
    for k, bias in enumerate(biases):
        factors = list(factors_of(bias))
        read: list[str] = []
        for j, factor in enumerate(factors):
            if isinstance(factor, FrameExpressionBias):
                name = GIVEN.format(what, f"{k}_{j}")
                change, columns = _put(factor, name, frame, few, sample)
                changes.append(change)
                read += columns
                factors[j] = ExpressionBias(Column(name))
        whole = reduce(mul, factors)
        assert isinstance(whole, ExpressionBias)
        found.append(whole if whole is bias else ColumnBias(whole.node, bias, tuple(read)))
    return changes, tuple(found)


def _put(
    bias: FrameExpressionBias, name: str, frame: LazyFrame, few: DataFrame, sample: str | None
) -> tuple[Change, tuple[str, ...]]:
    """Return the change that adds an expression to a frame as a column, and the columns that it reads.

    Some of the rows show whether it has a value for each.
    """
    if bias.library == "Polars" and not frame.implementation.is_polars():
        raise InvalidBiasError(
            f"{bias} is a Polars expression, but the rows{'' if sample is None else f' of {sample!r}'} are in "
            f"another engine ({frame.implementation}), which cannot compute it. Write it as text, such as "
            "'x <= 3', or as a narwhals expression, such as nw.col('x') <= 3.",
            sample=sample or "",
        )
    selected(bias, frame, sample)
    read = columns_read(bias, frame)
    with suppress(MismatchError):  # the engine may compute what the library of its answers cannot
        alone = computed(bias, few, sample)
        if not read and len(alone) == len(few) > 1:  # a pattern of columns, which may read any of them
            read = tuple(column for column in few.columns if not column.startswith(PREFIX))
        require_by_row(bias, few, np.asarray(alone.cast(nw.Float64).to_numpy(), np.float64), sample)
    if frame.implementation.is_pandas() or frame.implementation.is_dask():
        return partial(in_pandas, partial(with_nulls, bias, name, read), read), read
    column, lost = bias.expression.alias(name), lost_values(frame, read)

    def change(rows: LazyFrame) -> LazyFrame:
        return known_only(in_library(bias, rows, lambda own: own.with_columns(column)).lazy(), name, lost)

    return change, read


@dataclass(frozen=True)
class DeclaredColumns:
    """What a fit reads of the rows, as declared.

    Attributes
    ----------
    names : tuple of str
        The names of the biases, for messages.
    biases : tuple of Bias
        One for each name.
    functions : tuple of Bias or int
        Functions with known means: what is evaluated on rows, or the position of the state whose bias it is.
    """

    names: tuple[str, ...]
    biases: tuple[Bias, ...]
    functions: tuple[Bias | int, ...] = ()

    @cached_property
    def columns(self) -> dict[str, Bias]:
        """What each column holds: the known factors of the biases, then features, then functions.

        It is an error if an engine cannot compute one of them.
        """
        found: dict[str, Bias] = {}
        for k, (name, bias) in enumerate(zip(self.names, self.biases, strict=True)):
            known = bias.known if isinstance(bias, ParametricBias) else bias
            if any(isinstance(one, WindowBias) for one in factors_of(known)):
                raise needs_rows(f"The bias of {name!r}, {bias},")
            found[OMEGA.format(k)] = _computable(known, f"The bias of {name!r} is {bias}", "an expression", name)
        for features in self.features.values():
            found |= features
        for j, function in enumerate(self.functions):
            if not isinstance(function, int):
                what = f"The mean of {function} is known"
                found[FUNCTION.format(j)] = _computable(function, what, "a condition or an expression", str(function))
        return found

    @cached_property
    def features(self) -> dict[int, dict[str, ExpressionBias]]:
        """What the parameters of each bias, except the intercept, multiply, by the column that holds it."""
        place = count()
        return {
            k: {FEATURE.format(next(place)): feature for feature in features_of(bias, self.names[k])}
            for k, bias in enumerate(self.biases)
            if isinstance(bias, ParametricBias)
        }

    @property
    def function_columns(self) -> tuple[str, ...]:
        """The column of each function; that of the bias if it is one."""
        return tuple(
            OMEGA.format(function) if isinstance(function, int) else FUNCTION.format(j)
            for j, function in enumerate(self.functions)
        )


def as_column(what: str, given: object) -> str:
    """Return the name of a column that was given as an argument; raise if it is something else."""
    if not isinstance(given, str):
        raise MismatchError(
            f"{what} was given as {type(given).__name__}, but the rows are lazy frames. Name the column that holds it."
        )
    return given


def features_of(bias: ParametricBias, sample: str) -> tuple[ExpressionBias, ...]:
    """Return what the parameters of a bias, except the intercept, multiply, as expressions."""
    family = bias.family
    if isinstance(family, FunctionFamily):
        raise NeedsRowsError(
            f"The bias of {sample!r}, {bias}, is a function of rows and parameters, which can only be called on rows "
            "in memory, but these are in their engine. Collect the columns you need, or declare a family such as "
            "vardi.logistic."
        )
    return tuple(map(ExpressionBias, family.features()))


def as_floats(compiled: Compiled) -> nw.Expr:
    """Return a compiled expression as a column of numbers."""
    return nw.lit(compiled.value) if isinstance(compiled.value, float) else compiled.value.cast(nw.Float64)


def expressions(
    part: Part,
    biases: Sequence[ExpressionBias],
    target: NarwhalsTarget,
    missing: Mapping[str, int],
    called: str = "bias",
) -> list[nw.Expr]:
    """Return expressions for an engine; raise for the first that is unknown on some rows, by one query for all."""
    compiled = [compile_node(bias.node, target, missing) for bias in biases]
    doubtful = {
        bias: (~one.known).cast(nw.Int64)
        for bias, one in zip(biases, compiled, strict=True)
        if one.known is not None and not isinstance(one.value, float)
    }
    for bias, unknown in zip(doubtful, part.sums(list(doubtful.values())), strict=True):
        if unknown:
            read = {column: number for column, number in missing.items() if not column.startswith(PREFIX)}
            if isinstance(bias, ColumnBias):
                own = {column: read[column] for column in bias.columns if column in read}
                raise unknown_expression(bias, int(unknown), own, part.name)
            raise unknown_value(bias, part.name, int(unknown), read, called=called)
    return [as_floats(one) for one in compiled]


def missing_values(part: Part, target: NarwhalsTarget, columns: Sequence[str]) -> dict[str, int]:
    """Return those of some columns that have missing values, with their number."""
    counts = part.sums([target.is_missing(column).cast(nw.Int64) for column in columns])
    return {column: int(number) for column, number in zip(columns, counts, strict=True) if number}


def _computable(bias: Bias, what: str, given: str, sample: str) -> Bias:
    """Return what an engine can compute; otherwise say what it is, and what to give."""
    if not is_computable(bias):
        raise InvalidBiasError(
            f"{what}, which an engine cannot compute. Give {given} as text, or collect the frame first.", sample=sample
        )
    return bias

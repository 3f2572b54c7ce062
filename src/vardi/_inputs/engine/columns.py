"""The columns added to lazy frames: biases, what their parameters multiply, and functions whose means are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count

import narwhals as nw

from vardi._inputs.engine.expressions import ColumnBias, is_computable
from vardi._inputs.engine.part import FEATURE, FUNCTION, OMEGA, PREFIX, Part
from vardi._inputs.frames.evaluate import unknown_value
from vardi._inputs.frames.library_expressions import unknown_expression
from vardi.biases import Bias, ExpressionBias, FunctionFamily, ParametricBias, WindowBias
from vardi.biases._expressions.compile import Compiled, compile_node
from vardi.biases._expressions.nodes import Constant
from vardi.biases._expressions.targets import NarwhalsTarget
from vardi.biases._kinds import factors_of
from vardi.biases._learned import LearnedBias
from vardi.errors import InvalidBiasError, MismatchError, MissingValuesError, NeedsRowsError
from vardi.errors._refusals import needs_rows


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
        """What each column holds: the known factors of the biases, then features, then functions."""
        return self.require_computable()

    def require_computable(self) -> dict[str, Bias]:
        """Return the columns; raise if an engine cannot compute one of them."""
        known = [
            _computable(bias.known if isinstance(bias, ParametricBias) else bias, bias, name)
            for name, bias in zip(self.names, self.biases, strict=True)
        ]
        found: dict[str, Bias] = {OMEGA.format(k): bias for k, bias in enumerate(known)}
        for k, names in self.features.items():
            bias = self.biases[k]
            assert isinstance(bias, ParametricBias)
            found |= dict(zip(names, features_of(bias, self.names[k]), strict=True))
        for j, function in enumerate(self.functions):
            if not isinstance(function, int):
                found[FUNCTION.format(j)] = _computable_function(function)
        return found

    @cached_property
    def features(self) -> dict[int, tuple[str, ...]]:
        """The columns that the parameters of each bias, except the intercept, multiply."""
        place = count()
        return {
            k: tuple(FEATURE.format(next(place)) for _ in features_of(bias, self.names[k]))
            for k, bias in enumerate(self.biases)
            if isinstance(bias, ParametricBias)
        }

    @cached_property
    def constants(self) -> dict[int, float]:
        """The biases without parameters that are the same number on all rows."""
        nodes = {k: bias.node for k, bias in enumerate(self.biases) if isinstance(bias, ExpressionBias)}
        constants = {k: node.value for k, node in nodes.items() if isinstance(node, Constant)}
        return {k: float(value) for k, value in constants.items() if not isinstance(value, str)}

    @property
    def function_columns(self) -> tuple[str, ...]:
        """The column of each function; that of the bias if it is one."""
        return tuple(
            OMEGA.format(function) if isinstance(function, int) else FUNCTION.format(j)
            for j, function in enumerate(self.functions)
        )

    @property
    def moving(self) -> dict[int, int]:
        """Functions that are a bias with parameters, with the position of that bias."""
        states = {j: function for j, function in enumerate(self.functions) if isinstance(function, int)}
        return {j: k for j, k in states.items() if k in self.features}


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
            raise _unknown(bias, part.name, int(unknown), missing, called)
    return [as_floats(one) for one in compiled]


def _unknown(
    bias: ExpressionBias, sample: str | None, unknown: int, missing: Mapping[str, int], called: str
) -> MissingValuesError | InvalidBiasError:
    """Return the error for an expression without a value on some rows."""
    read = {column: number for column, number in missing.items() if not column.startswith(PREFIX)}
    if isinstance(bias, ColumnBias):
        own = {column: read[column] for column in bias.columns if column in read}
        return unknown_expression(bias, unknown, own, sample)
    return unknown_value(bias, sample, unknown, read, called=called)


def missing_values(part: Part, target: NarwhalsTarget, columns: Sequence[str]) -> dict[str, int]:
    """Return those of some columns that have missing values, with their number."""
    counts = part.sums([target.is_missing(column).cast(nw.Int64) for column in columns])
    return {column: int(number) for column, number in zip(columns, counts, strict=True) if number}


def _computable(part: Bias, bias: Bias, name: str) -> Bias:
    if any(isinstance(one, LearnedBias | WindowBias) for one in factors_of(part)):
        raise needs_rows(f"The bias of {name!r}, {bias},")
    if not is_computable(part):
        raise InvalidBiasError(
            f"The bias of {name!r} is {bias}, which an engine cannot compute. Give an expression as text, or "
            "collect the frame first.",
            sample=name,
        )
    return part


def _computable_function(function: Bias) -> Bias:
    if not is_computable(function):
        raise InvalidBiasError(
            f"The mean of {function} is known, which an engine cannot compute. Give a condition or an expression as "
            "text, or collect the frame first.",
            sample=str(function),
        )
    return function

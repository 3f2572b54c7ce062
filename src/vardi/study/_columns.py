"""Check what a study reads against the columns of its files: biases, variables, known values, labels, counts, ids."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import isfinite

import narwhals as nw

from vardi._inputs.by_row import shared_names
from vardi._inputs.frames import misread_names
from vardi._inputs.given import KnownValue
from vardi._inputs.known import Kind, as_known
from vardi._inputs.lazy_part import COUNTS, LABEL, ROW
from vardi.biases import Bias, ExpressionBias, LearnedBias, ParametricBias, WindowBias, as_bias
from vardi.biases._compile import NarwhalsTarget, compile_node
from vardi.biases._kinds import factors_of
from vardi.biases._nodes import Column, Node, column_text
from vardi.errors import ExpressionError, InvalidBiasError, MismatchError, StudyError, VardiError, suggest
from vardi.errors._texts import first_of
from vardi.study._data import Data, Engine
from vardi.study._engines import first_text, require_header, require_rows, schema
from vardi.study._study import DEPENDS, DependenceOptions
from vardi.study._toml import Biases, Problems, table_of


class Columns:
    """The columns of all data. Every step notes problems and continues with the rest.

    A check is a generator of messages, which raises `StudyError` where it cannot continue.
    """

    def __init__(self, data: Sequence[Data], engine: Engine, problems: Problems) -> None:
        self.engine, self.problems = engine, problems
        self.schemas: dict[Data, nw.Schema] = {}
        for one in data:
            if engine != "polars" or one.format != "duckdb":
                self.problems.check((*table_of(one.name), "data"), self._wrong_file(one))

    def require_biases(self, biases: Biases) -> None:
        """Note biases that do not parse or that read missing columns."""
        for name, (key, text) in biases.items():
            self.problems.check(key, self._wrong_bias(f"The bias of {name!r}", text, alone=len(biases) == 1))

    def require_own(self, label: str | None) -> None:
        """Note columns of labels, counts and ids that are missing, and counts that are not numbers."""
        for data, columns in self.schemas.items():
            for what, column in (("source", label), ("counts", data.counts), ("id", data.id)):
                key = (*table_of(data.name), what)
                if column is not None and column not in columns:
                    self.problems.add(key, f"{_lacks(column, data, columns)} It has: {first_of(columns)}.")
                elif column is not None and what == "counts" and not columns[column].is_numeric():
                    kind = _kind_text(columns[column])
                    self.problems.add(key, f"The counts {column!r} of {data} are {kind}, not numbers.")

    def require_variables(self, variables: Sequence[str]) -> None:
        """Note variables that have no mean."""
        for name in variables:
            self.problems.check(("variables",), self._without_mean(name))
        if len(set(variables)) < len(variables):
            self.problems.add(("variables",), "A variable is listed twice.")

    def require_depends(self, depends: DependenceOptions) -> None:
        """Note missing columns of clusters, series and strata."""
        for what in DEPENDS:
            column = depends.get(what)
            lacking = [(data, columns) for data, columns in self.schemas.items() if column not in columns]
            if column is not None and lacking:
                self.problems.add((what,), _lacks(column, *lacking[0]))

    def known(self, known: Mapping[str, KnownValue], names: Collection[str]) -> dict[str, KnownValue]:
        """Return what is known of the population, with the keys of a margin converted to the type of its column."""
        values: dict[str, KnownValue] = {}
        for name, value in known.items():
            if isinstance(value, dict):
                value = {_as_kind(text, self._kinds(name)): share for text, share in value.items()}
            values[name] = value
            self.problems.check(("known", name), self._wrong_known(name, values[name], tuple(names)))
        return values

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that all data have."""
        return shared_names([tuple(columns) for columns in self.schemas.values()])

    def kind(self, column: str) -> Kind:
        """Return what a column holds that all data have."""
        kinds = self._kinds(column)
        return "other" if _not_numbers(kinds) else "condition" if kinds[0] == nw.Boolean else "number"

    def rows_by_value(self, column: str) -> Mapping[Hashable, int]:
        """Return nothing: rows are not read yet."""
        return {}

    def notes(self) -> tuple[str, ...]:
        """Return what is odd about the columns: text that is mostly numbers."""
        notes = (self._note(data, name) for data, columns in self.schemas.items() for name in columns)
        return tuple(filter(None, notes))

    def _wrong_file(self, data: Data) -> Iterator[str]:
        """Look up the columns, and yield which names vardi reserves, or an engine would read as a pattern or a path."""
        require_header(data)
        require_rows(data, self.engine)
        columns = self.schemas[data] = schema(data, self.engine)
        polars = nw.Implementation.POLARS  # which holds rows in memory, too
        if not columns:
            yield f"{data} has no columns."
        for name in misread_names(columns, nw.Implementation.DUCKDB if self.engine == "duckdb" else polars):
            remedy = "Rename it." if misread_names([name], polars) else 'Rename it, or write engine = "memory".'
            what = f"The column {name!r} of {data} has a name that the engine would read as a pattern or a path."
            yield f"{what} {remedy}"
        for name in (ROW, COUNTS, LABEL):
            if name in columns:
                yield f"The column {name!r} of {data} has a name that vardi reserves. Rename it."

    def _wrong_bias(self, what: str, text: str | float, *, alone: bool) -> Iterator[str]:
        """Yield what is wrong with a bias: its columns, its value, or that it needs rows in memory, or to be alone."""
        bias = _parsed(what, text)
        yield from self._wrong_columns(what, bias)
        yield from _not_positive(what, bias)
        of_rows = any(isinstance(factor, LearnedBias | WindowBias) for factor in factors_of(bias))
        if of_rows and self.engine != "memory":
            remedy = 'Write engine = "memory".'
            yield f"{what}, {bias}, needs rows in memory, and the engine is {self.engine}. {remedy}"
        if isinstance(bias, WindowBias) and not alone:
            remedy = "A window belongs to its row, and the rows of other samples have none. Debias this sample alone."
            yield f"{what} is a window for each row, beside other samples. {remedy}"

    def _wrong_columns(self, what: str, bias: Bias) -> list[str]:
        """Return which columns are missing, or else which comparisons are with another kind of value."""
        missing = [message for column in bias.columns for message in self._missing(what, column, str(bias))]
        return missing or list(self._wrong_kinds(what, bias, self.schemas))

    def _wrong_kinds(self, what: str, bias: Bias, schemas: dict[Data, nw.Schema]) -> Iterator[str]:
        """Yield comparisons of a column with another kind of value, in data that have the columns."""
        first = {tuple(columns.items()): (data, columns) for data, columns in reversed(schemas.items())}
        for data, columns in reversed(first.values()):  # hundreds of samples may share one set of columns
            for node in _nodes(bias):
                try:
                    compile_node(node, NarwhalsTarget(columns))
                except (MismatchError, InvalidBiasError) as error:
                    yield f"{what}, on the rows of {data}: {error}{self._why_text(bias.columns)}"

    def _missing(self, what: str, column: str, text: str = "") -> Iterator[str]:
        """Yield whether some data lack a column; the text that reads it tells what was probably meant."""
        lacking = [data for data, columns in self.schemas.items() if column not in columns]
        if not lacking:
            return
        names = dict.fromkeys(name for columns in self.schemas.values() for name in columns)
        written = column_text(column) if text else column
        if len(lacking) == len(self.schemas):
            is_compared = f"== {written}" in text or f"!= {written}" in text
            quoted = f" Put a text to compare with in quotes: {column!r}." if is_compared else ""
            hint = f"which no file has.{quoted or suggest(column, names)} The columns are: {first_of(names)}."
        else:
            near = suggest(column, self.schemas[lacking[0]])
            hint = f"which {lacking[0]} lacks.{near} Every sample must have it."
            if f"/ {written}" in text:
                hint += " In place of a design weight, write one over its mean given columns that all samples have."
        yield f"{what} reads column {column!r}, {hint}"

    def _without_mean(self, name: str) -> Iterator[str]:
        """Yield why a variable has no mean. Its columns need not be in every sample."""
        what, kinds = f"The variable {name!r}", self._kinds(name)
        if kinds:
            for kind in _not_numbers(kinds)[:1]:
                remedy = f"Only numbers have a mean: write a condition, such as {column_text(name)} == 'a value'."
                yield f"{what} holds {_kind_text(kind)}. {remedy}{self._why_text([name])}"
            return
        bias = _parsed(what, name)
        if isinstance(bias, ParametricBias):
            yield f"{what} has parameters, which only a bias can have."
        elif isinstance(bias, LearnedBias | WindowBias):
            yield f"{what} is a window or a learned bias, which has no mean."
        elif not bias.columns:
            yield f"{what} reads no column, so it is constant."
        else:
            yield from self._wrong_somewhere(what, bias)

    def _wrong_somewhere(self, what: str, bias: Bias) -> Iterator[str]:
        """Yield columns that no single sample has together; in samples that do, comparisons of different kinds."""
        complete = {data: own for data, own in self.schemas.items() if all(name in own for name in bias.columns)}
        if complete:
            yield from self._wrong_kinds(what, bias, complete)
            return
        nowhere = next((column for column in bias.columns if not self._kinds(column)), None)
        if nowhere is not None:
            yield from self._missing(what, nowhere)
        elif self.schemas:
            listed = ", ".join(map(repr, bias.columns))
            yield f"{what} reads {listed}, but no sample has all of them. Use columns of one sample."

    def _wrong_known(self, name: str, value: KnownValue, names: tuple[str, ...]) -> Iterator[str]:
        """Yield columns that are missing for a known value, or else what is wrong with it, as for `vardi.debias`."""
        what, wrong = f"The known value of {name!r}", list[str]()
        if isinstance(value, dict):
            wrong += self._missing(what, name)
        elif name not in (*names, *self.columns):
            wrong += self._wrong_columns(what, _parsed(what, name))
        yield from wrong
        if self.schemas and not wrong:
            try:
                as_known({name: value}, names, self)
            except VardiError as error:
                yield str(error)

    def _kinds(self, name: str) -> list[nw.dtypes.DType]:
        """Return the types of a column in the data that have it."""
        return [columns[name] for columns in self.schemas.values() if name in columns]

    def _why_text(self, columns: Collection[str]) -> str:
        """Return why a column is read as text: it is the id of a CSV, a code, or nearly a number."""
        for data in self.schemas:
            if data.format == "csv" and data.id in columns:
                return f" {data.id!r} is an id, and ids in a CSV are read as text."
            for name in columns:
                if name in data.codes:
                    return f" {name!r} has digits with leading zeros, which are read as text."
                if note := self._note(data, name):
                    return f" {note}"
        return ""

    def _note(self, data: Data, name: str) -> str:
        """Return which value turns a column of mostly numbers into text; an empty string for any other column."""
        value = first_text(data, self.engine, name) if self.schemas[data].get(name) == nw.String else None
        if value is None:
            return ""
        what = f"The column {name!r} of {data} is read as text, since it holds {value!r}, which is not a number."
        return f"{what} Correct it; a missing value is an empty cell or NA."


def _lacks(column: str, data: Data, columns: Collection[str]) -> str:
    return f"{data} has no column {column!r}.{suggest(column, columns)}"


def _parsed(what: str, text: str | float) -> Bias:
    try:
        return as_bias(text)
    except ExpressionError as error:
        message = str(error).split("\n")[0]
        raise StudyError(f"{what}: {message} See character {error.offset + 1} of: {error.text}") from error
    except InvalidBiasError as error:
        raise StudyError(f"{what}: {error}") from error


def _not_positive(what: str, bias: Bias) -> Iterator[str]:
    """Yield whether a bias is constant, but not a number above zero."""
    known = bias.known if isinstance(bias, ParametricBias) else bias
    if known.columns or not isinstance(known, ExpressionBias):
        return
    with suppress(MismatchError, InvalidBiasError):  # noted with the columns
        value = compile_node(known.node, NarwhalsTarget(nw.Schema({}))).value
        if isinstance(value, float) and not (isfinite(value) and value > 0):
            remedy = "A constant bias must be a number above zero; 1 means drawn at random."
            yield f"{what} is {value:g} everywhere. {remedy}"


def _not_numbers(kinds: Sequence[nw.dtypes.DType]) -> list[nw.dtypes.DType]:
    return [kind for kind in kinds if not (kind.is_numeric() or kind == nw.Boolean)]


def _nodes(bias: Bias) -> tuple[Node, ...]:
    """Return the expressions that a bias in text consists of."""
    if isinstance(bias, ParametricBias):
        groups = getattr(bias.family, "groups", ())  # of cells, whose columns may hold text
        computed = [term for group in groups for term in group if not isinstance(term, Column)]
        return (*_nodes(bias.known), *computed, *getattr(bias.family, "terms", ()))
    if isinstance(bias, WindowBias):
        return tuple(filter(None, (bias.x, *bias.ends, bias.status)))
    factors = factors_of(bias)  # columns of fitted biases may hold text
    return tuple(factor.node for factor in factors if isinstance(factor, ExpressionBias))


def _as_kind(text: str, kinds: Sequence[nw.dtypes.DType]) -> str | float:
    """Return a TOML key, which is a string, as a value of its column."""
    if kinds and kinds[0] == nw.Boolean and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kinds and kinds[0].is_numeric():
        with suppress(ValueError):
            return int(text)
        with suppress(ValueError):
            return float(text)
    return text


def _kind_text(kind: nw.dtypes.DType) -> str:
    """Return what a column holds, in plain words."""
    return "text" if kind == nw.String else "dates" if kind in (nw.Date, nw.Datetime) else f"values of type {kind}"

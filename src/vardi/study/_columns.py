"""Check what a study reads against the columns of its files: biases, variables, known values, labels, counts, ids."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from math import fsum, inf, isfinite, nan
from typing import TypeGuard

import narwhals as nw

from vardi._inputs.engine.part import COUNTS, LABEL, ROW
from vardi._inputs.frames.frame import misread_names
from vardi._inputs.given import KnownValue
from vardi._inputs.known import ROUNDING
from vardi.biases import (
    Bias,
    ExpressionBias,
    FunctionFamily,
    LearnedBias,
    ParametricBias,
    ProductBias,
    WindowBias,
    as_bias,
    where,
)
from vardi.biases._expressions.compile import compile_node
from vardi.biases._expressions.families import Cells
from vardi.biases._expressions.nodes import Column, Node, is_condition
from vardi.biases._expressions.targets import NarwhalsTarget
from vardi.errors import ExpressionError, InvalidBiasError, MismatchError, suggest
from vardi.errors._texts import first_of
from vardi.study._data import Data, Engine
from vardi.study._engines import first_text, require_header, require_rows, schema
from vardi.study._locate import Key, Problems, quoted_key
from vardi.study.schema import DEPENDS, Biases, DependenceOptions, shown

_POLARS = nw.Implementation.POLARS  # holds rows in memory, too
A_SHARE = "a number from 0 to 1"
A_VALUE = "a number, [number, standard error], or for a column a table of the shares of its values"


class Columns:
    """The columns of all data. Every step notes problems and continues with the rest."""

    def __init__(self, places: dict[Data, Key], engine: Engine, problems: Problems) -> None:
        self.problems = problems
        self.engine = engine
        self.schemas: dict[Data, nw.Schema] = {}
        for data, key in places.items():
            if engine == "polars" and data.format == "duckdb":
                continue
            with self.problems.noting((*key, "data")):
                require_header(data)
                require_rows(data, engine)
                found = schema(data, engine)
                self.schemas[data] = found
                if not found:
                    self.problems.add((*key, "data"), f"{data} has no columns.")
                self._require_names(key, data, engine)
                for ours in (ROW, COUNTS, LABEL):
                    if ours in found:
                        self.problems.add(
                            (*key, "data"), f"The column {ours!r} of {data} has a name that vardi reserves. Rename it."
                        )

    def require_biases(self, biases: Biases) -> None:
        """Note biases that do not parse or that read missing columns."""
        for name, (key, text) in biases.items():
            bias = self._parsed(key, f"The bias of {name!r}", text)
            if bias is not None:
                self._require_columns(key, f"The bias of {name!r}", bias)
                self._require_positive(key, name, bias)
                self._require_of_rows(key, name, bias, biases)

    def _require_of_rows(self, key: Key, name: str, bias: Bias, biases: Biases) -> None:
        """Note windows beside other samples, and windows and learned biases in an engine."""
        of_rows = any(isinstance(part, LearnedBias | WindowBias) for part in getattr(bias, "factors", (bias,)))
        if of_rows and self.engine != "memory":
            remedy = f'needs rows in memory, and the engine is {self.engine}. Write engine = "memory".'
            self.problems.add(key, f"The bias of {name!r}, {bias}, {remedy}")
        if isinstance(bias, WindowBias) and len(biases) > 1:
            remedy = "A window belongs to its row, and the rows of other samples have none. Debias this sample alone."
            self.problems.add(key, f"The bias of {name!r} is a window for each row, beside other samples. {remedy}")

    def require_own(self, places: dict[Data, Key], label: str | None) -> None:
        """Note columns of labels, counts and ids that are missing, and counts that are not numbers."""
        for data, found in self.schemas.items():
            for what, column in (("source", label), ("counts", data.counts), ("id", data.id)):
                key = (*places[data], what)
                if column is not None and column not in found:
                    said = f"{data} has no column {column!r}.{suggest(column, found)} It has: {first_of(found)}."
                    self.problems.add(key, said)
                elif column is not None and what == "counts" and not found[column].is_numeric():
                    self.problems.add(
                        key, f"The counts {column!r} of {data} are {_kind_text(found[column])}, not numbers."
                    )

    def variables(self, document: dict[str, object]) -> tuple[str, ...]:
        """Return the variables to report."""
        given = document.get("variables", [])
        key = ("variables",)
        if not isinstance(given, list) or not all(isinstance(name, str) and name.strip() for name in given):
            self.problems.add(key, "variables must be a list of strings: columns and expressions.")
            return ()
        for name in given:
            self._require_number(key, name)
        if len(set(given)) < len(given):
            self.problems.add(key, "A variable is listed twice.")
        return tuple(given)

    def depends(self, document: dict[str, object], samples: Sequence[str]) -> DependenceOptions:
        """Return how rows depend on one another, or note missing columns and invalid sizes."""
        found: DependenceOptions = {}
        for what in DEPENDS:
            column = document.get(what)
            if column is None:
                continue
            if not isinstance(column, str) or not column:
                self.problems.add((what,), f"{what} must be the name of a column, not {shown(column)}.")
                continue
            for data, own in self.schemas.items():
                if column not in own:
                    self.problems.add((what,), f"{data} has no column {column!r}.{suggest(column, own)}")
                    break
            else:
                found[what] = column
        sizes = document.get("population")
        if sizes is None:
            return found
        by_name = sizes if isinstance(sizes, dict) else {"": sizes}
        for name, size in by_name.items():
            key = ("population", name) if name else ("population",)
            if name and name not in samples:
                self.problems.add(key, f"There is no sample {name!r}.{suggest(name, samples)}")
            if not isinstance(size, int | float) or isinstance(size, bool) or size <= 0:
                self.problems.add(key, f"population must be how many units a sample was drawn from, not {shown(size)}.")
        if isinstance(sizes, dict | int | float):
            found["population"] = sizes
        return found

    def known(self, document: dict[str, object], names: Mapping[str, object]) -> dict[str, KnownValue]:
        """Return what is known of the population."""
        given = document.get("known", {})
        if not isinstance(given, dict):
            message = "known must be a table: a sample, a column or a condition, each with its value in the population."
            self.problems.add(("known",), message)
            return {}
        return {name: self._known(("known", name), name, value, names) for name, value in given.items()}

    def _require_names(self, key: Key, data: Data, engine: Engine) -> None:
        """Note columns whose names an engine would read as a pattern or a path."""
        for name in misread_names(self.schemas[data], nw.Implementation.DUCKDB if engine == "duckdb" else _POLARS):
            in_polars = bool(misread_names([name], _POLARS))
            remedy = "Rename it." if in_polars else 'Rename it, or write engine = "memory".'
            what = f"The column {name!r} of {data} has a name that the engine would read as a pattern or a path."
            self.problems.add((*key, "data"), f"{what} {remedy}")

    def _parsed(self, key: Key, what: str, text: str | float) -> Bias | None:
        try:
            return as_bias(text)
        except ExpressionError as error:
            said = str(error).split("\n")[0]
            self.problems.add(key, f"{what}: {said} See character {error.offset + 1} of: {error.text}")
        except InvalidBiasError as error:
            self.problems.add(key, f"{what}: {error}")
        return None

    def _require_columns(self, key: Key, what: str, bias: Bias) -> bool:
        """Note missing columns, and comparisons of a column with another kind of value."""
        before = len(self.problems)
        for column in bias.columns:
            self._require_column(key, what, column, str(bias))
        if len(self.problems) == before:
            self._require_kinds(key, what, bias, self.schemas)
        return len(self.problems) == before

    def _require_kinds(self, key: Key, what: str, bias: Bias, schemas: dict[Data, nw.Schema]) -> None:
        """Note comparisons of a column with another kind of value, in data that have the columns."""
        for data, found in _kinds_of_rows(schemas):
            for node in _nodes(bias):
                try:
                    compile_node(node, NarwhalsTarget(found))
                except (MismatchError, InvalidBiasError) as error:
                    self.problems.add(key, f"{what}, on the rows of {data}: {error}{self._said_of_texts(bias.columns)}")

    def _require_positive(self, key: Key, name: str, bias: Bias) -> None:
        """Note a bias that is constant, but not a number above zero."""
        known = bias.known if isinstance(bias, ParametricBias) else bias
        if known.columns or not isinstance(known, ExpressionBias):
            return
        with suppress(MismatchError, InvalidBiasError):  # noted with the columns
            value = compile_node(known.node, NarwhalsTarget(nw.Schema({}))).value
            if not isinstance(value, float) or (isfinite(value) and value > 0):
                return
            remedy = "A constant bias must be a number above zero; 1 means drawn at random."
            self.problems.add(key, f"The bias of {name!r} is {value:g} everywhere. {remedy}")

    def _require_column(self, key: Key, what: str, column: str, text: str = "") -> None:
        """Note a column that some data lack; the text that reads it tells what was probably meant."""
        lacking = [data for data, found in self.schemas.items() if column not in found]
        if not lacking:
            return
        names = dict.fromkeys(name for found in self.schemas.values() for name in found)
        own = ticked(column) if text else column
        if len(lacking) == len(self.schemas):
            is_compared = f"== {own}" in text or f"!= {own}" in text
            quoted = f" Put a text to compare with in quotes: {column!r}." if is_compared else ""
            hint = f"which no file has.{quoted or suggest(column, names)} The columns are: {first_of(names)}."
        else:
            near = suggest(column, self.schemas[lacking[0]])
            hint = f"which {lacking[0]} lacks.{near} Every sample must have it."
            if f"/ {own}" in text:
                hint += " In place of a design weight, write one over its mean given columns that all samples have."
        self.problems.add(key, f"{what} reads column {column!r}, {hint}")

    def _require_number(self, key: Key, name: str) -> None:
        """Note a variable that has no mean. Its columns need not be in every sample."""
        kinds = self._kinds(name)
        if not kinds:
            bias = self._parsed(key, f"The variable {name!r}", name)
            if isinstance(bias, ParametricBias):
                self.problems.add(key, f"The variable {name!r} has parameters, which only a bias can have.")
            elif isinstance(bias, LearnedBias | WindowBias):
                self.problems.add(key, f"The variable {name!r} is a window or a learned bias, which has no mean.")
            elif bias is not None and not bias.columns:
                self.problems.add(key, f"The variable {name!r} reads no column, so it is constant.")
            elif bias is not None:
                self._require_somewhere(key, f"The variable {name!r}", bias)
            return
        wrong = [kind for kind in kinds if not (kind.is_numeric() or kind == nw.Boolean)]
        if wrong:
            remedy = f"Only numbers have a mean: write a condition, such as {ticked(name)} == 'a value'."
            what = f"The variable {name!r} holds {_kind_text(wrong[0])}"
            self.problems.add(key, f"{what}. {remedy}{self._said_of_texts([name])}")

    def _kinds(self, name: str) -> list[nw.dtypes.DType]:
        """Return the types of a column in the data that have it."""
        return [found[name] for found in self.schemas.values() if name in found]

    def _require_somewhere(self, key: Key, what: str, bias: Bias) -> None:
        """Note columns that no single sample has together; in samples that do, note comparisons of different kinds."""
        schemas = {data: found for data, found in self.schemas.items() if all(name in found for name in bias.columns)}
        if schemas:
            self._require_kinds(key, what, bias, schemas)
            return
        for column in bias.columns:
            if not any(column in found for found in self.schemas.values()):
                self._require_column(key, what, column)
                return
        if self.schemas:
            listed = ", ".join(map(repr, bias.columns))
            self.problems.add(key, f"{what} reads {listed}, but no sample has all of them. Use columns of one sample.")

    def notes(self) -> tuple[str, ...]:
        """Return what is odd about the columns: text that is mostly numbers."""
        found = [self._said_of_numbers(data, name) for data, own in self.schemas.items() for name in own]
        return tuple(note for note in found if note)

    def _said_of_texts(self, columns: Collection[str]) -> str:
        """Return why a column is read as text: it is the id of a CSV, a code, or nearly a number."""
        for data in self.schemas:
            if data.format == "csv" and data.id in columns:
                return f" {data.id!r} is an id, and ids in a CSV are read as text."
            for name in columns:
                if name in data.codes:
                    return f" {name!r} has digits with leading zeros, which are read as text."
                if said := self._said_of_numbers(data, name):
                    return f" {said}"
        return ""

    def _said_of_numbers(self, data: Data, name: str) -> str:
        """Return which value turns a column of mostly numbers into text; an empty string for any other column."""
        if self.schemas[data].get(name) != nw.String:
            return ""
        value = first_text(data, self.engine, name)
        if value is None:
            return ""
        remedy = "Correct it; a missing value is an empty cell or NA."
        return (
            f"The column {name!r} of {data} is read as text, since it holds {value!r}, which is not a number. {remedy}"
        )

    def _known(self, key: Key, name: str, value: object, names: Mapping[str, object]) -> KnownValue:
        """Return one known value, or one margin with its keys converted to the type of the column."""
        what = f"The known value of {name!r}"
        if isinstance(value, dict):
            return self._margin(key, name, value)
        if not _is_value(value):
            self.problems.add(key, f"{what} must be {A_VALUE}, not {shown(value)}.")
            return nan
        if name in names:
            self._require_sample(key, name, _first(value))
        else:
            bias = self._function(key, what, name)
            if bias is not None and is_condition(bias.node) and not 0 <= _first(value) <= 1:
                self.problems.add(key, f"The share of {name!r} is {_first(value):g}, but a share is {A_SHARE}.")
        return value

    def _require_sample(self, key: Key, name: str, value: float) -> None:
        """Note a known value whose name is both a sample and a column, or that no bias can have."""
        if self.schemas and all(name in found for found in self.schemas.values()):
            remedy = f"Write {_always_ticked(name)} in backticks for the column, or rename one of the two."
            self.problems.add(
                key, f"{name!r} is both a sample and a column, so it is unclear which of them is known. {remedy}"
            )
        if value < 0:
            reason = "It is the mean of a bias, which is never negative."
            self.problems.add(key, f"The known value of {name!r} is {value:g}. {reason}")

    def _function(self, key: Key, what: str, name: str) -> ExpressionBias | None:
        """Return the function whose mean is known, or note what is wrong with it."""
        kinds = self._kinds(name)
        if kinds and len(kinds) == len(self.schemas):
            wrong = [kind for kind in kinds if not (kind.is_numeric() or kind == nw.Boolean)]
            if wrong:
                remedy = f"which has no mean. Give the share of each value in [known.{quoted_key(name)}]."
                self.problems.add(key, f"{what} belongs to a column of {_kind_text(wrong[0])}, {remedy}")
            return None
        bias = self._parsed(key, what, name)
        if isinstance(bias, ParametricBias):
            self.problems.add(key, f"{what} has parameters, which only a bias can have.")
        if not isinstance(bias, ExpressionBias):
            return None
        return bias if self._require_columns(key, what, bias) else None

    def _margin(self, key: Key, name: str, value: Mapping[str, object]) -> dict[str | float, float | list[float]]:
        what = f"The margin of {name!r}"
        shares = {text: share for text, share in value.items() if _is_value(share) and 0 <= _first(share) <= 1}
        if not shares or len(shares) < len(value):
            self.problems.add(key, f"{what} must be a table of the column's values, each with {A_SHARE}.")
            return {}
        total = fsum(map(_first, shares.values()))
        if abs(total - 1.0) > ROUNDING:
            remedy = "Give the shares of all its values, which sum to 1; write the share of one value as a condition."
            self.problems.add(key, f"The shares of {name!r} sum to {total:.6g}. {remedy}")
        self._require_column(key, what, name)
        kinds = self._kinds(name)
        return {_as_kind(text, kinds): share for text, share in shares.items()}


def _kinds_of_rows(schemas: dict[Data, nw.Schema]) -> list[tuple[Data, nw.Schema]]:
    """Return each set of columns once, with the first data that have it: hundreds of samples may share one."""
    first = {tuple(found.items()): (data, found) for data, found in reversed(schemas.items())}
    return list(reversed(first.values()))


def _nodes(bias: Bias) -> tuple[Node, ...]:
    """Return the expressions that a bias in text consists of."""
    if isinstance(bias, ParametricBias):
        assert not isinstance(bias.family, FunctionFamily)
        if isinstance(bias.family, Cells):  # its columns may hold text
            terms = [term for group in bias.family.groups for term in group if not isinstance(term, Column)]
            return (*_nodes(bias.known), *terms)
        return (*_nodes(bias.known), *bias.family.terms)
    if isinstance(bias, WindowBias):
        return (bias.x, *bias.ends, *(() if bias.status is None else (bias.status,)))
    if isinstance(bias, ProductBias):
        return tuple(node for factor in bias.factors for node in _nodes(factor))
    return (bias.node,) if isinstance(bias, ExpressionBias) else ()  # columns of fitted biases may hold text


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


def _is_value(value: object) -> TypeGuard[float | list[float]]:
    """Return whether a TOML value is a number, or a list of a number and its standard error."""
    pair = value if isinstance(value, list) and len(value) == 2 else [value, 0]
    numbers = [part for part in pair if isinstance(part, int | float) and not isinstance(part, bool)]
    return len(numbers) == 2 and all(abs(part) < inf for part in numbers) and numbers[1] >= 0


def _first(value: float | list[float]) -> float:
    return float(value[0] if isinstance(value, list) else value)


def _kind_text(kind: nw.dtypes.DType) -> str:
    """Return what a column holds, in plain words."""
    return "text" if kind == nw.String else "dates" if kind in (nw.Date, nw.Datetime) else f"values of type {kind}"


def ticked(name: str) -> str:
    """Return the name of a column as an expression writes it: in backticks where needed."""
    return str(where(_always_ticked(name)))


def _always_ticked(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

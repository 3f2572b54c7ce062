"""What a document declares: samples, biases, files. Keys, kinds of values and paths are checked here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict, TypeGuard

from vardi._inputs.given import Population
from vardi.errors import suggest
from vardi.study._data import ENGINES, FORMATS, Data, EngineChoice, find_files, identity, is_pattern
from vardi.study._engines import require_table
from vardi.study._locate import Key, Problems, printable

Biases = dict[str, tuple[Key, str | float]]
"""The bias of each name, with its place in the document."""


class DependenceOptions(TypedDict, total=False):
    """How rows depend on one another, as `vardi.debias` takes it: columns, and how many units were drawn from."""

    clusters: str
    series: str
    strata: str
    population: Population


class ValueKind(NamedTuple):
    """What the value of a key may be, what is said of another ``{value}`` of ``{key}``, and where it is ``missing``."""

    holds: Callable[[Any], bool]
    otherwise: str
    missing: str = ""


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a TOML value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


TEXT = ValueKind(_is_text, "{key} must be a string, not {value}.")
COLUMN = ValueKind(_is_text, "{key} must be the name of a column, not {value}.")
BIAS = ValueKind(
    lambda value: isinstance(value, str) or is_number(value),
    "The bias of {name!r} must be an expression in quotes or a number, not {value}.",
    "{name!r} has no bias. Say how its rows were drawn; bias = 1 means at random.",
)
SIZE = ValueKind(
    lambda value: is_number(value) and value > 0,
    "population must be how many units a sample was drawn from, not {value}.",
)
PATHS = ValueKind(
    lambda value: isinstance(value, str) or (_are_texts(value) and bool(value)),
    "data must be a path or a list of paths, not {value}.",
    "{name!r} has no data. Name its file: data = ...",
)
TABLE = ValueKind(_is_text, "{key} must be the name of a table, not {value}.")
LABEL = COLUMN._replace(missing="[pool] has no source: name the column that holds the sample of each row, source = ...")
SOURCE = {"data": PATHS, "table": TABLE, "bias": BIAS, "counts": COLUMN, "id": COLUMN}
POOL = {
    "data": PATHS._replace(missing="The pool has no data. Name its file: data = ..."),
    "table": TABLE,
    "source": LABEL,
    "counts": COLUMN,
    "id": COLUMN,
}
TABLES = ValueKind(_is_table, "{key} must be a table of tables: [{key}.NAME], then its keys.")
STUDY = {
    "title": TEXT,
    "sources": TABLES,
    "pool": ValueKind(_is_table, "pool must be a table: [pool], then data = ... and source = ..."),
    "biases": ValueKind(_is_table, "A [pool] needs [biases] with a line for each sample: NAME = ..."),
    "states": TABLES,
    "variables": ValueKind(
        lambda value: _are_texts(value) and all(name.strip() for name in value),
        "variables must be a list of strings: columns and expressions.",
    ),
    "engine": TEXT,
    "known": ValueKind(
        _is_table, "known must be a table: a sample, a column or a condition, each with its value in the population."
    ),
    "clusters": COLUMN,
    "series": COLUMN,
    "strata": COLUMN,
    "population": ValueKind(lambda value: _is_table(value) or SIZE.holds(value), SIZE.otherwise),
}
DEPENDS: tuple[Literal["clusters", "series", "strata"], ...] = ("clusters", "series", "strata")


class Declarations:
    """One document, without what is wrong in it. Every step notes problems and continues with the rest."""

    def __init__(self, document: dict[str, object], path: Path, problems: Problems) -> None:
        self.path, self.problems = path, problems
        self.names = tuple(document)
        self.document = self._checked((), document, STUDY)

    def title(self) -> str:
        """Return the title, or the name of the file if there is none."""
        return printable(self.document.get("title", self.path.stem))

    def samples(self) -> tuple[dict[Data, Key], str | None, Biases]:
        """Return the data with their places, the label column of a pool, and the biases with theirs."""
        if "pool" in self.names and "sources" in self.names:
            self.problems.add(("pool",), "This study has both [sources.NAME] and [pool]. Keep one of them.")
        if "pool" in self.names:
            return self._pool()
        if "biases" in self.names:
            message = "[biases] goes with a [pool]. A source has its bias beside its data: [sources.NAME] bias = ..."
            self.problems.add(("biases",), message)
        tables = self._tables("sources", SOURCE)
        if not tables:
            message = "There are no samples. Give each a table [sources.NAME] with data and bias."
            self.problems.add(("sources",), message)
        places: dict[Data, Key] = {}
        for name, table in tables.items():
            data = self._data(("sources", name), table, name)
            if data is not None:
                places[data] = ("sources", name)
        return places, None, self._biases("sources", tables)

    def states(self, taken: Mapping[str, object]) -> Biases:
        """Return the biases of states that no sample was drawn from."""
        tables = self._tables("states", {"bias": BIAS})
        for name in tables:
            if name in taken:
                self.problems.add(("states", name), f"{name!r} is already a sample. A state has no sample: rename it.")
        return self._biases("states", tables)

    def engine(self, places: dict[Data, Key]) -> EngineChoice:
        """Return the engine that the study asks for, or "auto"."""
        name = self.document.get("engine", "auto")
        engine = next((one for one in ENGINES if one == name), None)
        if engine is None:
            message = f"There is no engine {name!r}.{suggest(name, ENGINES)} There are {', '.join(ENGINES)}."
            self.problems.add(("engine",), message)
            return "auto"
        for data, key in places.items():
            if engine == "polars" and data.format == "duckdb":
                message = f'Polars cannot read {data.files[0].name}. Write engine = "duckdb" or "auto".'
                self.problems.add(("engine",), message)
            for file in data.files:
                if is_pattern(str(file.resolve())) and (data.format == "jsonl" or engine == "duckdb"):
                    message = f"The path {file} contains *, ? or [, so it would be read as a pattern. Rename it."
                    self.problems.add((*key, "data"), message)
        return engine

    def depends(self, samples: Mapping[str, object]) -> DependenceOptions:
        """Return how rows depend on one another."""
        options = DependenceOptions()
        for what in DEPENDS:
            if what in self.document:
                options[what] = self.document[what]
        if "population" in self.document:
            sizes = options["population"] = self.document["population"]
            named = sizes if isinstance(sizes, dict) else {}
            self._checked(("population",), named, dict.fromkeys(named, SIZE))
            for name in named:
                if name not in samples:
                    message = f"There is no sample {name!r}.{suggest(name, samples)}"
                    self.problems.add(("population", name), message)
        return options

    def require_different(self, places: dict[Data, Key]) -> None:
        """Note files that are read twice, under two names or by two sources: their rows would count twice."""
        first: dict[tuple[tuple[int, int], str | None], tuple[Data, Path]] = {}
        for data, key in places.items():
            for file in data.files:
                other, path = first.setdefault((identity(file), data.table), (data, file))
                if other is not data:
                    message = f"{data.name!r} and {other.name!r} both read {file.name}, so its rows would count twice."
                    self.problems.add((*key, "data"), message)
                elif path is not file:
                    owner = "The pool" if data.name is None else repr(data.name)
                    reads = f"{owner} reads one file twice, as {path} and as {file}"
                    self.problems.add((*key, "data"), f"{reads}, so its rows would count twice. Name it once.")

    def _checked(self, place: Key, table: Mapping[str, object], kinds: Mapping[str, ValueKind]) -> dict[str, Any]:
        """Return the values of a table that are of their kinds; note unknown keys, missing ones, and other values."""
        self.problems.unknown_keys(place, table, kinds)
        values = {}
        for key, kind in kinds.items():
            value = table.get(key)
            if key in table and kind.holds(value):
                values[key] = value
                continue
            message = kind.otherwise if key in table else kind.missing
            if message:
                name = next(iter((*place, key)[1:]), "")
                self.problems.add((*place, key), message.format(key=key, name=name, value=shown(value)))
        return values

    def _pool(self) -> tuple[dict[Data, Key], str | None, Biases]:
        if "pool" not in self.document:
            return {}, None, {}
        table = self._checked(("pool",), self.document["pool"], POOL)
        data = self._data(("pool",), table, None)
        biases = self.document.get("biases", {})
        if not biases:
            self.problems.add(("biases",) if "biases" in self.names else ("pool",), STUDY["biases"].otherwise)
        valid = self._checked(("biases",), biases, dict.fromkeys(biases, BIAS))
        places: dict[Data, Key] = {} if data is None else {data: ("pool",)}
        return places, table.get("source"), {name: (("biases", name), bias) for name, bias in valid.items()}

    def _tables(self, key: str, kinds: Mapping[str, ValueKind]) -> dict[str, dict[str, Any]]:
        """Return the tables in a table, by name."""
        tables = {}
        for name, table in self.document.get(key, {}).items():
            if not isinstance(table, dict):
                self.problems.add((key, name), f"{key}.{name} must be a table: [{key}.{name}], then its keys.")
                continue
            if not name.strip() or not name.isprintable():
                message = f"A name in [{key}] is empty or cannot be printed. Give it another name."
                self.problems.add((key, name), message)
            tables[name] = self._checked((key, name), table, kinds)
        return tables

    def _biases(self, key: str, tables: Mapping[str, dict[str, Any]]) -> Biases:
        return {name: ((key, name, "bias"), table["bias"]) for name, table in tables.items() if "bias" in table}

    def _data(self, key: Key, table: dict[str, Any], name: str | None) -> Data | None:
        """Return where the rows are, or None after noting what is wrong."""
        place, before = (*key, "data"), len(self.problems)
        paths = table.get("data")
        if paths is None:
            return None
        files: list[Path] = []
        for path in [paths] if isinstance(paths, str) else paths:
            with self.problems.noting(place):
                files += [file for file in find_files(path, self.path.parent) if file not in files]
        formats = sorted({FORMATS[file.suffix.lower()] for file in files})
        if len(formats) > 1:
            own = "The pool" if name is None else repr(name)
            message = f"The files of {own} are of several kinds ({', '.join(formats)}). Use one kind for each source."
            self.problems.add(place, message)
        if not files or len(self.problems) > before:
            return None
        data = Data(name, tuple(files), formats[0], table.get("table"), table.get("counts"), table.get("id"))
        return data if self._is_table_right(key, data) else None

    def _is_table_right(self, key: Key, data: Data) -> bool:
        file, problem = data.files[0].name, None
        if data.format != "duckdb":
            problem = f"{file} is not a database, so it has no tables." if data.table is not None else None
        elif data.table is None:
            problem = f"{file} is a database, so a table must be named: table = ..."
        elif len(data.files) > 1:
            problem = "Several databases cannot be read as one. Make each its own source."
        else:
            with self.problems.noting((*key, "data")):
                problem = require_table(data)
        if problem:
            self.problems.add((*key, "data" if data.table is None else "table"), problem)
        return problem is None


def shown(value: object) -> str:
    """Return a value in plain words."""
    kinds = {bool: "true or false", dict: "a table", list: "a list", str: "a string"}
    text = repr(value)
    return kinds.get(type(value), text if len(text) <= 40 else text[:37] + "...") if value != "" else "empty"

"""What a document declares: samples, biases, files. Keys, kinds of values and paths are checked here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypedDict

from vardi._inputs.given import Population
from vardi.errors import suggest
from vardi.study._data import ENGINES, FORMATS, Data, EngineChoice, find_files, identity, is_pattern
from vardi.study._engines import require_table
from vardi.study._locate import Key, Problems, printable

DEPENDS: tuple[Literal["clusters", "series", "strata"], ...] = ("clusters", "series", "strata")
KEYS = ("title", "sources", "pool", "biases", "states", "variables", "engine", "known", *DEPENDS, "population")
SOURCE_KEYS = ("data", "table", "bias", "counts", "id")
POOL_KEYS = ("data", "table", "source", "counts", "id")

Biases = dict[str, tuple[Key, str | float]]
"""The bias of each name, with its place in the document."""


class DependenceOptions(TypedDict, total=False):
    """How rows depend on one another, as `vardi.debias` takes it: columns, and how many units were drawn from."""

    clusters: str
    series: str
    strata: str
    population: Population


class Declarations:
    """One document. Every step notes problems and continues with the rest."""

    def __init__(self, document: dict[str, object], path: Path, problems: Problems) -> None:
        self.document, self.path, self.problems = document, path, problems
        problems.unknown_keys((), document, KEYS)

    def title(self) -> str:
        """Return the title, or the name of the file if there is none."""
        return printable(self._value((), self.document, "title", "a string") or self.path.stem)

    def samples(self) -> tuple[dict[Data, Key], str | None, Biases]:
        """Return the data with their places, the label column of a pool, and the biases with theirs."""
        if "pool" in self.document and "sources" in self.document:
            self.problems.add(("pool",), "This study has both [sources.NAME] and [pool]. Keep one of them.")
        if "pool" in self.document:
            return self._pool()
        if "biases" in self.document:
            message = "[biases] goes with a [pool]. A source has its bias beside its data: [sources.NAME] bias = ..."
            self.problems.add(("biases",), message)
        tables = self._tables("sources")
        if not tables:
            message = "There are no samples. Give each a table [sources.NAME] with data and bias."
            self.problems.add(("sources",), message)
        places: dict[Data, Key] = {}
        for name, table in tables.items():
            self.problems.unknown_keys(("sources", name), table, SOURCE_KEYS)
            data = self._data(("sources", name), table, name)
            if data is not None:
                places[data] = ("sources", name)
        biases: dict[Key, object] = {("sources", name, "bias"): table.get("bias") for name, table in tables.items()}
        return places, None, self._biases(biases)

    def states(self, taken: Mapping[str, object]) -> Biases:
        """Return the biases of states that no sample was drawn from."""
        tables = self._tables("states")
        for name, table in tables.items():
            self.problems.unknown_keys(("states", name), table, ("bias",))
            if name in taken:
                self.problems.add(("states", name), f"{name!r} is already a sample. A state has no sample: rename it.")
        return self._biases({("states", name, "bias"): table.get("bias") for name, table in tables.items()})

    def engine(self, places: dict[Data, Key]) -> EngineChoice:
        """Return the engine that the study asks for, or "auto"."""
        asked = self._value((), self.document, "engine", "a string") or "auto"
        engine = next((one for one in ENGINES if one == asked), None)
        if engine is None:
            message = f"There is no engine {asked!r}.{suggest(asked, ENGINES)} There are {', '.join(ENGINES)}."
            self.problems.add(("engine",), message)
            return "auto"
        for data, key in places.items():
            if asked == "polars" and data.format == "duckdb":
                message = f'Polars cannot read {data.files[0].name}. Write engine = "duckdb" or "auto".'
                self.problems.add(("engine",), message)
            for file in data.files:
                if is_pattern(str(file.resolve())) and (data.format == "jsonl" or asked == "duckdb"):
                    message = f"The path {file} contains *, ? or [, so it would be read as a pattern. Rename it."
                    self.problems.add((*key, "data"), message)
        return engine

    def require_different(self, places: dict[Data, Key]) -> None:
        """Note files that two sources read: their rows would count twice."""
        owner: dict[tuple[tuple[int, int], str | None], Data] = {}
        for data, key in places.items():
            for file in data.files:
                other = owner.setdefault((identity(file), data.table), data)
                if other is not data:
                    message = f"{data.name!r} and {other.name!r} both read {file.name}, so its rows would count twice."
                    self.problems.add((*key, "data"), message)

    def _pool(self) -> tuple[dict[Data, Key], str | None, Biases]:
        table = self.document["pool"]
        if not isinstance(table, dict):
            self.problems.add(("pool",), "pool must be a table: [pool], then data = ... and source = ...")
            return {}, None, {}
        self.problems.unknown_keys(("pool",), table, POOL_KEYS)
        label = self._value(("pool",), table, "source", "the name of a column")
        if "source" not in table:
            message = "[pool] has no source: name the column that holds the sample of each row, source = ..."
            self.problems.add(("pool",), message)
        data = self._data(("pool",), table, None)
        given = self.document.get("biases")
        if not isinstance(given, dict) or not given:
            message = "A [pool] needs [biases] with a line for each sample: NAME = ..."
            self.problems.add(("biases",) if "biases" in self.document else ("pool",), message)
            given = {}
        biases = self._biases({("biases", name): text for name, text in given.items()})
        return ({} if data is None else {data: ("pool",)}), label, biases

    def _tables(self, key: str) -> dict[str, dict[str, object]]:
        found = self.document.get(key, {})
        if not isinstance(found, dict):
            self.problems.add((key,), f"{key} must be a table of tables: [{key}.NAME], then its keys.")
            return {}
        for name, table in found.items():
            if not isinstance(table, dict):
                self.problems.add((key, name), f"{key}.{name} must be a table: [{key}.{name}], then its keys.")
            elif not name.strip() or not name.isprintable():
                message = f"A name in [{key}] is empty or cannot be printed. Give it another name."
                self.problems.add((key, name), message)
        return {name: table for name, table in found.items() if isinstance(table, dict)}

    def _value(self, key: Key, table: dict[str, object], name: str, wanted: str) -> str | None:
        value = table.get(name)
        if value is None or (isinstance(value, str) and value != ""):
            return value
        self.problems.add((*key, name), f"{name} must be {wanted}, not {shown(value)}.")
        return None

    def _biases(self, given: Mapping[Key, object]) -> Biases:
        """Return the valid ones of some biases, which are given by their places; the second part is the name."""
        biases: Biases = {}
        for key, value in given.items():
            if value is None:
                message = f"{key[1]!r} has no bias. Say how its rows were drawn; bias = 1 means at random."
                self.problems.add(key, message)
            elif isinstance(value, str | int | float) and not isinstance(value, bool):
                biases[key[1]] = (key, value)
            else:
                message = f"The bias of {key[1]!r} must be an expression in quotes or a number, not {shown(value)}."
                self.problems.add(key, message)
        return biases

    def _data(self, key: Key, table: dict[str, object], name: str | None) -> Data | None:
        """Return where the rows are, or None after noting what is wrong."""
        before = len(self.problems)
        given = table.get("data")
        paths = [given] if isinstance(given, str) else given
        own = "The pool" if name is None else repr(name)
        if paths is None:
            self.problems.add(key, f"{own} has no data. Name its file: data = ...")
            return None
        if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
            self.problems.add((*key, "data"), f"data must be a path or a list of paths, not {shown(given)}.")
            return None
        files: list[Path] = []
        for path in paths:
            with self.problems.noting((*key, "data")):
                files += [found for found in find_files(path, self.path.parent) if found not in files]
        self._require_once((*key, "data"), own, files)
        columns = {what: self._value(key, table, what, "the name of a column") for what in ("counts", "id")}
        tabled = self._value(key, table, "table", "the name of a table")
        formats = sorted({FORMATS[file.suffix.lower()] for file in files})
        if len(formats) > 1:
            message = f"The files of {own} are of several kinds ({', '.join(formats)}). Use one kind for each source."
            self.problems.add((*key, "data"), message)
        if not files or len(self.problems) > before:
            return None
        data = Data(name, tuple(files), formats[0], tabled, columns["counts"], columns["id"])
        return data if self._is_table_right(key, data) else None

    def _require_once(self, key: Key, own: str, files: list[Path]) -> None:
        """Note files that a sample reads under two names: their rows would count twice."""
        first: dict[tuple[int, int], Path] = {}
        for file in files:
            other = first.setdefault(identity(file), file)
            if other is not file:
                message = f"{own} reads one file twice, as {other} and as {file}, so its rows would count twice."
                self.problems.add(key, f"{message} Name it once.")

    def _is_table_right(self, key: Key, data: Data) -> bool:
        problem = None
        if data.format != "duckdb":
            file = data.files[0].name
            problem = f"{file} is not a database, so it has no tables." if data.table is not None else None
        elif data.table is None:
            problem = f"{data.files[0].name} is a database, so a table must be named: table = ..."
        elif len(data.files) > 1:
            problem = "Several databases cannot be read as one. Make each its own source."
        else:
            with self.problems.noting((*key, "data")):
                problem = require_table(data)
        if problem:
            self.problems.add((*key, "data") if data.table is None else (*key, "table"), problem)
        return problem is None


def shown(value: object) -> str:
    """Return a value in plain words."""
    kinds = {bool: "true or false", dict: "a table", list: "a list", str: "a string"}
    text = repr(value)
    return kinds.get(type(value), text if len(text) <= 40 else text[:37] + "...") if value != "" else "empty"

"""Read a study from TOML, check all of it, and report all problems at once.

Keys, kinds of values and paths are checked here, and what is read of the files in `_columns`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vardi.errors import StudyError, suggest
from vardi.study._columns import Columns
from vardi.study._data import (
    ENGINES,
    FORMATS,
    Data,
    EngineChoice,
    choose_engine,
    find_files,
    is_pattern,
    suggest_file,
)
from vardi.study._engines import require_table, with_codes
from vardi.study._study import DEPENDS, DependenceOptions, Study
from vardi.study._toml import Biases, Key, Problems, is_number, load, printable, shown, table_of

Table = dict[str, Any]
"""A table of the document whose values are of their kinds."""


class ValueKind(NamedTuple):
    """What the value of a key may be, what is said of another ``{value}`` of ``{key}``, and where it is ``missing``."""

    holds: Callable[[Any], bool]
    otherwise: str
    missing: str = ""


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


class Declarations:
    """One document, without what is wrong in it. Every step notes problems and continues with the rest."""

    def __init__(self, document: dict[str, object], path: Path, problems: Problems) -> None:
        self.path, self.problems = path, problems
        self.names = tuple(document)
        self.document = self._checked((), document, STUDY)

    def samples(self) -> tuple[Sequence[Data], str | None, Biases]:
        """Return the data, the label column of a pool, and the biases with their places."""
        if "pool" in self.names:
            if "sources" in self.names:
                self.problems.add(("pool",), "This study has both [sources.NAME] and [pool]. Keep one of them.")
            return self._pool()
        if "biases" in self.names:
            message = "[biases] goes with a [pool]. A source has its bias beside its data: [sources.NAME] bias = ..."
            self.problems.add(("biases",), message)
        tables = self._tables("sources", SOURCE)
        if not tables:
            message = "There are no samples. Give each a table [sources.NAME] with data and bias."
            self.problems.add(("sources",), message)
        data = [self._data(name, table) for name, table in tables.items()]
        return list(filter(None, data)), None, self._biases("sources", tables)

    def states(self, taken: Mapping[str, object]) -> Biases:
        """Return the biases of states that no sample was drawn from."""
        tables = self._tables("states", {"bias": BIAS})
        for name in tables:
            if name in taken:
                self.problems.add(("states", name), f"{name!r} is already a sample. A state has no sample: rename it.")
        return self._biases("states", tables)

    def engine(self, data: Sequence[Data]) -> EngineChoice:
        """Return the engine that the study asks for, or "auto"."""
        name = self.document.get("engine", "auto")
        engine = next((one for one in ENGINES if one == name), None)
        if engine is None:
            message = f"There is no engine {name!r}.{suggest(name, ENGINES)} There are {', '.join(ENGINES)}."
            self.problems.add(("engine",), message)
            return "auto"
        for one in data:
            if engine == "polars" and one.format == "duckdb":
                message = f'Polars cannot read {one.files[0].name}. Write engine = "duckdb" or "auto".'
                self.problems.add(("engine",), message)
            for file in one.files:
                if is_pattern(str(file.resolve())) and (one.format == "jsonl" or engine == "duckdb"):
                    message = f"The path {file} contains *, ? or [, so it would be read as a pattern. Rename it."
                    self.problems.add((*table_of(one.name), "data"), message)
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

    def require_different(self, data: Sequence[Data]) -> None:
        """Note files that are read twice, under two names or by two sources: their rows would count twice."""
        first: dict[tuple[int, int, str | None], tuple[Data, Path]] = {}
        for one in data:
            for file in one.files:
                found = file.stat()  # the same for all paths to one file, through links or written in different ways
                other, path = first.setdefault((found.st_dev, found.st_ino, one.table), (one, file))
                if path is file:
                    continue
                reads = f"{one.name!r} and {other.name!r} both read {file.name}, so its rows would count twice."
                if other is one:
                    reads = f"{_owner(one.name)} reads one file twice, as {path} and as {file}, so its rows would count"
                    reads += " twice. Name it once."
                self.problems.add((*table_of(one.name), "data"), reads)

    def _checked(self, place: Key, table: Mapping[str, object], kinds: Mapping[str, ValueKind]) -> Table:
        """Return the values of a table that are of their kinds; note unknown keys, missing ones, and other values."""
        where = f"[{'.'.join(place)}]" if place else "a study"
        for key in table:
            if key not in kinds:
                message = f"Unknown key {key!r}.{suggest(key, kinds)} The keys of {where} are {', '.join(kinds)}."
                self.problems.add((*place, key), message)
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

    def _pool(self) -> tuple[Sequence[Data], str | None, Biases]:
        if "pool" not in self.document:
            return [], None, {}
        table = self._checked(("pool",), self.document["pool"], POOL)
        data = self._data(None, table)
        biases = self.document.get("biases", {})
        if not biases:
            self.problems.add(("biases",) if "biases" in self.names else ("pool",), STUDY["biases"].otherwise)
        valid = self._checked(("biases",), biases, dict.fromkeys(biases, BIAS))
        places: Biases = {name: (("biases", name), bias) for name, bias in valid.items()}
        return [data] if data else [], table.get("source"), places

    def _tables(self, key: str, kinds: Mapping[str, ValueKind]) -> dict[str, Table]:
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

    def _biases(self, key: str, tables: Mapping[str, Table]) -> Biases:
        return {name: ((key, name, "bias"), table["bias"]) for name, table in tables.items() if "bias" in table}

    def _data(self, name: str | None, table: Table) -> Data | None:
        """Return where the rows are, or None after noting what is wrong."""
        key, before = table_of(name), len(self.problems)
        paths = table.get("data", [])
        files: list[Path] = []
        for path in [paths] if isinstance(paths, str) else paths:
            with self.problems.noting((*key, "data")):
                files += [file for file in find_files(path, self.path.parent) if file not in files]
        formats = sorted({FORMATS[file.suffix.lower()] for file in files})
        if len(formats) > 1:
            kinds = f"are of several kinds ({', '.join(formats)}). Use one kind for each source."
            self.problems.add((*key, "data"), f"The files of {_owner(name)} {kinds}")
        if not files or len(self.problems) > before:
            return None
        data = Data(name, tuple(files), formats[0], table.get("table"), table.get("counts"), table.get("id"))
        with self.problems.noting((*key, "data")):
            problem = _table_problem(data)
            if problem is not None:
                self.problems.add((*key, "data" if data.table is None else "table"), problem)
                return None
        return data


def _table_problem(data: Data) -> str | None:
    """Return what is wrong with the table that is named, or not named."""
    file = data.files[0].name
    if data.format != "duckdb":
        return None if data.table is None else f"{file} is not a database, so it has no tables."
    if data.table is None:
        return f"{file} is a database, so a table must be named: table = ..."
    if len(data.files) > 1:
        return "Several databases cannot be read as one. Make each its own source."
    return require_table(data)


def _owner(name: str | None) -> str:
    return "The pool" if name is None else repr(name)


def read(path: str | os.PathLike[str]) -> Study:
    r"""Read a study file, and check all of it before anything runs.

    Parameters
    ----------
    path : path
        A TOML file; paths in it are relative to its folder.

    Returns
    -------
    Study
        With ``verdict()`` and ``fit()``.

    Raises
    ------
    StudyError
        With every problem found, each with its line: unknown keys, missing files and tables, columns that no file
        has, expressions that do not parse or that compare numbers with text.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import vardi
    >>> folder = tempfile.TemporaryDirectory()
    >>> study = Path(folder.name) / "study.toml"
    >>> _ = (study.parent / "plain.csv").write_text("length\n1\n2\n4\n")
    >>> _ = (study.parent / "seen.csv").write_text("length\n2\n4\n4\n8\n")
    >>> _ = study.write_text('''
    ... [sources.plain]
    ... data = "plain.csv"
    ... bias = "1"
    ... [sources.seen]
    ... data = "seen.csv"
    ... bias = "lenght"
    ... ''')
    >>> vardi.study.read(study)
    Traceback (most recent call last):
    ...
    vardi.errors.StudyError: study.toml cannot be run (1 problem):
      line 7: The bias of 'seen' reads column 'lenght', which no file has. Did you mean 'length'? ...
    >>> _ = study.write_text(study.read_text().replace("lenght", "length"))
    >>> print(round(vardi.study.read(study).fit().omegas["seen"], 3))
    2.905
    >>> folder.cleanup()
    """
    path = Path(path)
    if path.suffix.lower() in FORMATS and path.is_file():
        raise StudyError(
            f"{path} holds data. A study is a TOML file that names data files and how they were drawn. Write one "
            f"with: vardi init --source {path.stem}={path}"
        )
    return parse(_text(path), path)


def parse(text: str, path: Path) -> Study:
    """Return the study that a text describes, as if it were in a file at this path."""
    document, problems = load(text, path.name)
    declared = Declarations(document, path, problems)
    data, label, biases = declared.samples()
    biases |= declared.states(biases)
    declared.require_different(data)
    engine = choose_engine(declared.engine(data), data)
    data = with_codes(data, engine)
    columns = Columns(data, engine, problems)
    columns.require_biases(biases)
    columns.require_own(label)
    texts = {name: text for name, (_, text) in biases.items()}
    variables, depends = tuple(declared.document.get("variables", ())), declared.depends(texts)
    columns.require_variables(variables)
    columns.require_depends(depends)
    known = columns.known(declared.document.get("known", {}), texts)
    title, notes = printable(declared.document.get("title", path.stem)), columns.notes()
    problems.require_none()
    return Study(path, title, tuple(data), texts, label, variables, engine, known, notes, depends)


def _text(path: Path, most_bytes: int = 1_000_000) -> str:
    try:
        if path.is_dir():
            raise StudyError(f"{path} is a folder. Name the study file in it.")
        if path.stat().st_size > most_bytes:
            raise StudyError(f"{path} has {path.stat().st_size:,} bytes, which is too many for a study.")
        return path.read_text(encoding="utf-8-sig")  # some editors write a byte order mark
    except FileNotFoundError:
        others = sorted(path.parent.glob("*.toml")) if path.parent.is_dir() else []
        remedy = suggest_file(path, others) or " Write one with: vardi init"
        raise StudyError(f"There is no study {path}.{remedy}") from None
    except UnicodeDecodeError:
        raise StudyError(f"{path} is not UTF-8 text, so it is not a study.") from None
    except StudyError:
        raise
    except (OSError, ValueError) as error:
        raise StudyError(f"{path} cannot be read: {str(error).rstrip('.')}.") from None

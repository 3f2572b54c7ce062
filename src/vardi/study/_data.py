"""Which files a study names, and the engine that reads them. Nothing here opens more than a folder listing."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vardi._machine import available_memory
from vardi.errors import StudyError, suggest
from vardi.errors._texts import first_of

Format = Literal["csv", "parquet", "jsonl", "duckdb"]
Engine = Literal["memory", "polars", "duckdb"]
EngineChoice = Engine | Literal["auto"]

FORMATS: dict[str, Format] = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".duckdb": "duckdb",
    ".db": "duckdb",
}
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
ENGINES: tuple[EngineChoice, ...] = ("auto", "memory", "polars", "duckdb")
READABLE = "a .csv, .parquet, .jsonl or .ndjson file, or a .duckdb or .db database with its table"


@dataclass(frozen=True)
class Data:
    """Where the rows of one sample are, or those of the pool.

    Attributes
    ----------
    name : str or None
        The sample; None for a pool of all samples.
    files : tuple of Path
        In the order in which their rows are counted.
    format : str
        How they are read; one for all files.
    table : str or None
        The table, for a database.
    counts, id : str or None
        Columns with the number of rows that a row stands for, and with its id.
    codes : tuple of str
        Columns of digits with leading zeros, which are read as text from a CSV.
    """

    name: str | None
    files: tuple[Path, ...]
    format: Format
    table: str | None = None
    counts: str | None = None
    id: str | None = None
    codes: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of a CSV that are text, whatever they look like: there 007 and 3e5 are not numbers."""
        return tuple(dict.fromkeys((*self.codes, *([] if self.id is None else [self.id]))))

    def __str__(self) -> str:
        first = self.files[0].name + (f" (table {self.table})" if self.table else "")
        return first if len(self.files) == 1 else f"{first} and {len(self.files) - 1} more"


def find_files(text: str, folder: Path) -> list[Path]:
    """Return the data files that a path or a pattern names, sorted by name, or refuse it.

    Examples
    --------
    >>> find_files("https://example.org/a.csv", Path("."))
    Traceback (most recent call last):
    ...
    vardi.errors.StudyError: https://example.org/a.csv is remote, and a study reads local files only. Copy it \
beside the study.
    """
    if "://" in text:
        raise StudyError(f"{text} is remote, and a study reads local files only. Copy it beside the study.")
    try:
        found = _found(text, folder)
        for path in found:
            _require_data_file(path)
    except StudyError:
        raise
    except PermissionError as error:
        raise StudyError(f"{error.filename} cannot be read: permission denied. Change its permissions.") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise StudyError(f"{text!r} cannot be read: {reason}.") from error
    return found


def choose_engine(asked: EngineChoice, data: Sequence[Data], room: int = 8) -> Engine:
    """Return the engine; "auto" is memory if it has ``room`` times the files, otherwise one that leaves them there."""
    if asked != "auto":
        return asked
    size = sum(path.stat().st_size for one in data for path in one.files)
    if size * room <= available_memory():
        return "memory"
    return "duckdb" if any(one.format == "duckdb" for one in data) else "polars"


def is_pattern(text: str) -> bool:
    """Return whether an engine would read a path as a pattern."""
    return any(letter in text for letter in "*?[")


def data_files(folder: Path) -> list[Path]:
    """Return the data files of a folder, sorted by name."""
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in FORMATS and path.is_file())


def listed_files(folder: Path, most: int = 12) -> str:
    """Return the names of a folder's data files, or the first of many; an empty string if there are none."""
    return first_of((path.name for path in data_files(folder)), most)


def suggest_file(path: Path, others: Iterable[Path]) -> str:
    """Return ``" Did you mean 'x'?"`` for a file with a similar name, whatever its suffix.

    Examples
    --------
    >>> suggest_file(Path("agancy.csv"), [Path("agency.csv"), Path("b.csv")])
    " Did you mean 'agency.csv'?"
    >>> suggest_file(Path("a.csv"), [Path("agency.csv"), Path("b.csv")])
    ''
    """
    return suggest(path.name, [other.name for other in others if suggest(path.stem, [other.stem])])


def _found(text: str, folder: Path) -> list[Path]:
    path = folder / text
    if not text.strip():
        raise StudyError("The path is empty. Name a file.")
    if path.exists() or not is_pattern(text):
        return [path]
    matches = sorted(glob.glob(text, root_dir=folder, recursive=True))
    if not matches:
        raise StudyError(f"No file matches {text} in {folder}.")
    return [folder / match for match in matches]


def _require_data_file(path: Path) -> None:
    if not path.exists():
        raise StudyError(f"There is no file {path}.{_nearest(path)}")
    if not path.is_file():
        what = "a folder" if path.is_dir() else "not a regular file"
        raise StudyError(f"{path} is {what}. Name {READABLE}; a pattern such as *.csv takes several files.")
    for suffix in {path.suffix.lower(), path.resolve().suffix.lower()}:  # a link must not lead to another kind of file
        if suffix not in FORMATS:
            remedy = "Save its sheet as CSV UTF-8" if suffix in SPREADSHEETS else f"Name {READABLE}"
            raise StudyError(f"{path} is not a kind of file that vardi reads. {remedy}.")
    path.open("rb").close()  # fails now if it may not be read


def _nearest(path: Path) -> str:
    if not path.parent.is_dir():
        return f" There is no folder {path.parent} either."
    listed = listed_files(path.parent)
    there = f" Its folder has: {listed}." if listed else " Its folder has no data files."
    return suggest_file(path, data_files(path.parent)) or there

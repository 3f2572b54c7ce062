"""Find the line of each key in a TOML text, and say what is wrong there: the standard library knows no lines."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from vardi.errors import StudyError, suggest

Key = tuple[str, ...]
_STRINGS = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")'
    r"|'''.*?'{3,5}(?!')"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_PART = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|[^\s.=\[\]\"'#]+")


def key_lines(text: str) -> dict[Key, int]:
    r"""Return the line, from 1, of every table and key that stands on a line of its own.

    Keys inside inline tables are not listed, only the key of the table. The text must be valid TOML.

    Examples
    --------
    >>> key_lines('title = "a"\n[sources.agency]\ndata = [\n  "a.csv",\n]\nbias = "1"')[("sources", "agency", "bias")]
    6
    """
    lines: dict[Key, int] = {}
    table: Key = ()
    line, position = 1, 0
    while position < len(text):
        end = _statement_end(text, position)
        statement = text[position:end]
        start = statement.lstrip()
        if start.startswith("["):
            table = _path(start.lstrip("[ \t"), "]")
            _note(lines, table, line)
        elif start and not start.startswith("#"):
            _note(lines, (*table, *_path(start, "=")), line)
        line += statement.count("\n") + 1
        position = end + 1
    return lines


def line_of(lines: dict[Key, int], key: Key) -> int | None:
    """Return the line of a key, or of the nearest table around it."""
    while key and key not in lines:
        key = key[:-1]
    return lines.get(key)


def _note(lines: dict[Key, int], key: Key, line: int) -> None:
    for length in range(1, len(key) + 1):
        lines.setdefault(key[:length], line)


def _statement_end(text: str, position: int) -> int:
    """Return where the statement ends: at a line end outside strings, brackets and comments."""
    depth = 0
    while position < len(text):
        letter = text[position]
        if letter in "\"'" and (string := _STRINGS.match(text, position)):
            position = string.end()
            continue
        if letter == "#":
            line_end = text.find("\n", position)
            position = len(text) if line_end < 0 else line_end
            continue
        depth += (letter in "[{") - (letter in "]}")
        if letter == "\n" and depth <= 0:
            return position
        position += 1
    return position


def _path(text: str, end: str) -> Key:
    """Return the parts of a dotted key, up to a given character."""
    parts, position = [], 0
    while position < len(text) and text[position] != end:
        part = _PART.match(text, position)
        if part is None:
            position += 1
            continue
        parts.append(_unquoted(part.group()))
        position = part.end()
    return tuple(parts)


def _unquoted(part: str) -> str:
    if part[0] in "\"'":
        return str(tomllib.loads(f"x = {part}")["x"])
    return part


class Problems:
    """A list of problems with their lines, raised together as one `StudyError`."""

    def __init__(self, file: str, lines: dict[Key, int]) -> None:
        self._file, self._lines = file, lines
        self._found: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, key: Key, message: str) -> None:
        """Note what is wrong with a key."""
        problem = (line_of(self._lines, key) or 1, printable(message))
        if problem not in self._found:
            self._found.append(problem)

    def unknown_keys(self, place: Key, table: dict[str, object], allowed: Collection[str]) -> None:
        """Note the unknown keys of a table."""
        where = f"[{'.'.join(place)}]" if place else "a study"
        for key in table:
            if key not in allowed:
                message = f"Unknown key {key!r}.{suggest(key, allowed)} The keys of {where} are {', '.join(allowed)}."
                self.add((*place, key), message)

    @contextmanager
    def noting(self, key: Key) -> Iterator[None]:
        """Note a reading error raised in the block, and continue after it."""
        try:
            yield
        except (StudyError, ImportError) as error:
            self.add(key, str(error))

    def require_none(self) -> None:
        """Raise one error for all problems found, in line order."""
        if not self._found:
            return
        problems = [f"line {line}: {message}" for line, message in sorted(self._found, key=lambda found: found[0])]
        raise study_error(self._file, problems)


def printable(text: str) -> str:
    r"""Return a text with its control characters, which could move a terminal's cursor, escaped.

    Examples
    --------
    >>> print(printable("a\x1b[2J"))
    a\x1b[2J
    """
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def study_error(file: str, problems: list[str]) -> StudyError:
    """Return one error for all problems of a file."""
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    listed = "".join(f"\n  {problem}" for problem in problems)
    return StudyError(f"{file} cannot be run ({count}):{listed}", problems=problems)

"""Find the line of each key in a TOML text, and say what is wrong there; write texts and keys in TOML.

The standard library tells no lines, and does not write TOML.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import takewhile

from vardi.errors import StudyError, suggest

Key = tuple[str, ...]
_TOKEN = re.compile(  # a string, a comment, or what begins or ends a list, a table or a line
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")'
    r"|'''.*?'{3,5}(?!')"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*|[\[\]{}\n]",
    re.DOTALL,
)
_PART = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|[^\s.=\[\]\"'#]+|[=\]]")  # of a key, or the sign that ends it


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
    line = 1
    for statement in _statements(text):
        start = statement.lstrip()
        if start and not start.startswith("#"):
            key = _path(start) if start.startswith("[") else (*table, *_path(start))
            table = key if start.startswith("[") else table
            for length in range(1, len(key) + 1):
                lines.setdefault(key[:length], line)
        line += statement.count("\n") + 1
    return lines


def line_of(lines: dict[Key, int], key: Key) -> int | None:
    """Return the line of a key, or of the nearest table around it."""
    while key and key not in lines:
        key = key[:-1]
    return lines.get(key)


def _statements(text: str) -> Iterator[str]:
    """Yield the statements of a document: they end at a line end outside strings, brackets and comments."""
    start = depth = 0
    for token in _TOKEN.finditer(text):
        depth += (token[0] in "[{") - (token[0] in "]}")
        if token[0] == "\n" and depth <= 0:
            yield text[start : token.start()]
            start, depth = token.end(), 0
    yield text[start:]


def _path(statement: str) -> Key:
    """Return the parts of the dotted key that a statement begins with."""
    parts = takewhile(lambda part: part not in ("=", "]"), (found[0] for found in _PART.finditer(statement)))
    return tuple(map(_unquoted, parts))


def _unquoted(part: str) -> str:
    if part[0] in "\"'":
        return str(tomllib.loads(f"x = {part}")["x"])
    return part


def quoted(text: str) -> str:
    r"""Return a text as a basic TOML string.

    Examples
    --------
    >>> print(quoted('say "hi" \\'))
    "say \"hi\" \\"
    """
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    letters = (escapes.get(letter, letter if letter.isprintable() else f"\\U{ord(letter):08X}") for letter in text)
    return f'"{"".join(letters)}"'


def quoted_key(text: str) -> str:
    """Return a TOML key, in quotes if it needs them."""
    bare = text.isascii() and text.replace("-", "").replace("_", "").isalnum()
    return text if bare else quoted(text)


class Problems:
    """A list of problems with their lines, raised together as one `StudyError`."""

    def __init__(self, file: str, lines: dict[Key, int]) -> None:
        self._file, self._lines = file, lines
        self._found: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, key: Key, *messages: str) -> None:
        """Note what is wrong with a key."""
        for message in messages:
            problem = (line_of(self._lines, key) or 1, printable(message))
            if problem not in self._found:
                self._found.append(problem)

    def unknown_keys(self, place: Key, table: Iterable[str], allowed: Collection[str]) -> None:
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

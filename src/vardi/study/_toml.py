"""Read TOML with the line of each key, so that a problem can say where it is; write texts and keys in TOML.

The standard library tells no lines, and does not write TOML.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeGuard

from vardi.errors import StudyError
from vardi.errors._texts import shortened
from vardi.study._engines import first_line

Key = tuple[str, ...]
Biases = dict[str, tuple[Key, str | float]]
"""The bias of each name, with its place in the document."""

MAX_PARTS = 100
_KEY_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
# Python's TOML parser is quadratic in the length of a dotted key: minutes for one of 100 kB.
_LONG_KEY = re.compile(rf"(?<![\w.-])(?:{_KEY_PART}\.[ \t]*+){{{MAX_PARTS}}}")
_TOKEN = re.compile(  # a string, a comment, or what begins or ends a list, a table or a line
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")'
    r"|'''.*?'{3,5}(?!')"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*|[\[\]{}\n]",
    re.DOTALL,
)


def load(text: str, file: str) -> tuple[dict[str, object], Problems]:
    """Return a document, and the list on which its problems are noted; raise at once for what is not TOML."""
    long_key = _LONG_KEY.search(text)
    if long_key:
        line = text.count("\n", 0, long_key.start()) + 1
        raise _error(file, f"line {line}: A key has more than {MAX_PARTS} parts, and no study needs that many.")
    try:
        return tomllib.loads(text), Problems(file, key_lines(text))
    except tomllib.TOMLDecodeError as error:
        raise _error(file, _syntax(str(error), text)) from error
    except ValueError as error:  # an integer with thousands of digits
        raise _error(file, f"It is not valid TOML: {first_line(error)}") from error
    except RecursionError as error:
        raise _error(file, "line 1: It is nested too deeply to be read.") from error


def key_lines(text: str) -> dict[Key, int]:
    r"""Return the line, from 1, where each table and key is declared. The text must be valid TOML.

    Examples
    --------
    >>> key_lines('title = "a"\n[sources.agency]\ndata = [\n  "a.csv",\n]\nbias = "1"')[("sources", "agency", "bias")]
    6
    """
    lines: dict[Key, int] = {}
    table: Key = ()
    line = 1
    for statement in _statements(text):
        is_header = statement.lstrip().startswith("[")
        table = () if is_header else table
        declared = [(*table, *key) for key in _keys(tomllib.loads(statement))]
        for key in declared:
            lines.setdefault(key, line)
        table = declared[-1] if is_header else table
        line += statement.count("\n")
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
            yield text[start : token.end()]
            start, depth = token.end(), 0
    yield text[start:]


def _keys(table: Mapping[str, object]) -> Iterator[Key]:
    """Yield the keys of a table, each followed by those of the table that it holds."""
    for name, value in table.items():
        yield (name,)
        if isinstance(value, dict):
            yield from ((name, *key) for key in _keys(value))


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
        self._found: dict[tuple[int, str], None] = {}  # each once, in the order in which they were noted

    def __len__(self) -> int:
        return len(self._found)

    def add(self, key: Key, message: str) -> None:
        """Note what is wrong with a key."""
        self._found[line_of(self._lines, key) or 1, printable(message)] = None

    def check(self, key: Key, messages: Iterable[str]) -> None:
        """Note what a check yields, and the reading error in which it ends."""
        with self.noting(key):
            for message in messages:
                self.add(key, message)

    @contextmanager
    def noting(self, key: Key) -> Iterator[None]:
        """Note a reading error raised in the block, and continue after it."""
        try:
            yield
        except (StudyError, ImportError) as error:
            self.add(key, str(error))

    def require_none(self) -> None:
        """Raise one error for all problems found, in line order."""
        if self._found:
            problems = sorted(self._found, key=lambda problem: problem[0])
            raise _error(self._file, *(f"line {line}: {message}" for line, message in problems))


def printable(text: str) -> str:
    r"""Return a text with its control characters, which could move a terminal's cursor, escaped.

    Examples
    --------
    >>> print(printable("a\x1b[2J"))
    a\x1b[2J
    """
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def table_of(sample: str | None) -> Key:
    """Return where a sample is declared; a pool has no name."""
    return ("pool",) if sample is None else ("sources", sample)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a TOML value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: object) -> str:
    """Return a TOML value in plain words."""
    kinds = {bool: "true or false", dict: "a table", list: "a list", str: "a string" if value else "empty"}
    return kinds.get(type(value), shortened(repr(value), 40))


def _error(file: str, *problems: str) -> StudyError:
    """Return one error for all problems of a file."""
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    listed = "".join(f"\n  {problem}" for problem in problems)
    return StudyError(f"{file} cannot be run ({count}):{listed}", problems=problems)


def _syntax(message: str, text: str) -> str:
    """Return the TOML parser's message, with the line in front and a hint for common mistakes."""
    place = re.search(r" ?\(at (?:line (\d+), column \d+|end of document)\)$", message)
    line = place[1] if place else None
    said = message[: place.start()] if place else message
    if said.startswith(("Illegal character '\\n'", "Unterminated string", "Expected \"'")):
        opening = next((sign for sign in ('"""', "'''") if text.count(sign) % 2), None)
        last = max(text.rfind(sign) for sign in ([opening] if opening else ['"', "'"]))
        line = line or str(text.count("\n", 0, max(last, 0)) + 1)
        said = 'A quote is not closed. Close it on the same line, as in bias = "x <= 5"'
    elif said.startswith("Invalid value"):
        said = f'{said}. Put text in quotes, as in bias = "x <= 5"'
    twice = re.match(r"Cannot declare \((.*?),?\) twice|Cannot overwrite a value", said)
    if twice:
        name = ".".join(part.strip("'\" ") for part in (twice.group(1) or "").split(","))
        said = f"[{name}] is declared twice. Give each source a name of its own" if name else "A key is given twice"
    return f"line {line}: {said}." if line else f"{said} (at the end of the file)."

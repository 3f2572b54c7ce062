"""Find the line of each key in a TOML text. The standard library reads the values, but not their lines."""

from __future__ import annotations

import re
import tomllib

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

"""Everything that is wrong with a study, gathered before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from vardi.errors import StudyError, suggest
from vardi.study._locate import Key, line_of


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

    def unknown_keys(self, place: Key, table: dict[str, Any], allowed: Collection[str]) -> None:
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

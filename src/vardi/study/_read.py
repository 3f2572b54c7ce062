"""Read a study from TOML, check all of it, and report all problems at once."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

from vardi.errors import StudyError
from vardi.study._columns import Columns
from vardi.study._data import FORMATS, choose_engine, suggest_file
from vardi.study._engines import first_line, with_codes
from vardi.study._locate import Problems, key_lines, study_error
from vardi.study._study import Study
from vardi.study.schema import Declarations

MAX_PARTS = 100
_KEY_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
# Python's TOML parser is quadratic in the length of a dotted key: minutes for one of 100 kB.
_LONG_KEY = re.compile(rf"(?<![\w.-])(?:{_KEY_PART}\.[ \t]*+){{{MAX_PARTS}}}")


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
    long_key = _LONG_KEY.search(text)
    if long_key:
        line = text.count("\n", 0, long_key.start()) + 1
        raise study_error(
            path.name, [f"line {line}: A key has more than {MAX_PARTS} parts, and no study needs that many."]
        )
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise study_error(path.name, [_syntax(str(error), text)]) from error
    except ValueError as error:  # an integer with thousands of digits
        raise study_error(path.name, [f"It is not valid TOML: {first_line(error)}"]) from error
    except RecursionError as error:
        raise study_error(path.name, ["line 1: It is nested too deeply to be read."]) from error
    problems = Problems(path.name, key_lines(text))
    declared = Declarations(document, path, problems)
    places, label, biases = declared.samples()
    biases |= declared.states(biases)
    declared.require_different(places)
    engine = choose_engine(declared.engine(places), tuple(places))
    places = dict(zip(with_codes(tuple(places), engine), places.values(), strict=True))
    columns = Columns(places, engine, problems)
    columns.require_biases(biases)
    columns.require_own(label)
    texts = {name: text for name, (_, text) in biases.items()}
    variables, depends = tuple(declared.document.get("variables", ())), declared.depends(texts)
    columns.require_variables(variables)
    columns.require_depends(depends)
    known = columns.known(declared.document.get("known", {}), texts)
    title, notes = declared.title(), columns.notes()
    study = Study(path, title, tuple(places), texts, label, variables, engine, known, notes, depends)
    problems.require_none()
    return study


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


def _syntax(message: str, text: str) -> str:
    """Return the TOML parser's message, with the line in front and a hint for common mistakes."""
    place = re.search(r" ?\(at (?:line (\d+), column \d+|end of document)\)$", message)
    line = place.group(1) if place and place.group(1) else None
    said = message[: place.start()] if place else message
    if said.startswith(("Illegal character '\\n'", "Unterminated string", "Expected \"'")):
        line = line or str(_last_quote(text))
        said = 'A quote is not closed. Close it on the same line, as in bias = "x <= 5"'
    elif said.startswith("Invalid value"):
        said = f'{said}. Put text in quotes, as in bias = "x <= 5"'
    twice = re.match(r"Cannot declare \((.*?),?\) twice|Cannot overwrite a value", said)
    if twice:
        name = ".".join(part.strip("'\" ") for part in (twice.group(1) or "").split(","))
        said = f"[{name}] is declared twice. Give each source a name of its own" if name else "A key is given twice"
    return f"line {line}: {said}." if line else f"{said} (at the end of the file)."


def _last_quote(text: str) -> int:
    """Return the line of the last quote, or of the last triple quote that opens a multi-line string."""
    opening = next((sign for sign in ('"""', "'''") if text.count(sign) % 2), None)
    place = max(text.rfind(sign) for sign in ([opening] if opening else ['"', "'"]))
    return text.count("\n", 0, max(place, 0)) + 1

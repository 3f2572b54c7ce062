"""``vardi init``: asks what was collected and how, and writes a study."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from vardi.cli._console import show, show_plain
from vardi.cli._guard import guarded
from vardi.errors import StudyError, VardiError

HEADER = """# A study for vardi: samples of one population, and how each was drawn.
# Paths are relative to this file. Check it with: vardi check {name}
"""
ABOUT_BIASES = """# A bias says how much likelier a unit is to be in the sample, up to a constant:
#   bias = "1"                  drawn at random       bias = "price <= 22"     only these
#   bias = "length"             longer seen more      bias = "region in ('N', 'W') and age > 20"
# A column whose name is no plain word stands in backticks: "`education-num` > 9".
"""


@dataclass(frozen=True)
class Asked:
    """One source as it goes into the study."""

    name: str
    data: str
    bias: str
    table: str | None = None


@guarded
def init(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The study file to write.")] = Path("study.toml"),
    source: Annotated[
        list[str] | None,
        typer.Option("--source", metavar="NAME=DATA", help="A sample and its file; again for each. Asks nothing then."),
    ] = None,
    bias: Annotated[
        list[str] | None,
        typer.Option("--bias", metavar="NAME=BIAS", help="How a sample was drawn; again for each. 1 where left out."),
    ] = None,
    variable: Annotated[
        list[str] | None, typer.Option("--variable", metavar="COLUMN", help="What to report; again for each.")
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="What the study is about.")] = None,
) -> None:
    """Write a study file: asks for the samples, or takes them from --source and --bias. Overwrites nothing."""
    from vardi._machine.atomic_write import whole_file
    from vardi.cli._files import require_free
    from vardi.study import parse

    require_free(study, force=False, remedy="Name another: vardi init other.toml")
    if bias and not source:
        raise StudyError("--bias says how the sample of a --source was drawn, and there is none. Give --source too.")
    if source:
        sources = _given(source, bias or [])
    else:
        title = title or typer.prompt("What is the study about", default=study.stem)
        sources = _ask_sources(study)
        variable = _ask_variables(study, sources, variable or [])
    text = study_text(study.name, title or study.stem, sources, variable or [])
    parse(text, study)
    with whole_file(study, overwrite=False) as temporary:
        temporary.write_text(text, encoding="utf-8")
    show(f"Wrote {study} with {len(sources)} {'source' if len(sources) == 1 else 'sources'}.")
    show_plain(f"Next: vardi check {shlex.quote(str(study))}\n")


def study_text(name: str, title: str, sources: list[Asked], variables: list[str]) -> str:
    """Return a study in TOML, with comments for its reader."""
    listed = ", ".join(map(quoted, variables))
    reported = f"variables = [{listed}]" if variables else '# variables = ["price"]    # what to report'
    parts = [HEADER.format(name=name), f"title = {quoted(title)}\n{reported}\n", ABOUT_BIASES]
    for one in sources:
        table = f"table = {quoted(one.table)}\n" if one.table else ""
        parts.append(
            f"[sources.{quoted_key(one.name)}]\ndata = {quoted(one.data)}\n{table}bias = {quoted(one.bias)}\n"
            '# id = "column"           # carried to the weights\n'
        )
    return "\n".join(parts)


def quoted(text: str) -> str:
    r"""Return a text as a basic string of TOML.

    Examples
    --------
    >>> print(quoted('say "hi" \\'))
    "say \"hi\" \\"
    """
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    letters = (escapes.get(letter, letter if letter.isprintable() else f"\\U{ord(letter):08X}") for letter in text)
    return f'"{"".join(letters)}"'


def quoted_key(text: str) -> str:
    """Return a key of TOML, in quotes where it needs them."""
    bare = text.isascii() and text.replace("-", "").replace("_", "").isalnum()
    return text if bare else quoted(text)


def _given(sources: list[str], biases: list[str]) -> list[Asked]:
    data = _pairs(sources, "--source")
    drawn = _pairs(biases, "--bias")
    for name in drawn:
        if name not in data:
            raise StudyError(f"--bias {name}=... names no source. The sources are {', '.join(data)}.")
    return [Asked(name, path, drawn.get(name, "1")) for name, path in data.items()]


def _pairs(texts: list[str], option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip() or not value.strip():
            raise StudyError(f"{option} {text!r} is not of the form NAME=VALUE.")
        if name in pairs:
            raise StudyError(f"{option} names {name!r} twice. Give each source a name of its own.")
        pairs[name] = value
    return pairs


def _ask(question: str, problems: Callable[[str], list[str]], default: str = "", *, show_default: bool = True) -> str:
    """Return the first answer without problems; those of others are shown."""
    while True:
        answer: str = typer.prompt(question, default=default, show_default=show_default).strip()
        found = problems(answer)
        if not found:
            return answer
        show(*found)


def _problems(study: Path, sources: list[Asked], variables: list[str]) -> list[str]:
    """Return what is wrong with a study of these samples."""
    from vardi.study import parse

    try:
        parse(study_text(study.name, study.stem, sources, variables), study)
    except StudyError as error:
        return [re.sub(r"^line \d+: ", "", problem) for problem in error.problems or [str(error)]]
    return []


def _ask_sources(study: Path) -> list[Asked]:
    sources: list[Asked] = []
    show("", "Each sample has its data: a .csv, .parquet or .jsonl file, or a pattern such as north/*.parquet.")
    while True:
        least = " (empty to finish)" if sources else ""
        wrong_data = functools.partial(_wrong_data, study, sources)
        data = _ask(f"\nData of sample {len(sources) + 1}{least}", wrong_data, show_default=False)
        if not data:
            return sources
        columns = _columns(data, study)
        show(f"Columns: {', '.join(columns)}")
        default = _free_name(Path(data).stem, [one.name for one in sources])
        name = _ask("Its name", functools.partial(_wrong_name, study, sources, data), default)
        question = f"How was {name} drawn? A condition, a column, or 1 for at random"
        bias = _ask(question, functools.partial(_wrong_bias, study, sources, Asked(name, data, "1"), columns), "1")
        sources.append(Asked(name, data, bias))


def _wrong_data(study: Path, sources: list[Asked], data: str) -> list[str]:
    if not data and sources:
        return []
    try:
        _columns(data, study)
    except VardiError as error:
        return [str(error)]
    name = _free_name("sample", [one.name for one in sources])
    return _problems(study, [*sources, Asked(name, data, "1")], [])


def _wrong_name(study: Path, sources: list[Asked], data: str, name: str) -> list[str]:
    if name in [one.name for one in sources]:
        return [f"There is a sample {name!r} already."]
    return _problems(study, [*sources, Asked(name, data, "1")], [])


def _wrong_bias(study: Path, sources: list[Asked], asked: Asked, columns: list[str], bias: str) -> list[str]:
    from vardi.biases import as_bias
    from vardi.biases._expressions.compile import require_columns

    try:
        require_columns(as_bias(bias).columns, columns)
    except VardiError as error:
        return [str(error)]
    return _problems(study, [*sources, replace(asked, bias=bias)], [])


def _ask_variables(study: Path, sources: list[Asked], given: list[str]) -> list[str]:
    """Return what to report: what was given where it can be, and what is answered otherwise."""
    found = _problems(study, sources, given)
    if given and not found:
        return given
    show(*found)
    question = "\nWhat to report, by commas (empty for the first columns of numbers)"
    return _listed(_ask(question, lambda answer: _problems(study, sources, _listed(answer)), show_default=False))


def _listed(answer: str) -> list[str]:
    return [name.strip() for name in answer.split(",") if name.strip()]


def _free_name(stem: str, names: list[str]) -> str:
    base = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in stem).strip("_") or "sample"
    return next(name for name in (base, *(f"{base}_{k}" for k in range(2, 1000))) if name not in names)


def _columns(data: str, study: Path) -> list[str]:
    from vardi.study._data import FORMATS, Data, RefusedPath, find_files
    from vardi.study._engines import schema

    try:
        files = find_files(data, study.parent)
    except RefusedPath as refusal:
        raise StudyError(str(refusal)) from None
    kind = FORMATS[files[0].suffix.lower()]
    if kind == "duckdb":
        raise StudyError("A database needs its table named: write the study by hand, see the documentation.")
    return list(schema(Data(None, tuple(files), kind), "polars"))

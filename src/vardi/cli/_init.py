"""``vardi init``: ask what was collected and how, and write a study."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import vardi
from vardi._files import whole_file
from vardi.cli._command import guarded
from vardi.cli._console import show, show_next, show_plain
from vardi.cli._outputs import require_free
from vardi.errors import NotIdentifiableError, StudyError, VardiError

if TYPE_CHECKING:
    import narwhals as nw

    from vardi.study import Study

HEADER = """# A study for vardi: samples of one population, and how each was drawn.
# Paths are relative to this file. Check it with: vardi check {name}
"""
ABOUT_BIASES = """# A bias says how much likelier a unit is to be in the sample, up to a constant:
#   bias = "1"               drawn at random
#   bias = "price <= 22"     only units for which this is true
#   bias = "length"          in proportion to a column
#   bias = "region in ('N', 'W') and age > 20"
# A column whose name is not a single word goes in backticks: "`education-num` > 9".
"""
ABOUT_DATA = (
    "The rows of each sample are in a file (.csv, .parquet or .jsonl), or in several that match a pattern such as "
    "north/*.parquet. Paths are relative to the study."
)
BIASES = {  # an answer, in which x is a column -> what it means
    "1": "every unit had the same chance of being in it",
    "x <= 100": "only units for which this is true could be in it",
    "x": "the chance was proportional to a column",
}
EXAMPLE = "price"
BY_HAND = "its table must be named: write the study by hand, with data = ... and"


def complete_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the samples that --source names, for shell completion."""
    names = [text.partition("=")[0] for text in ctx.params.get("source") or []]
    return [f"{name}=" for name in names if name.startswith(incomplete)]


@dataclass(frozen=True)
class Draft:
    """A study as far as it is known: the file and the bias of each sample, by name, and the columns to report."""

    path: Path
    title: str
    sources: Mapping[str, tuple[str, str]]
    variables: Sequence[str] = ()

    def plus(self, name: str, data: str, bias: str = "1") -> Draft:
        """Return the draft with one more sample."""
        return replace(self, sources={**self.sources, name: (data, bias)})

    def text(self) -> str:
        """Return the study in TOML, with comments for its reader."""
        from vardi.study._toml import quoted, quoted_key

        listed = ", ".join(map(quoted, self.variables))
        reported = f"variables = [{listed}]" if listed else '# variables = ["price"]    # columns to report'
        parts = [HEADER.format(name=self.path.name), f"title = {quoted(self.title)}\n{reported}\n", ABOUT_BIASES]
        for name, (data, bias) in self.sources.items():
            table = f"[sources.{quoted_key(name)}]\ndata = {quoted(data)}\nbias = {quoted(bias)}\n"
            parts.append(f'{table}# id = "column"           # copied to the weights\n')
        return "\n".join(parts)

    def study(self) -> Study:
        """Return the study, or raise for what is wrong with its text."""
        return vardi.study.parse(self.text(), self.path)

    def require_valid(self) -> None:
        """Compute the biases on the rows, and raise if they forbid or lack some. Overlap is not checked yet."""
        with suppress(NotIdentifiableError):  # a learned bias alone: samples may follow; if not, vardi check reports it
            self.study().verdict()

    def problems(self) -> list[str]:
        """Return what is wrong with the study, down to rows that a bias forbids."""
        try:
            self.require_valid()
        except StudyError as error:
            return [re.sub(r"^line \d+: ", "", problem) for problem in error.problems or [str(error)]]
        except VardiError as error:
            return [str(error)]
        return []


@guarded
def init(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The study file to write.")] = Path("study.toml"),
    source: Annotated[
        list[str] | None, typer.Option(metavar="NAME=DATA", help="A sample and its file. Repeat it for each sample.")
    ] = None,
    bias: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=BIAS",
            autocompletion=complete_names,
            help="How a sample was drawn; 1, at random, for samples without this option.",
        ),
    ] = None,
    variable: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column to report. Repeat it for each column.")
    ] = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="What the study is about.")] = None,
) -> None:
    """Write a study file. Asks for the samples and how they were drawn, unless --source and --bias give them.

    The files are opened, and each bias is tried on the rows. No file is overwritten.
    """
    from vardi.study._data import listed_files

    free = study.with_name(f"{_free_name(study.stem, [path.stem for path in study.parent.glob('*.toml')])}.toml")
    require_free(study, force=False, remedy=f"Name another: vardi init {shlex.quote(str(free))}")
    if bias and not source:
        raise StudyError("--bias describes the sample of a --source, and no --source is given. Add one.")
    if source:
        draft = Draft(study, title or study.stem, _given(source, bias or []), variable or [])
    else:
        show(f"This asks about your samples and writes {study}. Ctrl-C stops without writing anything.", "")
        title = title or typer.prompt("What is the study about?", default=study.stem, prompt_suffix=" ")
        listed = listed_files(study.parent)
        show("", ABOUT_DATA, *([f"In this folder: {listed}"] if listed else []))
        draft = Draft(study, title, {})
        while (longer := _ask_source(draft)) is not None:
            draft = longer
        draft = replace(draft, variables=_ask_variables(draft, variable or []))
    draft.require_valid()
    with whole_file(study, overwrite=False) as temporary:
        temporary.write_text(draft.text(), encoding="utf-8")
    samples = "1 sample" if len(draft.sources) == 1 else f"{len(draft.sources)} samples"
    show("", f"Wrote {study} with {samples}.", "")
    show_next("Next, check whether the samples can be compared", f"vardi check {shlex.quote(str(study))}")


def _given(sources: list[str], biases: list[str]) -> dict[str, tuple[str, str]]:
    data, drawn = _pairs(sources, "--source"), _pairs(biases, "--bias")
    for name in drawn:
        if name not in data:
            raise StudyError(f"--bias {name}=... names no source. The sources are {', '.join(data)}.")
    return {name: (path, drawn.get(name, "1")) for name, path in data.items()}


def _pairs(texts: list[str], option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip() or not value.strip():
            example = "--bias 'agency=price <= 22'"
            if option == "--source":
                example = "--source agency=agency.csv" if sign else f"--source {_free_name(Path(text).stem, [])}={text}"
            raise StudyError(f"{option} {text!r} is not of the form NAME=VALUE. Give it as in: {example}")
        if name in pairs:
            raise StudyError(f"{option} names {name!r} twice. Give each source its own name.")
        pairs[name] = value
    return pairs


def _ask(question: str, problems: Callable[[str], list[str]], default: str = "") -> str:
    """Ask until an answer has no problems, and show those of the others."""
    while True:
        answer: str = typer.prompt(question, default, show_default=bool(default), prompt_suffix=" ").strip()
        found = problems(answer)
        if not found:
            return answer
        show("", *found, *([] if question.startswith("\n") else [""]))


def _ask_source(draft: Draft) -> Draft | None:
    """Return the draft with one more sample, or None if there are no more."""
    from vardi.study._engines import schema

    taken = draft.sources

    def wrong_data(answer: str) -> list[str]:
        if not answer and taken:
            return []
        found = draft.plus(_free_name("sample", taken), _unquoted(answer)).problems()
        return [problem.replace("a table must be named:", BY_HAND) for problem in found]

    def wrong_name(name: str) -> list[str]:
        return [f"There is already a sample {name!r}."] if name in taken else draft.plus(name, data).problems()

    question = f"\nFile of sample {len(taken) + 1}{', or Enter if there are no more' if taken else ''}:"
    data = _unquoted(_ask(question, wrong_data))
    if not data:
        return None
    study = replace(draft, sources={"sample": (data, "1")}).study()
    columns = schema(study.data[0], study.engine)
    show(f"Its columns: {', '.join(columns)}")
    name = _ask("What is its name?", wrong_name, _free_name(Path(data).stem, taken))
    if not taken:
        show_plain(_about_biases(columns))
    bias = _ask(f"How was {name} drawn?", lambda bias: draft.plus(name, data, bias).problems(), "1")
    return draft.plus(name, data, bias)


def _about_biases(columns: nw.Schema) -> str:
    """Return the possible answers about a bias, with a column of the sample as example."""
    from vardi.biases._nodes import column_text

    column = next((column_text(name) for name, kind in columns.items() if kind.is_numeric()), EXAMPLE)
    answers = {answer.replace("x", column): says for answer, says in BIASES.items()}
    width = max(map(len, answers))
    lines = "".join(f"  {answer:<{width}}   {says}\n" for answer, says in answers.items())
    return f"\nDescribe how it was drawn by a number, a condition or a column:\n{lines}"


def _unquoted(path: str) -> str:
    """Return a path without the quotes that a terminal puts around a file dropped into it."""
    return path[1:-1] if len(path) > 1 and path[0] == path[-1] and path[0] in "'\"" else path


def _ask_variables(draft: Draft, given: list[str]) -> list[str]:
    """Return the columns to report: those given if they are valid, otherwise those answered."""

    def wrong(variables: list[str]) -> list[str]:
        return replace(draft, variables=variables).problems()

    found = wrong(given)
    if given and not found:
        return given
    show(*found)
    show("", "Which columns should be reported? Separate them by commas; Enter takes the first that hold numbers.")
    return _listed(_ask("Report:", lambda answer: wrong(_listed(answer))))


def _listed(answer: str) -> list[str]:
    return [name.strip() for name in answer.split(",") if name.strip()]


def _free_name(stem: str, names: Collection[str]) -> str:
    base = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in stem).strip("_") or "sample"
    return next(name for name in (base, *(f"{base}_{k}" for k in range(2, 1000))) if name not in names)

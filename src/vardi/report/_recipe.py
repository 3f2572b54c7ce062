"""How to repeat the fit, and how to cite it."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import groupby

from vardi._facts.account import Account, Given
from vardi._facts.columns import Variables
from vardi._facts.numbers import rows_text
from vardi.biases import Bias, ExpressionBias, FunctionFamily, ParametricBias

PACKAGES = ("vardi", "numpy", "scipy", "narwhals")
CITATIONS = (
    "Y. Vardi (1985). Empirical distributions in selection bias models. The Annals of Statistics 13(1), 178–203. "
    "The estimator.",
    "R. D. Gill, Y. Vardi and J. A. Wellner (1988). Large sample theory of empirical distributions in biased sampling "
    "models. The Annals of Statistics 16(3), 1069–1112. Its standard errors.",
    "S. Clémençon and P. Laforgue (2022). Statistical learning from biased training samples. Electronic Journal of "
    "Statistics 16(2), 6086–6134. Learning from it.",
)


@dataclass(frozen=True)
class StudyFile:
    """The file that defines a fit: its name, its text, and the SHA-256 of its bytes."""

    name: str
    text: str
    digest: str


@dataclass(frozen=True)
class Recipe:
    """How to repeat the fit, and how to cite it.

    Attributes
    ----------
    code : str
        A Python snippet or, for a study, the command that repeats the fit.
    versions : tuple of (str, str)
        Packages and their versions.
    citations : tuple of str
        What to cite.
    """

    code: str
    versions: tuple[tuple[str, str], ...]
    citations: tuple[str, ...]


def recipe_of(
    given: Given, facts: Account, title: str | None, variables: Variables | None, study: StudyFile | None
) -> Recipe:
    """Return how to repeat the fit: the command for a study, otherwise a Python snippet."""
    command = "" if study is None else f"vardi fit {shlex.quote(study.name)} -o weights.parquet --report report.html"
    software = f"vardi {version('vardi')}, a Python package for biased samples. The software."
    return Recipe(
        code=command or _code(given, facts, title, variables),
        versions=(*((name, version(name)) for name in PACKAGES), ("Python", platform.python_version())),
        citations=(*CITATIONS, software),
    )


def _code(given: Given, facts: Account, title: str | None, variables: Variables | None, most: int = 60) -> str:
    options = [f"title={title!r}"] if title is not None else []
    if variables is not None:
        are_texts = isinstance(variables, list | tuple) and all(isinstance(name, str) for name in variables)
        options.append(f"variables={list(variables)!r}" if are_texts else "variables=...")
    arguments = ", ".join(["'report.html'", *options])
    tail = [f"fit.report({arguments})"]
    samples, names = facts.samples, [sample.name for sample in facts.samples]
    extra = ", counts=..." if given.is_counted else ""
    extra += ", known=known" if facts.known_check is not None else ""
    extra += "".join(f", {what}={given.named[what] or '...'!r}" for what in given.named).replace("'...'", "...")
    extra += ", on_unidentified='largest'" if any(sample.left_out for sample in samples) else ""
    if not given.biases:
        log, columns = ", log=True" if given.log else "", ", ".join(map(repr, names[:most]))
        call = f"fit = vardi.debias_matrix(omega, source{log}, names=[{columns}]{extra})"
        sizes = ", ".join(f"{sample.name}: {rows_text(sample.rows)}" for sample in samples[:most])
        return "\n".join(["import vardi", "", f"# {_one_line(sizes)}", *_known(facts, most), call, *tail])
    biases = [
        f"    {name!r}: {str(bias)!r}," if _has_text(bias) else f"    {name!r}: ...,  # {_one_line(bias)}"
        for name, bias in zip(names, given.biases, strict=True)
    ]
    brought = [
        f"    {sample.name!r}: ...,  # {'left out' if sample.left_out else rows_text(sample.rows)}"
        for sample in samples
        if sample.rows or sample.left_out
    ]
    if given.is_labelled:
        rows, call = ["rows = ...  # one frame of all samples"], f"fit = vardi.debias(rows, biases, source=...{extra})"
    else:
        rows, call = ["samples = {", *_capped(brought, most), "}"], f"fit = vardi.debias(samples, biases{extra})"
    return "\n".join(
        ["import vardi", "", *rows, "biases = {", *_capped(biases, most), "}", *_known(facts, most), call, *tail]
    )


def _known(facts: Account, most: int) -> list[str]:
    """Return the known values as code, the shares of a margin on one line."""
    if facts.known_check is None:
        return []
    written: list[str] = []
    lines_of = groupby(facts.known_check.lines, key=lambda line: None if line.margin is None else line.margin[0])
    for margin, lines in lines_of:
        values = [
            (line, f"({line.known!r}, {line.known_stderr!r})" if line.known_stderr else f"{line.known!r}")
            for line in lines
        ]
        if margin is None:
            written += [f"    {line.label!r}: {value}," for line, value in values]
        else:
            shares = ", ".join(f"{line.margin[1]!r}: {value}" for line, value in values if line.margin is not None)
            written.append(f"    {margin!r}: {{{shares}}},")
    return ["known = {", *_capped(written, most), "}"]


def _has_text(bias: Bias) -> bool:
    """Return whether the text of a bias can be parsed again."""
    if isinstance(bias, ParametricBias):
        return _has_text(bias.known) and not isinstance(bias.family, FunctionFamily)
    return isinstance(bias, ExpressionBias)


def _capped(lines: Sequence[str], most: int) -> list[str]:
    more = len(lines) - most
    return [*lines[:most], *([f"    # and {more} more"] if more > 0 else [])]


def _one_line(text: object) -> str:
    return " ".join(str(text).split())

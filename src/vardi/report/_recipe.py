"""How to repeat the fit, and how to cite it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from vardi._expressions.families import Family
from vardi.biases import Bias, ExpressionBias, ParametricBias
from vardi.report._content import Recipe, SampleRow
from vardi.report._numbers import rows_text

if TYPE_CHECKING:
    from vardi._sample import DebiasedSample

PACKAGES = ("vardi", "numpy", "scipy", "narwhals")
MOST_LINES = 60
CITATIONS = (
    "Y. Vardi (1985). Empirical distributions in selection bias models. The Annals of Statistics 13(1), 178–203. "
    "The estimator.",
    "R. D. Gill, Y. Vardi and J. A. Wellner (1988). Large sample theory of empirical distributions in biased sampling "
    "models. The Annals of Statistics 16(3), 1069–1112. Its standard errors.",
    "S. Clémençon and P. Laforgue (2022). Statistical learning from biased training samples. Electronic Journal of "
    "Statistics 16(2), 6086–6134. Learning from it.",
)


def recipe_of(fit: DebiasedSample, title: str | None, variables: Any, samples: Sequence[SampleRow]) -> Recipe:
    """Write down what repeats the fit."""
    software = f"vardi {version('vardi')}, a Python package for biased samples. The software."
    return Recipe(
        code=_code(fit, title, variables, samples),
        versions=(*((name, version(name)) for name in PACKAGES), ("Python", platform.python_version())),
        solution=_solution(fit),
        citations=(*CITATIONS, software),
    )


def _solution(fit: DebiasedSample) -> str:
    solution = fit.solution
    steps = {0: "Solved by pairs of samples", 1: "Solved in 1 Newton step"}.get(
        solution.iterations, f"Solved in {solution.iterations} Newton steps"
    )
    return (
        f"{steps}. The equations hold to {solution.residual:.0e}, and every ratio of weights to "
        f"{solution.certificate:.0e}."
    )


def _code(fit: DebiasedSample, title: str | None, variables: Any, samples: Sequence[SampleRow]) -> str:
    pool = fit._pool
    options = [f"title={title!r}"] if title is not None else []
    if variables is not None:
        options.append(f"variables={list(variables)!r}" if _are_texts(variables) else "variables=...")
    arguments = ", ".join(["'report.html'", *options])
    tail = [f"fit.report({arguments})"]
    extra = ", counts=..." if pool.counts is not None else ""
    extra += ", shares=shares" if fit.shares is not None else ""
    extra += ", on_unidentified='largest'" if any(sample.left_out for sample in samples) else ""
    if not pool.biases:
        log = ", log=True" if fit._rows.log else ""
        names = ", ".join(repr(name) for name in fit.names[:MOST_LINES])
        call = f"fit = vardi.debias_matrix(omega, source{log}, names=[{names}]{extra})"
        sizes = ", ".join(f"{sample.name}: {rows_text(sample.rows)}" for sample in samples[:MOST_LINES])
        return "\n".join(["import vardi", "", f"# {_one_line(sizes)}", *_shares(fit), call, *tail])
    biases = [
        f"    {name!r}: {str(bias)!r}," if _has_text(bias) else f"    {name!r}: ...,  # {_one_line(bias)}"
        for name, bias in zip(fit.names, pool.biases, strict=True)
    ]
    given = [
        f"    {name!r}: ...,  # {'left out' if sample.left_out else rows_text(sample.rows)}"
        for name, sample in zip(fit.names, samples, strict=False)
        if sample.rows or sample.left_out
    ]
    if _is_labelled(fit, len(given)):
        rows, call = ["rows = ...  # one frame of all samples"], f"fit = vardi.debias(rows, biases, source=...{extra})"
    else:
        rows, call = ["samples = {", *_capped(given), "}"], f"fit = vardi.debias(samples, biases{extra})"
    return "\n".join(["import vardi", "", *rows, "biases = {", *_capped(biases), "}", *_shares(fit), call, *tail])


def _shares(fit: DebiasedSample) -> list[str]:
    if fit.shares is None:
        return []
    return ["shares = {", *_capped([f"    {line.cell!r}: {line.known!r}," for line in fit.shares.lines]), "}"]


def _are_texts(variables: Any) -> bool:
    return isinstance(variables, list | tuple) and all(isinstance(name, str) for name in variables)


def _has_text(bias: Bias) -> bool:
    """Tell whether the text of a bias reads back."""
    return isinstance(bias, ExpressionBias) or (isinstance(bias, ParametricBias) and isinstance(bias.family, Family))


def _is_labelled(fit: DebiasedSample, given: int) -> bool:
    """Tell whether all samples came in one frame, with labels."""
    parts = getattr(fit._pool, "parts", ()) or fit._pool.frames
    return len(parts) == 1 and (given > 1 or getattr(parts[0], "label", None) is not None)


def _capped(lines: Sequence[str]) -> list[str]:
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"    # and {more} more"] if more > 0 else [])]


def _one_line(text: object) -> str:
    return " ".join(str(text).split())

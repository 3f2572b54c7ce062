"""What can be noticed of biases that do nothing, or hardly anything, or name values that no row has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from vardi._facts.parts import Fit, Given, WeightSums
from vardi._inputs.pool import Name
from vardi._solve.identify import Verdict
from vardi.biases import Bias, ExpressionBias
from vardi.biases._expressions.nodes import Column, Comparison, Constant, IsIn, Node, children, is_condition, to_text
from vardi.biases._learned import checks_of
from vardi.errors import suggest
from vardi.errors._texts import listed

NEARLY = 0.98  # share of the rows of the other samples that meet a condition, or fail it, from which that is said
LEAST_ROWS = 50  # of the other samples from which a share says something
EVEN = 1e-12  # by how much weights may differ, relative to them, and be all the same
SURPRISE = "If that is a surprise, look at the unit of the column, and at the direction of the comparison."


def bias_notes(fit: Fit, given: Given, sums: WeightSums, verdict: Verdict) -> tuple[str, ...]:
    """Return what is odd about the declared biases, and may be meant."""
    biases = dict(zip(fit.names, given.biases, strict=False))
    return (
        *_without_effect(fit.sizes, biases, sums),
        *_hardly_telling(fit.sizes, biases, verdict),
        *_absent_values(fit, biases),
        *_learned(biases),
    )


def _without_effect(sizes: Mapping[Name, float], biases: Mapping[Name, Bias], sums: WeightSums) -> Iterator[str]:
    sampled = [name for name, rows in sizes.items() if rows]
    rows = sum(sizes.values())
    if len(sampled) == 1 and sampled[0] in biases and abs(sums.effective - rows) <= EVEN * rows:
        name, bias = sampled[0], biases[sampled[0]]
        if bias.columns and rows > 1:
            yield (
                f"The bias {bias} of {str(name)!r} is the same on all rows, and there is no other sample, so all "
                "weights are the same and nothing is debiased. Look at the unit of the column."
            )


def _hardly_telling(sizes: Mapping[Name, float], biases: Mapping[Name, Bias], verdict: Verdict) -> Iterator[str]:
    met = np.asarray(verdict.reach.sum(axis=1)).ravel() - verdict.reach.diagonal()
    for k, (name, bias) in enumerate(biases.items()):
        others = sum(sizes.values()) - sizes[name]
        if (
            not sizes[name]
            or not (isinstance(bias, ExpressionBias) and bias.columns and is_condition(bias.node))
            or others < LEAST_ROWS
        ):
            continue
        share = met[k] / others
        of_others = f"of the other samples meet {bias}"
        if share >= NEARLY:
            rows = "All rows" if share == 1 else f"{share:.1%} of the rows"
            yield f"{rows} {of_others}, so this bias of {str(name)!r} changes next to nothing. {SURPRISE}"
        elif 0 < share <= 1 - NEARLY:
            yield f"Only {share:.1%} of the rows {of_others}, the bias of {str(name)!r}. {SURPRISE}"


def _absent_values(fit: Fit, biases: Mapping[Name, Bias]) -> Iterator[str]:
    for name, bias in biases.items():
        if not isinstance(bias, ExpressionBias):
            continue
        for column, asked in _texts_asked_for(bias.node):
            there = fit.parts.values_of(column)
            absent = [] if there is None else [value for value in asked if value not in there]
            if absent and there:
                near = suggest(absent[0], there)
                said = listed(map(repr, absent))
                yield f"No row has {said} in {to_text(Column(column))}, which the bias of {str(name)!r} names.{near}"


def _learned(biases: Mapping[Name, Bias]) -> Iterator[str]:
    for name, check in checks_of(biases, biases.values()).items():
        yield (
            f"The bias of {str(name)!r} was learned from {listed(check.columns)} by {check.classifier} (area under the "
            f"curve {check.area:.2f}; {check.clipped} of {check.rows:,} rows clipped): fit.learned[{name!r}] has its "
            "calibration. Errors leave out that of the classifier, so that each is approximate."
        )


def _texts_asked_for(node: Node) -> Iterator[tuple[str, Sequence[str]]]:
    """Give each column of which a bias asks for texts, with these."""
    match node:
        case IsIn(Column(name), values):
            texts = [value.value for value in values if isinstance(value.value, str)]
            if texts:
                yield name, texts
        case Comparison(Column(name), (("==", Constant(str(value))),)):
            yield name, [value]
        case _:
            for child in children(node):
                yield from _texts_asked_for(child)

"""What a fit cannot answer, declared once: for which holders of rows, with which parts, and why.

Everything else is answered, and equal, wherever the rows are. The table of the documentation is made from these
declarations, the refusals are raised from them, and the conformance test runs every cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from vardi.errors import NeedsRowsError, VardiError

Part: TypeAlias = Literal["none", "known values", "parameters", "both", "learned"]
Holder: TypeAlias = Literal[
    "rows in memory", "distinct rows", "truncated rows", "sparse", "windows", "blocks", "engine"
]

Depends: TypeAlias = Literal["independent", "clusters", "series"]

PARTS: tuple[Part, ...] = get_args(Part)
HOLDERS: tuple[Holder, ...] = get_args(Holder)
DEPENDS: tuple[Depends, ...] = get_args(Depends)
DEPENDENT: tuple[Depends, ...] = ("clusters", "series")

MATRICES: tuple[Holder, ...] = ("sparse", "windows", "blocks")
TRUNCATED: tuple[Holder, ...] = ("truncated rows",)
ENGINE: tuple[Holder, ...] = ("engine",)
DISTINCT: tuple[Holder, ...] = ("distinct rows",)
IN_PLACE: tuple[Holder, ...] = (*ENGINE, *DISTINCT)
KNOWN: tuple[Part, ...] = ("known values", "both")
ESTIMATED: tuple[Part, ...] = ("parameters", "both")
JOINT: tuple[Part, ...] = ("known values", *ESTIMATED)
LEARNED: tuple[Part, ...] = ("learned",)
DECLARED: tuple[Part, ...] = ("none", *JOINT)  # with a learned bias the rows of an engine are in memory

ANY = "any question"


@dataclass(frozen=True)
class Step:
    """A kind of query that a fit of a study makes.

    Attributes
    ----------
    what : str
        Its purpose.
    passes : tuple of int
        How many passes over the rows it takes, at least and at most.
    holders, parts : tuple
        Which fits take it; those with all parts by default. Distinct rows are counted by an engine here.
    reads : str
        What it reads, and how often it is taken: one of what ``vardi.study.plan`` tells apart.
    """

    what: str
    passes: tuple[int, int]
    holders: tuple[Holder, ...]
    parts: tuple[Part, ...] = PARTS
    reads: Literal["files", "lines", "categories", "fit", "biases", "variables"] = "fit"


STEPS = (
    Step("read the files into memory", (1, 1), ("rows in memory",), reads="files"),
    Step("check that every line is complete", (1, 1), IN_PLACE, reads="lines"),
    Step("find the categories", (1, 1), IN_PLACE, reads="categories"),
    Step("check, and count the rows by conditions", (1, 1), DISTINCT),
    Step("check", (1, 1), ENGINE),
    Step("draw some rows to start from", (1, 1), ENGINE),
    Step("scale the columns of parameters", (1, 1), ENGINE, ESTIMATED),
    Step("see which samples overlap", (1, 1), ENGINE, JOINT),
    Step("solve", (2, 4), ENGINE, ("none",), "biases"),
    Step("solve with known values or parameters", (2, 6), ENGINE, JOINT),
    Step("solve without known values", (2, 6), ENGINE, KNOWN),
    Step("compare with known values", (4, 4), ENGINE, KNOWN),
    Step("compare with known values", (1, 1), DISTINCT, KNOWN),
    Step("means of the variables", (3, 3), IN_PLACE, reads="variables"),
)


@dataclass(frozen=True)
class No:
    """A question that some holders of rows, or fits with some parts, do not answer.

    Attributes
    ----------
    question : str
        One of ``QUESTIONS``.
    reason : str
        Why, and what to do.
    holders, parts, depends : tuple
        Where it applies; everywhere by default.
    """

    question: str
    reason: str
    holders: tuple[Holder, ...] = HOLDERS
    parts: tuple[Part, ...] = PARTS
    depends: tuple[Depends, ...] = DEPENDS

    def error(self) -> VardiError:
        """Return the error that says so."""
        return NeedsRowsError(self.reason) if self.holders == ENGINE else VardiError(self.reason)


IN_ENGINE = "needs rows in memory, but these are in their engine. Collect the columns you need and debias them."
MATRIX = "A matrix of biases has no columns for parameters to multiply. Give frames, and biases such as vardi.logistic."
UNNAMED = (
    "A model that assists a mean sees columns of the rows, but a matrix of biases has none. Give frames, and biases "
    "that read their columns."
)
THEORY = (
    "The finite-sample bounds are for weights that follow from known biases alone, but these also rest on known "
    "values or on parameters. Debias without known values, and with parameters fixed by .at(...), to see the bounds "
    "as if the biases were known."
)
WINDOW = (
    "vardi.window can only be the bias of a single sample, without known values or parameters. For known values with "
    "windows, give vardi.debias_matrix vardi.Windows; biases with parameters need other samples to compare with."
)
STEPS_OF_WINDOWS = (
    "The weight of truncated rows is a step at each end of a window, so it is no formula of a few numbers. fit.weigh() "
    "computes it for other rows in memory."
)
NO_COLUMNS = (
    "A matrix of biases has no columns, so the weight is no formula of any. Give fit.weigh() the biases of new rows, "
    "or debias frames."
)
CHANCE = (
    "The chance of being seen is estimated from the windows themselves, but the finite-sample bounds are for known "
    "biases. fit.bootstrap() draws rows with their windows."
)

COLUMNS_OF_MATRIX = (
    "A matrix of biases has no columns from which a bias could be learned. Give frames or arrays, and vardi.learned."
)
OWN_RATE = (
    "The finite-sample bounds are for weights that follow from known biases alone, but one of these was learned from "
    "the rows. fit.learned shows how well."
)

APART = "assumes independent rows, but these were declared to depend on one another."

NOES = (
    No(ANY, WINDOW, TRUNCATED, ("known values", "parameters", "both", "learned")),
    No(ANY, COLUMNS_OF_MATRIX, MATRICES, LEARNED),
    No("bounds", OWN_RATE, parts=LEARNED),
    No("bounds", CHANCE, TRUNCATED),
    No(ANY, MATRIX, MATRICES, ESTIMATED),
    No("tests of parameters", "No bias has parameters.", parts=("none", "known values", "learned")),
    No("assisted means", UNNAMED, MATRICES),
    No("means of arrays", f"An expectation of values that are not columns {IN_ENGINE}", ENGINE, DECLARED),
    No("bounds", f"bounds() {IN_ENGINE}", ENGINE),
    No("bounds", THEORY, parts=("known values", "parameters", "both")),
    No("bootstrap of functions", f"A bootstrap of a function of the weights {IN_ENGINE}", ENGINE, DECLARED),
    No(
        "tests of parameters",
        f"A likelihood ratio {APART} Look at fit.parameters: an estimate over its error is nearly normal.",
        depends=DEPENDENT,
    ),
    No("bounds", f"The theory of bounds {APART} Use standard errors, which allow for that.", depends=DEPENDENT),
    No(
        "update",
        "update() joins rows in memory, and this matrix is read in blocks. Debias one that yields the new rows too.",
        ("blocks",),
    ),
    No("weights as a formula", NO_COLUMNS, MATRICES),
    No("weights as a formula", STEPS_OF_WINDOWS, TRUNCATED),
    No("draws with replacement", f"Drawing rows with replacement {IN_ENGINE}", ENGINE, DECLARED),
)


def refused(question: str, holder: Holder, part: Part = "none", depends: Depends = "independent") -> No | None:
    """Return why a question has no answer; None if it has one."""
    noes = (no for no in NOES if no.question in (ANY, question) and holder in no.holders)
    return next((no for no in noes if part in no.parts and depends in no.depends), None)


def refusal(question: str, holder: Holder, part: Part = "none", depends: Depends = "independent") -> VardiError:
    """Return the error for a question that has no answer."""
    no = refused(question, holder, part, depends)
    assert no is not None
    return no.error()

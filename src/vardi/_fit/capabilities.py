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


#: What users call to ask each question, and the one function that answers it wherever the rows are, as
#: ``module:name``. Where an engine's rows have a method of their own, it is that of rows in memory.
ANSWERS = {
    "weights": ("weights, probabilities, weight_shares, effective_rows", "_fit.rows_in_memory:RowsInMemory.weights"),
    "means": ("expectation, expectations of columns", "_estimate.tangent:Tangent.estimates"),
    "among": (
        "expectation, total and cdf of some samples' rows with among=; fit.among(...).weights",
        "_rows.measure:Measure.among",
    ),
    "assisted means": ("expectation and total with assisted_by=", "_fit.assisted:Assisted.apart"),
    "means of arrays": (
        "expectation, expectations of values that are not columns",
        "_estimate.tangent:Tangent.estimates",
    ),
    "totals": (
        "total, by a size or relative to a known total, exact or with an error",
        "_fit.weighted:WeightedSample.total",
    ),
    "domains": ("expectation, total and cdf with by=; proportions", "_estimate.domains:estimates_in_domains"),
    "arithmetic": (
        "differences, products and ratios of estimates, of one call or of several",
        "_estimate.tangent:Influence.__add__",
    ),
    "normalisers": (
        "omegas, normalisers, log_normalisers, log_ratio, log_omega_covariance, w",
        "_fit.solved:Solved.log_normalisers",
    ),
    "distribution": ("cdf, quantile, band", "_estimate.cdf:DebiasedCdf.band"),
    "parameters": ("parameters, estimated_biases, learned", "_fit.parameters:estimates"),
    "known": ("known", "_fit.parameters:check_known"),
    "tests of parameters": ("test_no_bias, test_parameters", "_estimate.likelihood_ratio:declared"),
    "score test": (
        "check_biases, for biases that were not learned; for truncated rows, the test of quasi-independence",
        "_estimate.bias_test:check_biases",
    ),
    "sensitivity": ("sensitivity", "_estimate.sensitivity.question:Question.answer"),
    "bounds": ("bounds", "_estimate.bounds:bounds"),
    "bootstrap": (
        "bootstrap of means and of normalisers; a learned bias is held fixed",
        "_estimate.bootstrap:bootstrap",
    ),
    "bootstrap of functions": ("bootstrap of a function of the weights", "_estimate.bootstrap:bootstrap"),
    "replicate weights": ("replicate_weights; a learned bias is held fixed", "_estimate.replicates:replicate_weights"),
    "draws": ("sample without replacement", "_fit.rows_in_memory:RowsInMemory.draw"),
    "draws with replacement": (
        "sample(replace=True), torch_sampler, torch_weights",
        "_fit.rows_in_memory:RowsInMemory.draw",
    ),
    "new rows": ("weigh", "_fit.weigher:Weigher.weigh"),
    "weights as a formula": ("expression, to_sql, uncovered, weigher, save", "_fit.weigher:Weigher.expression"),
    "update": ("update", "_fit.sample:DebiasedSample.update"),
    "verdict": ("identify, trust", "_solve.identify:judge"),
    "account": ("summary, diagnostics, report", "_facts.diagnostics:diagnose"),
}
QUESTIONS = tuple(ANSWERS)


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
    *(No(question, WINDOW, TRUNCATED, ("known values", "parameters", "both", "learned")) for question in QUESTIONS),
    *(No(question, f"A bias that is learned {IN_ENGINE}", ENGINE, LEARNED) for question in QUESTIONS),
    *(No(question, COLUMNS_OF_MATRIX, MATRICES, LEARNED) for question in QUESTIONS),
    No("bounds", OWN_RATE, parts=LEARNED),
    No("bounds", CHANCE, TRUNCATED),
    *(No(question, MATRIX, MATRICES, ESTIMATED) for question in QUESTIONS),
    No("tests of parameters", "No bias has parameters.", parts=("none", "known values", "learned")),
    No("assisted means", f"A mean that a model assists {IN_ENGINE}", ENGINE),
    No("assisted means", UNNAMED, MATRICES),
    No("means of arrays", f"An expectation of values that are not columns {IN_ENGINE}", ENGINE),
    No("bounds", f"bounds() {IN_ENGINE}", ENGINE),
    No("bounds", THEORY, parts=("known values", "parameters", "both")),
    No("bootstrap of functions", f"A bootstrap of a function of the weights {IN_ENGINE}", ENGINE),
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
    No("draws with replacement", f"Drawing rows with replacement {IN_ENGINE}", ENGINE),
)


def refused(question: str, holder: Holder, part: Part = "none", depends: Depends = "independent") -> No | None:
    """Return why a question has no answer; None if it has one."""
    noes = (no for no in NOES if no.question == question and holder in no.holders)
    return next((no for no in noes if part in no.parts and depends in no.depends), None)


def refusal(question: str, holder: Holder, part: Part = "none", depends: Depends = "independent") -> VardiError:
    """Return the error for a question that has no answer."""
    no = refused(question, holder, part, depends)
    assert no is not None
    return no.error()

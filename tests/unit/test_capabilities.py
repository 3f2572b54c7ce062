"""What is declared to have no answer: the table of the documentation, and that of `tests/questions/questions.py`."""

from __future__ import annotations

import functools
import importlib
import sys
from itertools import product
from pathlib import Path
from types import CodeType

import holders
import pytest
import questions

import vardi
from vardi._fit.capabilities import ANY, DEPENDS, HOLDERS, NOES, PARTS, refused
from vardi._fit.truncation import SolvedByWindows
from vardi._rows.dense import Dense
from vardi._rows.sparse import Sparse
from vardi._rows.stored import Blocks
from vardi._rows.windows import Intervals

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
        "omegas, normalisers, log_normalisers, log_ratio, log_omega_covariance, paper_normalisers",
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

OF_PARTS = ("parameters", "known", "tests of parameters")  # asked of fits that have parts
HELD = {"rows in memory": "rows in memory", "engine": "Polars"} | {name: name for name in HOLDERS[1:-1]}


def reasons() -> str:
    """Return all reasons why there is no answer, as a Markdown list."""
    return "\n".join(f"- {reason}" for reason in dict.fromkeys(no.reason for no in NOES))


def table() -> str:
    """Return a Markdown table of questions by holders, whose cells name the parts for which there is no answer."""
    lines = ["| question | " + " | ".join(HOLDERS) + " |", "| --- |" + " --- |" * len(HOLDERS)]
    for question in ANSWERS:
        cells = []
        for holder in HOLDERS:
            noes = [part for part in PARTS if refused(question, holder, part) is not None]
            cell = "yes" if not noes else "no" if len(noes) == len(PARTS) else f"not with {', '.join(noes)}"
            answered = [part for part in PARTS if part not in noes]
            if any(refused(question, holder, part, "clusters") is not None for part in answered):
                cell = f"{cell}, not with clusters or series" if noes else "not with clusters or series"
            cells.append(cell)
        lines.append(f"| {question} | " + " | ".join(cells) + " |")
    text = "\n".join(lines).replace("not with none, known values, learned", "with parameters only")
    return text.replace("not with none, known values, parameters, both", "with learned only")


def test_every_question_is_in_the_table():
    assert tuple(questions.QUESTIONS) == tuple(ANSWERS)
    assert {no.question for no in NOES} <= {ANY, *ANSWERS}
    assert (holders.PARTS, holders.DEPENDENCES) == (PARTS, DEPENDS)
    assert HELD.keys() == set(HOLDERS)


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_is_declared_to_have_no_answer_is_stored_as_refused_and_nothing_else(holder):
    for question, part, depends in product(ANSWERS, PARTS, DEPENDS):
        entry = questions.lookup(questions.stored(), holders.HOLDERS[HELD[holder]], part, depends, question)
        no = refused(question, holder, part, depends)
        by_values = question == "update" and depends != "independent" and holder in ("sparse", "windows")
        # labels of a matrix are arrays, which new rows do not bring
        assert isinstance(entry, str) == (no is not None or by_values), (question, part, depends)


@pytest.mark.parametrize(
    ("name", "rows", "collapsed"),
    [
        ("rows in memory", Dense, False),
        ("conditions in memory", Dense, False),
        ("distinct rows", Dense, True),
        ("matrix in memory", Dense, False),
        ("sparse", Sparse, False),
        ("blocks", Blocks, False),
        ("windows as a matrix", Dense, False),
        ("windows", Intervals, False),
    ],
)
@pytest.mark.parametrize("part", ["none", "known values"])
@pytest.mark.filterwarnings("ignore:The samples contradict what is known")
def test_holders_of_the_table_hold_rows_as_they_say(name, rows, collapsed, part):
    held = holders.HOLDERS[name].build(part, "independent").fit.solved
    assert type(held.rows) is rows
    assert (held.rows.inverse is not None) == collapsed
    assert held.data.in_memory


@pytest.mark.parametrize("part", ["parameters", "both", "learned"])
def test_conditions_with_parameters_are_collapsed_unless_they_are_tilted(part):
    for name in ("conditions in memory", "distinct rows"):
        rows = holders.HOLDERS[name].build(part, "independent").fit.solved.rows
        assert (rows.inverse is not None) == (name == "distinct rows")


def test_truncated_rows_and_engines_hold_rows_as_they_say():
    assert isinstance(holders.HOLDERS["truncated rows"].build("none", "independent").fit.solved, SolvedByWindows)
    for name in ("Polars", "Polars, distinct rows", "DuckDB"):
        held = holders.HOLDERS[name].build("none", "independent").fit.solved
        assert not held.data.in_memory
        assert isinstance(held.rows, Dense) == (name == "Polars, distinct rows")


def test_the_documentation_shows_the_table():
    page = Path(__file__).parents[2] / "docs" / "concepts" / "questions.md"
    text = page.read_text(encoding="utf-8")
    assert table() in text
    lines = [f"- **{question}**: {calls} (`vardi.{function}`)" for question, (calls, function) in ANSWERS.items()]
    assert "\n".join(lines) in text
    assert text.endswith(f"{reasons()}\n")


def code_of(name: str, fit: vardi.DebiasedSample) -> CodeType:
    """Return the code of the function that answers a question, or of its form where the rows of a fit are."""
    module, path = name.split(":")
    owner, _, own = path.rpartition(".")
    place = importlib.import_module(f"vardi.{module}")
    if owner == "RowsInMemory":
        return getattr(type(fit.data), own).__code__
    return functools.reduce(getattr, path.split("."), place).__code__


@pytest.mark.parametrize("holder", ["rows in memory", "distinct rows", "sparse", "blocks", "Polars"])
@pytest.mark.filterwarnings("ignore")
def test_one_function_answers_each_question_wherever_the_rows_are(holder):
    """The functions that run while a question is answered include the one that is declared to answer it."""
    name = "engine" if holder == "Polars" else holder
    parts = ("none", "known values") if holder in ("sparse", "blocks") else ("none", "both")
    for part in parts:
        built, subject = traced(lambda part=part: holders.HOLDERS[holder].build(part, "independent"))
        asked = [one for one in ANSWERS if refused(one, name, part) is None and (part == "none") != (one in OF_PARTS)]
        for question in asked:
            ran, _ = traced(lambda question=question, subject=subject: questions.QUESTIONS[question](subject))
            ran |= built if question == "known" else set()  # which is compared at once, for a warning
            assert code_of(ANSWERS[question][1], subject.fit) in ran, question


def traced(call):
    """Return the code that runs in a call, and what it returns."""
    ran = set()
    sys.setprofile(lambda frame, event, _: ran.add(frame.f_code) if event == "call" else None)
    try:
        return ran, call()
    finally:
        sys.setprofile(None)

"""The table of questions, holders of rows and parts, run cell by cell: each equals the dense answer, or says no."""

from __future__ import annotations

import os
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import questions
from questions import ANSWERS, EQUAL, build, dense_form
from sklearn.linear_model import LinearRegression

import vardi
from vardi._fit import assisted
from vardi._fit.capabilities import DEPENDS, HOLDERS, MATRICES, PARTS, QUESTIONS, TRUNCATED, reasons, refused, table


@pytest.fixture(scope="module")
def data():
    return questions.data()


@pytest.fixture(scope="module")
def dense(data):
    return questions.DenseAnswers(data)


CASES = (*HOLDERS[:-1], "engine: Polars", "engine: DuckDB", "engine: distinct")


def asks_most(case):
    """Return the part with which a holder is asked about rows that depend on one another."""
    alone = case in TRUNCATED or case == "engine: DuckDB"  # Polars, which is quicker to ask, has both
    return "known values" if case in MATRICES else "none" if alone else "both"


def is_asked_each_time(case, part, depends):
    """Return which cells every run asks for: engines, which are slow to ask, with no part and with both."""
    if depends == "independent":
        parts = {"engine: DuckDB": ("none", "learned")}.get(case, ("none", "both", "learned"))
        return not case.startswith("engine") or part in parts
    few = {"engine: DuckDB": ("clusters",), "engine: distinct": (), "truncated rows": ("clusters",)}
    return depends in few.get(case, DEPENDS) and part == asks_most(case)


CELLS = [  # `make slow` asks for all
    (case, part, depends)
    for case in CASES
    for part in PARTS
    for depends in DEPENDS
    if "VARDI_EVERY_PAIR" in os.environ or is_asked_each_time(case, part, depends)
]


def test_every_question_is_asked():
    assert ANSWERS.keys() == QUESTIONS.keys()


@pytest.mark.parametrize(("case", "part", "depends"), CELLS, ids=map("-".join, CELLS))
def test_every_cell_is_the_dense_answer_or_a_declared_no(case, part, depends, data, dense, monkeypatch):
    holder = case.split(":")[0]
    if holder in MATRICES and part in ("parameters", "both"):
        with pytest.raises(vardi.VardiError):  # a matrix takes no bias with parameters at all
            vardi.debias_matrix(vardi.logistic("x"), [0])
        return
    if part == "learned" and (holder in MATRICES or holder == "engine"):
        given = {name: frame.lazy() for name, frame in questions.frames(data).items()}
        in_engine = holder == "engine"
        call = partial(vardi.debias, given, {"plain": 1, "seen": vardi.learned("x")})
        call = call if in_engine else partial(vardi.debias_matrix, vardi.learned("x"), [0])
        with pytest.raises(vardi.VardiError, match="needs rows in memory" if in_engine else "matrix"):
            call()
        return
    if part == "learned":
        monkeypatch.setattr(assisted, "default_model", lambda columns: LinearRegression())  # which takes no time
    if holder in TRUNCATED and part != "none":
        text = "window(x, y, None)" if part == "known values" else "logistic(x) * window(x, y, None)"
        with pytest.raises(vardi.VardiError, match="can only be the bias of a single sample|and this is a second"):
            vardi.debias({"seen": data}, {"seen": text}, known={"x": 3.0})
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small samples: errors are doubtful, and the same everywhere
        cell = (dense_form(case), part, depends)
        asked = build(case, data, part, monkeypatch, depends, dense.asked(*cell))
        assert type(asked.fit) is vardi.DebiasedSample
        for question, answer in ANSWERS.items():
            no = refused(question, holder, part, depends)
            if no is not None:
                with pytest.raises(vardi.VardiError) as caught:
                    answer(asked)
                assert no.reason[:30] in str(caught.value), question
                continue
            if refused(question, "rows in memory", part, depends) is not None:
                continue
            got, expected = answer(asked), dense.answer(question, *cell)
            said = f"{question} of {case} with {part}, {depends}"
            np.testing.assert_allclose(got, expected, rtol=EQUAL, atol=EQUAL, err_msg=said)


def test_the_documentation_shows_the_table():
    page = Path(__file__).parents[2] / "docs" / "concepts" / "questions.md"
    text = page.read_text(encoding="utf-8")
    assert table() in text
    assert "\n".join(f"- **{question}**: {calls}" for question, calls in QUESTIONS.items()) in text
    assert text.endswith(f"{reasons()}\n")

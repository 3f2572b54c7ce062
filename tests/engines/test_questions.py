"""Every question, asked of one small fit of each part in Ibis, in Dask and on a Spark cluster: the answer of memory."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import questions
from engines import EVERY_PAIR

import vardi
from vardi._fit.capabilities import DEPENDS, PARTS, refused

# These engines are slow to ask: a fit without parts, and one with all of them; `make slow` asks for the rest.
# Learned biases, the last of the parts, need rows in memory.
FITS = [
    ("ibis", "none", "independent"),
    ("ibis", "both", "series"),
    ("dask", "both", "series"),
    ("spark", "none", "independent"),
]
if EVERY_PAIR:
    FITS = [
        (engine, part, depends) for engine in ("ibis", "dask", "spark") for part in PARTS[:-1] for depends in DEPENDS
    ]


@pytest.fixture(scope="module")
def data():
    return questions.data()


@pytest.mark.parametrize(("engine", "part", "depends"), FITS, ids=["-".join(one) for one in FITS], indirect=["engine"])
def test_every_question_has_the_answer_of_memory_or_a_declared_no(engine, part, depends, data):
    samples = engine.samples({name: frame.to_arrow() for name, frame in questions.frames(data).items()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small samples: errors are doubtful, and the same everywhere
        asked = questions.of_frames(samples, part, depends)
        dense = questions.in_memory(data, part, depends)
        for question, answer in questions.ANSWERS.items():
            no = refused(question, "engine", part, depends)
            if no is not None:
                with pytest.raises(vardi.VardiError) as caught:
                    answer(asked)
                assert no.reason[:30] in str(caught.value), question
            elif refused(question, "rows in memory", part, depends) is None:
                np.testing.assert_allclose(
                    answer(asked), answer(dense), rtol=questions.EQUAL, atol=questions.EQUAL, err_msg=question
                )

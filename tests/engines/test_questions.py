"""Every question, asked of one small fit of each part in Ibis and on a Spark cluster: the answer of memory."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import questions

import vardi
from vardi._fit.capabilities import PARTS, refused

pytestmark = pytest.mark.spark  # Ibis too: it takes half a minute to write its queries
FITS = [pytest.param(engine, part, id=f"{engine}-{part}") for engine in ("ibis", "spark") for part in PARTS]


@pytest.fixture(scope="module")
def data():
    return questions.data()


@pytest.mark.parametrize(("engine", "part"), FITS, indirect=["engine"])
def test_every_question_has_the_answer_of_memory_or_a_declared_no(engine, part, data):
    samples = engine.samples({name: frame.to_arrow() for name, frame in questions.frames(data).items()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small samples: errors are doubtful, and the same everywhere
        asked, dense = questions.of_frames(samples, part), questions.in_memory(data, part)
        for question, answer in questions.ANSWERS.items():
            no = refused(question, "engine", part)
            if no is not None:
                with pytest.raises(vardi.VardiError) as caught:
                    answer(asked)
                assert no.reason[:30] in str(caught.value), question
            elif refused(question, "rows in memory", part) is None:
                np.testing.assert_allclose(
                    answer(asked), answer(dense), rtol=questions.EQUAL, atol=questions.EQUAL, err_msg=question
                )

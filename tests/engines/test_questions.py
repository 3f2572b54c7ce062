"""Every question, asked of one small fit of each part in Ibis and on a Spark cluster: the answer of memory."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
import questions

import vardi
from vardi._fit.capabilities import PARTS, refused

# "both" asks all that known values and parameters ask alone, which `make slow` asks for as well.
ON_A_CLUSTER = PARTS if "VARDI_EVERY_PAIR" in os.environ else ("none", "both")
DEPENDENT = [("ibis", "series"), ("spark", "clusters")]
if "VARDI_EVERY_PAIR" in os.environ:
    DEPENDENT += [("ibis", "clusters"), ("spark", "series")]
FITS = [
    *(("ibis", part, "independent") for part in PARTS),
    *(("spark", part, "independent") for part in ON_A_CLUSTER),
    *((engine, "both", depends) for engine, depends in DEPENDENT),
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

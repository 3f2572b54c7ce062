"""Every question, asked of one small fit of each part in Ibis, in Dask and on a Spark cluster: the stored answer."""

from __future__ import annotations

import pytest
from engines import EVERY_PAIR
from holders import DEPENDENCES, PARTS, by_sample, later, of_frames, pool
from questions import differences

# These engines are slow to ask: a fit without parts, and one with all of them; `make slow` asks for the rest.
FITS = [
    ("ibis", "none", "independent"),
    ("ibis", "both", "series"),
    ("dask", "both", "series"),
    ("spark", "none", "independent"),
]
if EVERY_PAIR:
    FITS = [
        (engine, part, dependence)
        for engine in ("ibis", "dask", "spark")
        for part in PARTS
        for dependence in DEPENDENCES
    ]


@pytest.mark.parametrize(
    ("engine", "part", "dependence"), FITS, ids=["-".join(one) for one in FITS], indirect=["engine"]
)
def test_every_answer_is_the_stored_one(engine, part, dependence):
    def build():
        samples = by_sample(pool())
        own, more = (
            engine.samples({name: frame.to_arrow() for name, frame in frames.items()})
            for frames in (samples, later(samples))
        )
        return of_frames(own, more, part, dependence, in_engine=True)

    assert differences(engine.name.capitalize(), part, dependence, build) == []

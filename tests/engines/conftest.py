"""Engines as fixtures; a Spark cluster that lives as long as the tests."""

from __future__ import annotations

import cases
import engines
import pytest
from spark_cluster import SparkCluster, require_spark


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A standalone Spark master and two workers on loopback."""
    require_spark()
    started = SparkCluster(tmp_path_factory.mktemp("spark"))
    yield started
    started.stop()


@pytest.fixture
def engine(request):
    """The engine that a test is parametrised with by name."""
    name = request.param
    if name in engines.SPARK:
        made = engines.spark_engine(name, request.getfixturevalue("cluster"))
    else:
        made = engines.local_engine(name)
    if made.streaming:
        pl = pytest.importorskip("polars")
        with pl.Config(engine_affinity="streaming"):
            yield made
    else:
        yield made


@pytest.fixture(scope="session")
def fitted():
    """Return the fit of a case in an engine, made once."""
    made = {}

    def fit(case, engine):
        if (case, engine.name) not in made:
            made[case, engine.name] = cases.CASES[case].fit(engine)
        return made[case, engine.name]

    return fit


@pytest.fixture
def reference(fitted):
    """Return the fit of a case in NumPy."""
    return lambda case: fitted(case, engines.local_engine("numpy"))

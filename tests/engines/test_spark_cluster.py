"""Spark as it is in earnest: workers that die, a driver that is stopped, rows that stay on the executors."""

from __future__ import annotations

import os
import re
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cases import CASES
from engines import local_engine, spark_engine
from numpy.testing import assert_allclose
from refusals import REFUSALS
from spark_cluster import PATIENCE, descendants

import vardi
from vardi._rows import lazy_model

pytest.importorskip("pyspark", reason="Spark's tests need pyspark: pip install 'vardi[spark]'")

LENGTHS = CASES["lengths"]
IN_A_STEP = 7  # queries of three frames before the second of a Newton step: each is checked, and thinned for a start


class Queries:
    """What was collected from Spark; before the query of a number a disturbance can be set going."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from pyspark.sql.classic.dataframe import DataFrame

        self.answers: list[pa.Table] = []
        self.before: dict[int, Callable[[], Any]] = {}
        self.running = False
        to_arrow = DataFrame.toArrow

        def spied(frame: Any) -> pa.Table:
            self.before.get(len(self.answers), lambda: None)()
            self.running = True
            try:
                self.answers.append(to_arrow(frame))
            finally:
                self.running = False
            return self.answers[-1]

        monkeypatch.setattr(DataFrame, "toArrow", spied)
        for other in ("collect", "toPandas", "toLocalIterator", "take", "head", "first", "tail", "foreach"):
            monkeypatch.setattr(DataFrame, other, lambda *_, name=other: pytest.fail(f"rows left Spark by {name}()"))


@pytest.fixture
def queries(monkeypatch):
    return Queries(monkeypatch)


class Nap:
    """Rows that pass through Python on the executors, and do not go on while a file is there."""

    def __init__(self, folder: Path) -> None:
        self.flag, self.folder = folder / "slow", folder

    def rows(self, frame: Any) -> Any:
        flag, folder = str(self.flag), str(self.folder)

        def slowly(batches):
            for batch in batches:
                if os.path.exists(flag):
                    open(f"{folder}/task-{os.getpid()}", "w").close()
                    while os.path.exists(flag):
                        time.sleep(0.05)
                yield batch

        with warnings.catch_warnings(action="ignore", category=FutureWarning):  # of the version of pandas, unused here
            return frame.repartition(4).mapInArrow(slowly, frame.schema)

    def tasks(self) -> set[int]:
        """Return the processes that have begun a slow task."""
        return {int(path.name.partition("-")[2]) for path in self.folder.glob("task-*")}


def samples(cluster: Any, nap: Nap) -> dict[str, Any]:
    return {name: nap.rows(cluster.session().createDataFrame(table)) for name, table in LENGTHS.tables.items()}


@dataclass
class Disturbance:
    """A deed that is done in the middle of a query, which is slow until then."""

    queries: Queries
    nap: Nap
    is_there: Callable[[], bool]
    deed: Callable[[], Any]
    outcome: Any = None
    in_the_middle: bool = False

    def before(self, number: int) -> None:
        """Do it in the query of this number."""
        self._thread = threading.Thread(target=self._meddle)
        self.queries.before[number] = self._begin

    def done(self) -> Any:
        """Return what the deed returned, once it is done, and in the middle of the query."""
        self._thread.join(PATIENCE)
        assert self.in_the_middle
        return self.outcome

    def _begin(self) -> None:
        self.nap.flag.touch()
        self._thread.start()

    def _meddle(self) -> None:
        end = time.monotonic() + PATIENCE
        while not self.is_there() and time.monotonic() < end:
            time.sleep(0.05)
        self.in_the_middle = self.queries.running and self.is_there()
        try:
            self.outcome = self.deed()
        finally:
            self.nap.flag.unlink()


def test_the_cluster_has_two_workers_on_loopback(cluster):
    assert cluster.url.startswith("spark://127.0.0.1:")
    context = cluster.session().sparkContext._jsc.sc()
    end = time.monotonic() + PATIENCE
    while context.getExecutorMemoryStatus().size() < 3 and time.monotonic() < end:  # the driver counts as one
        time.sleep(0.1)
    places = context.getExecutorMemoryStatus().keys().toList().mkString(" ")
    assert re.fullmatch(r"(127\.0\.0\.1:\d+ ?){3}", places)


def test_rows_stay_on_the_executors(cluster, queries, monkeypatch):
    monkeypatch.setattr(lazy_model, "ROWS", 60)
    spark = spark_engine("spark", cluster)
    fit = LENGTHS.fit(spark)
    fit.expectations(list(LENGTHS.means))
    assert len(queries.answers) > 9
    assert max(answer.num_rows for answer in queries.answers) < 60  # of 80, 120 and 100
    asked = len(queries.answers)
    indicators = CASES["houses"].fit(spark)
    distinct = len(indicators.solved.rows)
    assert {answer.num_rows for answer in queries.answers[asked:]} <= set(range(1, distinct + 1))
    assert distinct < 40  # of 370
    asked = len(queries.answers)
    for fitted, case in ((fit, LENGTHS), (indicators, CASES["houses"])):
        assert {*fitted.weights} == {*fitted.probabilities} == {*case.tables}
        columns = {name for table in case.tables.values() for name in table.column_names}
        assert not any(columns & {*answer.column_names} for answer in queries.answers)
    assert len(queries.answers) == asked


@pytest.mark.parametrize("name", ["quotient by zero", "NaN by a logarithm", "condition of NaN", "text as a count"])
def test_the_same_is_refused_without_ansi(cluster, name):
    session, refusal = cluster.session(), REFUSALS[name]
    assert session.conf.get("spark.sql.ansi.enabled") == "true"  # as Spark 4 has it
    session.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(refusal.error, match=refusal.message):
            refusal.debias(spark_engine("spark", cluster))
    finally:
        session.conf.set("spark.sql.ansi.enabled", "true")


def test_a_worker_is_lost_in_the_middle_of_a_solve(cluster, queries, tmp_path):
    nap, victim = Nap(tmp_path), cluster.workers[-1].pid
    loss = Disturbance(queries, nap, lambda: bool(nap.tasks() & {*descendants(victim)}), cluster.kill_worker)
    loss.before(IN_A_STEP)
    try:
        fit = vardi.debias(samples(cluster, nap), LENGTHS.biases)
        lost = loss.done()
    finally:
        if len(cluster.workers) < 2:
            cluster.start_worker()
    assert victim in lost
    assert nap.tasks() & lost  # with what it was about to finish
    assert len(queries.answers) > IN_A_STEP + 1
    undisturbed = LENGTHS.fit(local_engine("numpy"))
    assert fit.sizes == undisturbed.sizes
    assert_allclose(fit.solution.u, undisturbed.solution.u, rtol=1e-9)
    assert_allclose(list(fit.omegas.values()), list(undisturbed.omegas.values()), rtol=1e-9)


def test_the_driver_is_stopped_in_the_middle_of_a_solve(cluster, queries, tmp_path):
    nap, context = Nap(tmp_path), cluster.session().sparkContext
    stop = Disturbance(queries, nap, lambda: bool(nap.tasks()), context.stop)
    stop.before(IN_A_STEP)
    with pytest.raises(vardi.errors.EngineError, match="^The engine could not compute on the rows of sample") as caught:
        vardi.debias(samples(cluster, nap), LENGTHS.biases)
    stop.done()
    assert re.search("SparkContext (was|has been) (shut down|stopped)|cancelled", str(caught.value)), str(caught.value)
    assert caught.value.sample in LENGTHS.tables
    assert len(queries.answers) == IN_A_STEP

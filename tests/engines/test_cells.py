"""Biases by category in engines: the same parameters and weights as in memory, and the same refusals."""

from __future__ import annotations

import datetime

import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from cases import labelled, tables_of
from engines import collected, local_engine
from numpy.testing import assert_allclose

import vardi

NUMPY = local_engine("pandas")
LOCAL = pytest.mark.parametrize("engine", ["polars-lazy", "duckdb", "ibis", "dask"], indirect=True)


def tables():
    rng = np.random.default_rng(4)
    effects = {"N": 0.0, "S": 1.0, "W": -0.5}
    n = 6000
    region, sex = rng.choice(list("NSW"), n, p=[0.5, 0.3, 0.2]), rng.choice(["f", "m"], n)
    zone, ill = rng.integers(1, 4, n), rng.random(n) < 0.3
    y = rng.normal(size=n) + 2.0 * (region == "S") + (sex == "m") * zone
    people = {"region": region, "sex": sex, "zone": zone, "ill": ill, "y": y, "n rows": rng.integers(0, 3, n)}
    accept = np.exp([effects[one] for one in region]) * np.exp(-0.7 * (sex == "m"))
    draws = {"reference": rng.choice(n, 300), "panel": rng.choice(n, 700, p=accept / accept.sum())}
    return tables_of({name: {key: values[rows] for key, values in people.items()} for name, rows in draws.items()})


TABLES = tables()
BIASES = [
    vardi.cells("region", "sex"),
    vardi.cells(("region", "sex"), "zone"),
    vardi.cells("ill", "zone > 1"),
    vardi.where("region != 'W'") * vardi.cells("region"),
    vardi.biases.as_bias(nw.col("region") != "W") * vardi.cells("region", "zone"),
]


def same(fit, expected):
    found, wanted = fit.parameters["panel"], expected.parameters["panel"]
    assert list(found) == list(wanted)
    for name, estimate in found.items():
        assert_allclose((estimate.value, estimate.stderr), (wanted[name].value, wanted[name].stderr), rtol=1e-8)
    one, other = fit.expectation("y"), expected.expectation("y")
    assert_allclose((one.value, one.stderr), (other.value, other.stderr), rtol=1e-8)


@LOCAL
@pytest.mark.parametrize("bias", BIASES, ids=str)
def test_they_are_those_of_memory(engine, bias):
    given = dict(TABLES)
    if "W" in str(bias):
        regions = np.array(given["panel"].column("region").to_pylist())
        given["panel"] = given["panel"].filter(regions != "W")
    biases = {"reference": 1, "panel": bias}
    same(vardi.debias(engine.samples(given), biases), vardi.debias(NUMPY.samples(given), biases))


@LOCAL
def test_labels_and_counts(engine):
    given = labelled(TABLES, "origin")[None]
    biases = {"reference": 1, "panel": vardi.cells("region", "sex")}
    options = {"source": "origin", "counts": "n rows"}
    fit = vardi.debias(engine.frame(given), biases, **options)
    expected = vardi.debias(NUMPY.frame(given), biases, **options)
    same(fit, expected)
    rows = collected(fit.weights)
    order = np.argsort(given.column("id").to_numpy())
    assert_allclose(rows["weight"], np.asarray(expected.weights)[order], rtol=1e-8)


def test_beside_features_that_vary_with_every_row():
    biases = {"reference": 1, "panel": vardi.cells("region", "sex"), "tilted": "exponential_tilt(y)"}
    rng = np.random.default_rng(1)
    y = TABLES["reference"].column("y").to_numpy()
    rows = rng.choice(len(y), 200, p=np.exp(0.3 * y) / np.exp(0.3 * y).sum())
    given = {**TABLES, "tilted": TABLES["reference"].take(rows)}
    same(vardi.debias(local_engine("duckdb").samples(given), biases), vardi.debias(NUMPY.samples(given), biases))


@LOCAL
def test_known_margins_identify_them_alone(engine):
    known = {"region": {"N": 0.5, "S": 0.3, "W": 0.2}, "sex": {"f": 0.5, "m": 0.5}}
    one = {"panel": TABLES["panel"]}
    biases = {"panel": vardi.cells("region", "sex")}
    fit = vardi.debias(engine.samples(one), biases, known=known)
    expected = vardi.debias(NUMPY.samples(one), biases, known=known)
    same(fit, expected)
    assert_allclose(fit.expectation("region == 'S'").value, 0.3, rtol=1e-9)


def refused(table, bias, error, said, columns=None):
    table = table if columns is None else table.append_column(*columns)
    for engine in (NUMPY, local_engine("polars-lazy"), local_engine("duckdb")):
        with pytest.raises(error, match=said):
            vardi.debias(engine.samples({"a": table, "b": table}), {"a": 1, "b": bias})


class TestRefusals:
    table = pa.table({"x": [1.5, 2.5, 3.5, 4.5] * 60, "g": ["a", "b", "a", "b"] * 60})

    def test_one_value(self):
        refused(self.table, vardi.cells("one"), vardi.UnidentifiedParametersError, "has only one value", self.one())

    def one(self):
        return "one", pa.array(["same"] * 240)

    def test_a_measurement(self):
        column = ("many", pa.array(np.linspace(0, 1, 240)))
        refused(self.table, vardi.cells("many"), vardi.InvalidBiasError, "'many' has 240 different values", column)

    def test_a_missing_category(self):
        column = ("gap", pa.array(["u", "v", None, "u"] * 60))
        refused(self.table, vardi.cells("gap"), vardi.MissingValuesError, r"missing values in 'gap' \(60\)", column)

    def test_what_is_not_finite(self):
        refused(
            self.table, vardi.cells("1 / (x - 1.5)"), vardi.InvalidBiasError, "is inf on 60 rows, which is not a cat"
        )
        refused(self.table, vardi.cells("log(x - 3)"), vardi.InvalidBiasError, "is nan on 120 rows, which is not a cat")
        column = ("endless", pa.array([1.0, 2.0, np.inf, 1.0] * 60))
        refused(self.table, vardi.cells("endless"), vardi.InvalidBiasError, "is inf on 60 rows", column)

    @pytest.mark.parametrize("bias", [vardi.cells("g"), vardi.logistic("x")], ids=str)
    def test_a_bias_that_no_sample_was_drawn_with(self, bias):
        labelled = self.table.append_column("s", pa.array(["a"] * 240))
        for engine in (NUMPY, local_engine("polars-lazy"), local_engine("duckdb")):
            with pytest.raises(vardi.UnidentifiedParametersError, match="No sample was drawn with the bias of 'b'"):
                vardi.debias(engine.samples({"a": self.table}), {"a": 1, "b": bias})
            with pytest.raises(vardi.UnidentifiedParametersError, match="No sample was drawn with the bias of 'b'"):
                vardi.debias(engine.frame(labelled), {"a": 1, "b": bias}, source="s")

    def test_a_date(self):
        days = [datetime.date(2024, 1, 1) + datetime.timedelta(place % 3) for place in range(240)]
        refused(self.table, vardi.cells("day"), vardi.MismatchError, "reads categories", ("day", pa.array(days)))

    def test_a_column_that_is_not_there(self):
        refused(self.table, vardi.cells("h"), vardi.MismatchError, "'h'")

    def test_a_value_that_the_sample_lacks(self):
        few = self.table.filter(np.array(self.table.column("g").to_pylist()) == "a")
        for engine in (NUMPY, local_engine("polars-lazy")):
            with pytest.raises(vardi.UnidentifiedParametersError, match="No row of 'b' has g=b"):
                vardi.debias(engine.samples({"a": self.table, "b": few}), {"a": 1, "b": vardi.cells("g")})

    def test_text_here_and_numbers_there(self):
        frames = {"a": pl.LazyFrame({"g": ["1", "2"] * 9}), "b": pl.LazyFrame({"g": [1, 2] * 9})}
        with pytest.raises(vardi.MismatchError, match="is text in some rows and a number in others"):
            vardi.debias(frames, {"a": 1, "b": vardi.cells("g")})


@pytest.mark.parametrize(("bias", "queries"), [("cells(region, sex)", 3), ("cells((region, sex))", 2)])
def test_one_group_by_for_each_group_beside_that_of_the_checks(bias, queries, monkeypatch):
    asked, collect = [], nw.LazyFrame.collect
    monkeypatch.setattr(
        nw.LazyFrame, "collect", lambda *given, **options: asked.append(1) or collect(*given, **options)
    )
    frame = local_engine("duckdb").frame(labelled(TABLES, "origin")[None])
    vardi.debias(frame, {"reference": 1, "panel": bias}, source="origin")
    assert len(asked) == queries

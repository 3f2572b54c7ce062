"""Problems small enough for every engine, which together use all that biases can read."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from engines import Engine

import vardi

FIRST = datetime.date(1980, 1, 1)


@dataclass(frozen=True)
class Case:
    """A problem, and what is asked of its population.

    Attributes
    ----------
    tables : dict
        Rows by sample; by None where one frame has a column of labels.
    biases : dict
        By name.
    means : tuple of str
        Whose expectations to compare.
    column : str
        Whose distribution to compare.
    options : dict
        For ``vardi.debias``.
    """

    tables: dict[Any, pa.Table]
    biases: dict[Any, Any]
    means: tuple[str, ...]
    column: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def labelled(self) -> bool:
        """Whether it is one frame with a column of labels."""
        return None in self.tables

    def samples(self, engine: Engine) -> Any:
        """Return the rows where an engine has them."""
        return engine.frame(self.tables[None]) if self.labelled else engine.samples(self.tables)

    def fit(self, engine: Engine) -> vardi.DebiasedSample:
        """Debias."""
        return vardi.debias(self.samples(engine), self.biases, **self.options)


def drawn(rows: dict[str, np.ndarray], omega: np.ndarray, size: int, rng: np.random.Generator) -> dict[str, Any]:
    """Draw rows of a population with a bias."""
    chosen = rng.choice(len(omega), size, p=omega / omega.sum())
    return {name: values[chosen] for name, values in rows.items()}


def tables_of(samples: dict[Any, dict[str, Any]]) -> dict[Any, pa.Table]:
    """Return samples as tables, with a number for each row of the pool."""
    tables, start = {}, 0
    for name, rows in samples.items():
        size = len(next(iter(rows.values())))
        tables[name] = pa.table({"id": np.arange(start, start + size), **rows})
        start += size
    return tables


def labelled(tables: dict[Any, pa.Table], column: str) -> dict[Any, pa.Table]:
    """Return samples as one table with a column of labels, their rows mixed."""
    parts = [table.append_column(column, pa.array([name] * table.num_rows)) for name, table in tables.items()]
    pool = pa.concat_tables(parts)
    return {None: pool.take(np.random.default_rng(1).permutation(pool.num_rows))}


def houses() -> Case:
    """Indicators of every kind of column; a column with a space; a state that was not sampled."""
    rng = np.random.default_rng(0)
    n = 4000
    days = rng.integers(0, 15000, n)
    population = {
        "unit price": rng.gamma(4.0, 8.0, n),
        "rooms": rng.integers(1, 7, n).astype(np.int32),
        "region": rng.choice(["N", "S", "W"], n),
        "built": (np.datetime64(FIRST) + days).astype("datetime64[D]"),
        "owner": rng.random(n) < 0.5,
        "score": np.where(rng.random(n) < 0.3, np.nan, rng.normal(0.0, 1.0, n)),
    }
    cheap = (population["unit price"] <= 30) & np.isin(population["region"], ["N", "W"])
    panel = (np.isin(population["rooms"], [2, 3, 4]) & ~population["owner"]) | (days >= 7305)
    silent = np.isnan(population["score"]) | (population["region"] != "S")
    samples = {
        "national": drawn(population, np.ones(n), 90, rng),
        "agency": drawn(population, cheap * 1.0, 120, rng),
        "web panel": drawn(population, panel * 1.0, 100, rng),
        "silent": drawn(population, silent * 1.0, 60, rng),
    }
    for rows in samples.values():
        rows["score"] = pa.array(rows["score"], mask=np.isnan(rows["score"]))
    biases = {
        "national": 1,
        "agency": "`unit price` <= 30 and region in ('N', 'W')",
        "web panel": "rooms in (2, 3, 4) and not owner or built >= '2000-01-01'",
        "silent": "score is missing or region != 'S'",
        "unsampled": "10 < `unit price` <= 50 and rooms != 6",
    }
    means = ("unit price", "rooms * 2 + owner", "region == 'W'", "`unit price` / rooms")
    return Case(tables_of(samples), biases, means, "unit price")


def lengths() -> Case:
    """Densities, so that every Newton step is a query."""
    rng = np.random.default_rng(0)
    n = 6000
    x, k = rng.gamma(2.0, 1.0, n), rng.integers(1, 5, n)
    samples = {
        "plain": drawn({"x": x, "k": k}, np.ones(n), 80, rng),
        "seen": drawn({"x": x, "k": k}, x, 120, rng),
        "tilted": drawn({"x": x, "k": k}, np.exp(-x / 2) * k, 100, rng),
    }
    biases = {"plain": 1, "seen": "x", "tilted": "exp(-x / 2) * k", "root": "sqrt(x) + abs(x - 1)"}
    return Case(tables_of(samples), biases, ("x", "x ** 2", "min(x, k)"), "x")


def windows() -> Case:
    """Twelve overlapping triangles, most of them 0 on most rows, and one frame with a column of labels."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 11.0, 20000)
    samples = {f"w{k}": drawn({"x": x}, np.maximum(0.0, 2.0 - np.abs(x - k)), 60, rng) for k in range(12)}
    biases = {f"w{k}": f"max(0, 2 - abs(x - {k}))" for k in range(12)}
    tables = labelled(tables_of(samples), "window")
    return Case(tables, biases, ("x", "x > 5"), "x", {"source": "window"})


def strata() -> Case:
    """Twelve indicators, labels that are numbers, and counts that are a column, some of them 0."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 15, 20000)
    samples = {}
    for k in range(12):
        rows = drawn({"x": x}, ((x >= k) & (x < k + 4)) * 1.0, 50, rng)
        samples[k] = {**rows, "n rows": rng.integers(0, 4, 50)}
    biases = {k: f"{k} <= x < {k + 4}" for k in range(12)}
    options = {"source": "stratum", "counts": "n rows"}
    return Case(labelled(tables_of(samples), "stratum"), biases, ("x", "x ** 2"), "x", options)


def census() -> Case:
    """Two groups that no sample joins, and known shares that do: of a sample's cell and of a column's values."""
    rng = np.random.default_rng(0)
    n = 6000
    x, sex = rng.uniform(0.0, 10.0, n), rng.choice(["f", "m"], n)
    population = {"x": x, "sex": sex, "adult": rng.random(n) < 0.7}
    samples = {
        "north": drawn(population, (x <= 5) * 1.0, 110, rng),
        "low": drawn(population, (x <= 3) * 1.0, 90, rng),
        "south": drawn(population, (x > 5) * 1.0, 130, rng),
    }
    biases = {"north": "x <= 5", "low": "x <= 3", "south": "x > 5"}
    options = {"known": {"north": 0.45, "sex": {"f": 0.52, "m": 0.48}}}
    return Case(tables_of(samples), biases, ("x", "adult"), "x", options)


def people(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A population with categories that go together with a number."""
    region, sex = rng.choice(list("NSW"), n, p=[0.5, 0.3, 0.2]), rng.choice(["f", "m"], n)
    x = rng.gamma(3.0, 1.0, n) + (region == "S")
    return {"x": x, "y": 2.0 + x + (sex == "m") + rng.normal(size=n), "region": region, "sex": sex}


EFFECTS = {"N": 0.0, "S": 0.8, "W": -0.5}
MARGINS = {"region": {"N": 0.5, "S": 0.3, "W": 0.2}, "sex": {"f": 0.5, "m": 0.5}}


def raking() -> Case:
    """One sample whose selection by categories only the known margins tell."""
    rng = np.random.default_rng(0)
    population = people(8000, rng)
    omega = np.exp([EFFECTS[one] for one in population["region"].tolist()]) * np.where(population["sex"] == "m", 1, 2)
    samples = {"panel": drawn(population, omega, 400, rng)}
    biases = {"panel": "cells(region, sex)"}
    return Case(tables_of(samples), biases, ("x", "y", "region == 'S'"), "y", {"known": MARGINS})


def weighted_raking() -> Case:
    """The same of a sample that is length-biased besides, with a state that was not sampled."""
    rng = np.random.default_rng(1)
    population = people(8000, rng)
    effects = np.exp([EFFECTS[one] for one in population["region"].tolist()])
    samples = {"panel": drawn(population, population["x"] * effects, 400, rng)}
    biases = {"panel": "x * cells(region, sex)", "root": "sqrt(x)"}
    return Case(tables_of(samples), biases, ("x", "y", "region == 'S'"), "y", {"known": MARGINS})


def selected() -> Case:
    """Parameters beside known values with and without an error: of a mean, a share and a normaliser."""
    rng = np.random.default_rng(2)
    population = people(8000, rng)
    y = population["y"]
    samples = {
        "plain": drawn(population, np.ones(len(y)), 200, rng),
        "panel": drawn(population, 1.0 / (1.0 + np.exp(6.0 - y)), 250, rng),
        "tilted": drawn(population, np.exp(0.2 * population["x"]), 150, rng),
    }
    biases = {"plain": 1, "panel": "logistic(y)", "tilted": "exponential_tilt(x)"}
    known = {"x": (3.3, 0.05), "sex == 'f'": 0.5, "panel": (0.45, 0.03)}
    return Case(tables_of(samples), biases, ("y", "x > 3", "x * y"), "x", {"known": known})


def everything() -> Case:
    """Every family beside known biases and values, one frame with labels, and counts, some of them 0."""
    rng = np.random.default_rng(0)
    n = 5000
    x, k = rng.gamma(3.0, 1.0, n), rng.integers(1, 5, n)
    y = 100.0 + 5.0 * rng.normal(size=n) + x
    laws = {
        "plain": np.ones(n),
        "seen": x,
        "panel": 1.0 / (1.0 + np.exp(-(y - 103.0) / 4.0)),
        "web": np.where(k >= 4, 2.0, 1.0),
        "tilted": np.exp((y - 103.0) / 20.0),
    }
    samples = {name: drawn({"x": x, "y": y, "k": k}, omega, 200, rng) for name, omega in laws.items()}
    biases = {
        "plain": 1,
        "seen": "x",
        "panel": "(k < 5) * logistic(y, x)",
        "web": "steps(k, [2, 4])",
        "tilted": "exponential_tilt(y, k)",
        "none": "sqrt(x)",
    }
    known = {"x > 2": float((x > 2).mean()), "y": (float(y.mean()), 0.4), "seen": 3.0, "panel": (0.45, 0.03)}
    for rows in samples.values():
        rows["n rows"] = rng.integers(0, 4, 200)
    options = {"source": "origin", "counts": "n rows", "known": known}
    tables = labelled(tables_of(samples), "origin")
    return Case(tables, biases, ("y", "x > 2", "x * k"), "x", options)


MADE = (houses, lengths, windows, strata, census, raking, weighted_raking, selected, everything)
MAKERS: dict[str, Callable[[], Case]] = {make.__name__: make for make in MADE}
CASES = {name: make() for name, make in MAKERS.items()}

"""Fits whose weights travel: one for each way in which a weight depends on columns, with rows that are new to them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import vardi

SHARES = {"N": 0.33, "S": 0.34, "W": 0.33}


def people(n: int, seed: int) -> dict[str, np.ndarray]:
    """Return people without any bias."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 80, n)
    return {
        "age": age,
        "income": rng.gamma(3.0, 10.0, n) + 0.1 * age,
        "region": rng.choice(["N", "S", "W"], n),
        "rooms": rng.integers(1, 6, n),
        "owner": rng.random(n) < 0.4,
    }


def drawn(n: int, seed: int, chance: Callable[[dict[str, np.ndarray]], np.ndarray]) -> dict[str, np.ndarray]:
    """Return those of many people that a sample with a bias has."""
    rows = people(20 * n, seed)
    kept = np.flatnonzero(np.random.default_rng(seed + 1).random(20 * n) < chance(rows))[:n]
    return {name: values[kept] for name, values in rows.items()}


def young(rows: dict[str, np.ndarray]) -> np.ndarray:
    return 1 / (1 + np.exp(-3.0 + 0.06 * rows["age"]))


def by_size(rows: dict[str, np.ndarray]) -> np.ndarray:
    return rows["income"] / rows["income"].max()


def by_region(rows: dict[str, np.ndarray]) -> np.ndarray:
    return np.where(rows["region"] == "N", 1.0, np.where(rows["region"] == "S", 0.5, 0.2)) * (0.4 + 0.6 * rows["owner"])


LOGISTIC = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-10))
#: The bias of the second sample, how its rows are drawn, and further arguments of the fit.
FITS: dict[str, tuple[Any, Callable[..., Any], dict[str, Any]]] = {
    "conditions": (
        "(age <= 60 and region in ('N', 'S')) + 0.5 * (rooms > 3 or owner)",
        lambda rows: (
            0.5 * ((rows["age"] <= 60) & (rows["region"] != "W")) + 0.25 * ((rows["rooms"] > 3) | rows["owner"])
        ),
        {},
    ),
    "numbers": ("income * min(rooms, 3) / sqrt(age)", by_size, {}),
    "exponentials": ("age * exp(-0.05 * age - 300)", young, {}),
    "powers": (vardi.power("income"), by_size, {}),
    "tilt": (vardi.exponential_tilt("age", "log(income)"), young, {}),
    "logistic": (vardi.where("age > 0") * vardi.logistic("age", "owner"), young, {}),
    "steps": (vardi.steps("age", [30, 50]), young, {}),
    "cells": (vardi.cells("region", "owner"), by_region, {}),
    "crossed cells": (vardi.where("age < 70") * vardi.cells(("region", "rooms")), by_region, {}),
    "learned": (vardi.learned(["age", "region"], LOGISTIC), young, {}),
    "known values": ("income", by_size, {"known": {"region": SHARES, "age": 49.0, "owner": (0.4, 0.01)}}),
    "both": (vardi.logistic("age"), young, {"known": {"income": 35.0, "region": SHARES}}),
}


@cache
def fit_of(name: str) -> vardi.DebiasedSample:
    """Return a fit of rows in memory."""
    bias, chance, more = FITS[name]
    rows = drawn(600, 3, chance)
    if name == "crossed cells":
        rows = {key: values[rows["age"] < 70] for key, values in rows.items()}
    import pandas as pd

    samples = {"survey": pd.DataFrame(people(400, 1)), "panel": pd.DataFrame(rows)}
    return vardi.debias(samples, {"survey": 1, "panel": bias}, **more)


@cache
def new_rows(n: int = 10_000) -> pa.Table:
    """Return rows that no fit has seen."""
    return pa.table({"place": np.arange(n), **people(n, 7)})

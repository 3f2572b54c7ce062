"""Designs with a known truth: a panel that was selected by its covariates, and a survey of everyone that lacks y."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from benchmarks.problems import Floats
from vardi.datasets import adult as adult_data

PANEL, SURVEY = 1000, 500  # rows


@dataclass(frozen=True)
class Design:
    """A population, and how likely the panel is to draw its rows.

    Attributes
    ----------
    columns : tuple of str
        What both samples have.
    people : callable
        Draws rows of the population, with y.
    chance : callable
        How likely the panel is to draw each of some rows, at most 1.
    truth : float
        The mean of y over the population.
    """

    name: str
    about: str
    columns: tuple[str, ...]
    people: Callable[[np.random.Generator, int], pd.DataFrame]
    chance: Callable[[pd.DataFrame], Floats]
    truth: float

    def drawn(self, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the panel with y, and the survey without."""
        rng = np.random.default_rng([0, seed])
        pieces: list[pd.DataFrame] = []
        while sum(map(len, pieces)) < PANEL:
            more = self.people(rng, 4 * PANEL)
            pieces.append(more[rng.random(len(more)) < self.chance(more)])
        panel = pd.concat(pieces, ignore_index=True)[:PANEL]
        return panel, self.people(rng, SURVEY).drop(columns="y")


def logistic(score: Floats) -> Floats:
    """Return 1 / (1 + e^-score)."""
    return np.asarray(1.0 / (1.0 + np.exp(-score)))


def _lines(rng: np.random.Generator, n: int) -> pd.DataFrame:
    x1, x2 = rng.normal(size=(2, n))
    return pd.DataFrame({"x1": x1, "x2": x2, "y": 1.0 + x1 + x2 + rng.normal(size=n)})


def _curves(rng: np.random.Generator, n: int) -> pd.DataFrame:
    x1, x2 = rng.normal(size=(2, n))
    return pd.DataFrame({"x1": x1, "x2": x2, "y": 1.0 - (x1**2 - 1.0) + x2 + rng.normal(size=n)})


@cache
def _adult() -> pd.DataFrame:
    rows = adult_data()
    return pd.DataFrame(
        {
            "age": rows["age"].astype(float),
            "education": rows["education-num"].astype(float),
            "hours": rows["hours-per-week"].astype(float),
            "female": (rows["sex"] == "Female").astype(float),
            "married": rows["marital-status"].str.startswith("Married").astype(float),
            "y": (rows["income"] == ">50K").astype(float),
        }
    )


def _citizens(rng: np.random.Generator, n: int) -> pd.DataFrame:
    return _adult().iloc[rng.integers(len(_adult()), size=n)].reset_index(drop=True)


def _joins(rows: pd.DataFrame) -> Floats:
    score = 0.3 * (rows["education"] - 10.0) + 0.8 * rows["married"] - 0.8 * (rows["age"] > 50)
    return logistic(np.asarray(score + 0.6 * (rows["age"] < 30) * (rows["hours"] < 40)))


def designs() -> tuple[Design, ...]:
    """Return the designs, of which Adult takes a moment to read."""
    return (
        Design(
            "lines",
            "x1 and x2 are normal, y = 1 + x1 + x2 + noise, and the panel is logistic in x1 + x2 / 2 - 1.",
            ("x1", "x2"),
            _lines,
            lambda rows: logistic(np.asarray(rows["x1"] + 0.5 * rows["x2"] - 1.0)),
            1.0,
        ),
        Design(
            "curves",
            "x1 and x2 are normal, y = 1 - (x1² - 1) + x2 + noise, and the panel has people of |x1| < 1 almost seven "
            "times as often as others, times a logistic factor in 1.5 x2: neither linear nor logistic.",
            ("x1", "x2"),
            _curves,
            lambda rows: (0.15 + 0.85 * (rows["x1"].abs() < 1.0).to_numpy()) * logistic(1.5 * rows["x2"].to_numpy()),
            1.0,
        ),
        Design(
            "Adult",
            "The 48,842 people of Adult, drawn with replacement; y is an income above 50K, and the panel prefers the "
            "educated, the married, people up to 50, and those below 30 who work less than 40 hours.",
            ("age", "education", "hours", "female", "married"),
            _citizens,
            _joins,
            float(_adult()["y"].mean()),
        ),
    )

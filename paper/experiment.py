"""Experiments: functions of a seed that return the scores of one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np


@dataclass(frozen=True, order=True)
class Cell:
    """One number of one run, named as the paper's tables name it."""

    table: str
    dataset: str
    scenario: str
    model: str
    method: str


Scores: TypeAlias = Mapping[Cell, float]


@dataclass(frozen=True)
class Experiment:
    """A protocol that is repeated over runs.

    Attributes
    ----------
    name : str
        The name to type: ``python -m paper boston``.
    run : callable
        From a seed sequence and the largest number of trees to the scores of one run. A score that this run cannot
        give (samples that do not overlap) is NaN, never left out.
    """

    name: str
    run: Callable[[np.random.SeedSequence, int], Scores]

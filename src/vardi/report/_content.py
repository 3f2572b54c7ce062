"""What a report says beside the account of a fit: frozen values, computed once and laid out by templates.

A number that cannot be given is NaN, and a part that cannot be given is empty with a ``note`` that says why.
"""

from __future__ import annotations

from dataclasses import dataclass

from vardi._facts.account import Account
from vardi._facts.check import Level
from vardi._facts.distributions import Distribution
from vardi._facts.links import Overlap
from vardi._facts.weights import Weights
from vardi._inputs.pool import Name


@dataclass(frozen=True)
class Point:
    """One sentence of the verdict, and how it is to be taken."""

    level: Level
    text: str


@dataclass(frozen=True)
class Headline:
    """The verdict in plain words: worst news first."""

    level: Level
    text: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Advice:
    """One thing to collect, and why."""

    text: str
    reason: str


@dataclass(frozen=True)
class NextRow:
    """What more rows would do for one variable: where they help most, and the error they would leave."""

    name: str
    sample: Name
    more: float
    stderr: float
    stderr_then: float


@dataclass(frozen=True)
class Recipe:
    """How to repeat the fit, and how to cite it.

    Attributes
    ----------
    code : str
        A Python snippet.
    versions : tuple of (str, str)
        Packages and their versions.
    citations : tuple of str
        What to cite.
    """

    code: str
    versions: tuple[tuple[str, str], ...]
    citations: tuple[str, ...]


@dataclass(frozen=True)
class Report(Account):
    """All that a report says: the account of the fit, and what is made of it."""

    title: str
    date: str
    headline: Headline
    overlap: Overlap
    distributions: tuple[Distribution, ...]
    distributions_note: str
    weights: Weights
    advice: tuple[Advice, ...]
    next_rows: tuple[NextRow, ...]
    unknowns: tuple[str, ...]
    recipe: Recipe

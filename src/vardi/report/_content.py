"""What a report contains besides the account of a fit: frozen values, computed once and laid out by templates.

A number that cannot be given is NaN, and a part that cannot be given is empty, with a ``note`` that explains why.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vardi._facts.account import Account, SampleFacts
from vardi._facts.check import Remark
from vardi._facts.columns import ColumnFacts
from vardi._facts.distributions import Distribution
from vardi._facts.fingerprint import Fingerprint
from vardi._facts.links import Overlap
from vardi._facts.weights import Weights
from vardi._inputs.pool import Name


@dataclass(frozen=True)
class Headline(Remark):
    """The verdict in plain words: worst news first."""

    points: tuple[Remark, ...]


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
class Standout:
    """A sample that differs from the others, and how."""

    sample: SampleFacts
    why: str


@dataclass(frozen=True)
class SampleLine:
    """A sample among many: its facts, its test, and the sample that it overlaps most.

    ``pvalue`` is NaN where it was not tested; ``neighbour`` is empty for a sample without links.
    """

    sample: SampleFacts
    pvalue: float
    neighbour: str


@dataclass(frozen=True)
class Group:
    """Samples that overlap with one another, or nearly so: neighbours in the order of the overlap."""

    lines: tuple[SampleLine, ...]

    @property
    def name(self) -> str:
        """The first and the last sample."""
        first, last = self.lines[0].sample.name, self.lines[-1].sample.name
        return str(first) if first == last else f"{first} to {last}"

    @property
    def rows(self) -> float:
        """Rows of all samples of the group."""
        return sum(line.sample.rows for line in self.lines)

    @property
    def weight_share(self) -> float:
        """Their share of the weight."""
        return sum(line.sample.weight_share for line in self.lines)


@dataclass(frozen=True)
class StudyFile:
    """The file that defines a fit: its name, its text, and the SHA-256 of its bytes."""

    name: str
    text: str
    digest: str


@dataclass(frozen=True)
class Recipe:
    """How to repeat the fit, and how to cite it.

    Attributes
    ----------
    code : str
        A Python snippet or, for a study, the command that repeats the fit.
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
    """Everything in a report: the account of the fit, and what is derived from it."""

    title: str
    date: str
    study: StudyFile | None
    fingerprint: Fingerprint
    headline: Headline
    overlap: Overlap
    distributions: tuple[Distribution, ...]
    distributions_note: str
    weights: Weights
    advice: tuple[Advice, ...]
    gains: tuple[Advice, ...]
    nothing_to_do: str
    next_rows: tuple[NextRow, ...]
    standouts: tuple[Standout, ...]
    groups: tuple[Group, ...]
    slopes_note: str
    unknowns: tuple[str, ...]
    recipe: Recipe

    @property
    def means(self) -> tuple[ColumnFacts, ...]:
        """The variables that are not categories of a text column."""
        return tuple(variable for variable in self.variables if not variable.category_of)

    @property
    def categories(self) -> dict[str, tuple[ColumnFacts, ...]]:
        """The categories of each text column."""
        columns = dict.fromkeys(variable.category_of for variable in self.variables if variable.category_of)
        return {
            name: tuple(variable for variable in self.variables if variable.category_of == name) for name in columns
        }

    @property
    def sensitive(self) -> tuple[ColumnFacts, ...]:
        """The variables for which the effect of wrong biases is known."""
        return tuple(variable for variable in self.means if math.isfinite(variable.slope) and variable.spread)

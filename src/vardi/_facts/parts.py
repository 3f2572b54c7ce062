"""What an account needs of a fit: its public answers, and a few questions that only the holder of its rows can answer.

Each of these can be answered by sums over rows: an engine needs one query for each, and no row leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from vardi._estimate.bias_check import BiasCheck
from vardi._estimate.cdf import Band
from vardi._estimate.estimates import Estimate
from vardi._estimate.known_check import KnownCheck
from vardi._estimate.reliability import Bridge, Trust
from vardi._facts.columns import ColumnFacts, Variable
from vardi._facts.fingerprint import Fingerprint
from vardi._inputs.given import Function
from vardi._inputs.pool import Name, Pool
from vardi._rows.gram import Gram
from vardi._rows.shares import Shares
from vardi._rows.weights import WeightSums, WeightTable
from vardi._solve.identify import Verdict
from vardi._solve.newton import Solution
from vardi.biases import Bias

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Given:
    """What the fit was given, and how it was read.

    Attributes
    ----------
    biases : tuple of Bias
        In the order of the names; empty for a fit of a matrix.
    log : bool
        Whether biases were given as logs.
    is_counted, is_labelled : bool
        Whether rows have counts, and whether all samples came in one frame with labels.
    distinct : int or None
        How many distinct rows were solved for, if equal rows were collapsed.
    left_out : collection of names
        Samples that have rows but were left out of the fit.
    costs : int
        How many numbers it takes in memory to compute the errors of all normalisers.
    gaps : mapping of str to int
        Columns that have no mean because of missing or infinite values, with the number of these.
    mixed : mapping of str to str
        Columns that have no mean because their type differs between samples, with the type in each.
    unasked : tuple of str
        Columns whose means would take a pass over all rows, so they are shown only on request.
    uncovered : mapping of str to str
        Columns that have no mean because the samples that recorded them do not cover the pool, with the reason.
    depends : str
        How rows depend on one another, in words; empty if they do not.
    named : mapping of str to str
        The arguments that declared the dependence, with the columns that they name.
    """

    biases: tuple[Bias, ...]
    log: bool
    is_counted: bool
    is_labelled: bool
    distinct: int | None
    left_out: Collection[Name]
    costs: int
    gaps: Mapping[str, int]
    mixed: Mapping[str, str]
    unasked: tuple[str, ...] = ()
    uncovered: Mapping[str, str] = field(default_factory=dict)
    depends: str = ""
    named: Mapping[str, str] = field(default_factory=dict)


class Parts(Protocol):
    """What only the holder of the rows can answer."""

    @property
    def pool(self) -> Pool:
        """The rows as the user gave them."""

    @property
    def numeric_of_some(self) -> tuple[str, ...]:
        """The numeric columns that only some samples have recorded, but that have a mean."""

    def given(self) -> Given:
        """Return what the fit was given."""

    def fingerprint(self, columns: Sequence[str]) -> Fingerprint:
        """Return the hash of the rows with some of their columns; an empty one if it cannot be computed."""

    def gram(self) -> Gram:
        """Return sum_i c_i p_i p_i' of all biases."""

    def weight_sums(self) -> WeightSums:
        """Return sums of weights by bias."""

    def weight_table(self) -> WeightTable:
        """Return the distribution of the weights."""

    def largest_weights(self, most: int) -> Sequence[tuple[int, Name, float]]:
        """Return position in the pool, sample and weight of the heaviest rows; none if rows have no position."""

    def column(self, name: str, values: Function) -> Variable:
        """Return a column, an expression or values as a variable; raise if it has no mean."""

    def choose(self) -> tuple[tuple[Variable, ...], str]:
        """Return the columns that a report shows, and a note on those left out."""

    def describe(
        self, columns: Sequence[Variable], *, gains: bool = False, slopes: bool = False
    ) -> tuple[ColumnFacts, ...]:
        """Return columns' means before and after, what their errors rest on, and how far wrong biases move them."""

    def each(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Apply a function that asks the rows to each item: several at a time where their holder can be asked so."""

    def shares(self, column: Variable, centre: float, scale: float) -> Shares:
        """Return the shares of pool and population up to values of a column; an engine has its bins about the centre.

        Between its largest values of bins an engine does not tell them.
        """

    def band(self, column: Variable, level: float = 0.95, shares: Shares | None = None) -> Band | None:
        """Return the simultaneous band of the distribution function; None if an engine does not provide it.

        Rows in memory are not read again for ``shares`` that are known already.
        """


class Fit(Protocol):
    """The public answers of a fit that accounts are made of, and its parts."""

    @property
    def names(self) -> tuple[Name, ...]: ...
    @property
    def solution(self) -> Solution: ...
    @property
    def sizes(self) -> dict[Name, float]: ...
    @property
    def log_omegas(self) -> dict[Name, float]: ...
    @property
    def numeric_columns(self) -> tuple[str, ...]: ...
    @property
    def trust(self) -> Trust: ...
    @property
    def bridge(self) -> Bridge: ...
    @property
    def known(self) -> KnownCheck | None: ...
    @property
    def parameters(self) -> dict[Name, dict[str, Estimate]]: ...
    @property
    def parts(self) -> Parts: ...
    def __len__(self) -> int: ...
    def identify(self) -> Verdict: ...
    def log_normalisers(self, level: float = 0.95) -> dict[Name, Estimate]: ...
    def check_biases(self, columns: Mapping[str, Function]) -> BiasCheck: ...

"""Where the rows of a fit are: what the user gave, and how it becomes functions of rows that questions are put to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from vardi._estimate.steps import Steps
from vardi._inputs.dependence import Dependence
from vardi._inputs.domains import By
from vardi._inputs.given import Function, Functions
from vardi._inputs.pool import Pool
from vardi._rows.columns import Kept
from vardi._rows.measure import Measure

if TYPE_CHECKING:
    from vardi._fit.parts import MemoryParts
    from vardi._fit.weighted import WeightedSample
    from vardi._inputs.engine.dependence import EngineDependence
    from vardi._rows.domains import RowsByDomain
    from vardi._rows.joint import JointRows
    from vardi._types import Floats, RandomSeed

Keys = tuple[tuple[Any, ...], ...]  # of domains: the values of the columns that define each


class UserRows(ABC):
    """The rows that the user gave: of all samples of a fit, or of those in question.

    Attributes
    ----------
    pool : Pool
        What the user gave.
    names : tuple
        A name for each bias.
    sampled : tuple of int
        The places of all samples that have rows.
    states : tuple of int
        Those of the samples in question.
    in_memory : bool
        Whether rows are in memory, or read in blocks, rather than in an engine.
    """

    in_memory: bool

    def __init__(self, pool: Pool, sampled: tuple[int, ...], states: tuple[int, ...] | None = None) -> None:
        self.pool, self.names, self.sampled = pool, pool.names, sampled
        self.states = sampled if states is None else states

    def __len__(self) -> int:
        return len(self.pool)

    @property
    def is_whole(self) -> bool:
        """Whether all samples are in question, not some of them."""
        return self.states == self.sampled

    @property
    @abstractmethod
    def dependence(self) -> Dependence | EngineDependence:
        """How rows depend on one another."""

    @abstractmethod
    def of(self, states: tuple[int, ...]) -> Self:
        """Return the same rows, with other samples in question."""

    @abstractmethod
    def measure_of(self, joint: JointRows, v: Floats, weights: Floats | None) -> Measure:
        """Return the rows with their weights at a point of joint rows, where weights have mean 1."""

    @abstractmethod
    def not_covered(self, measure: Measure) -> Exception:
        """Return the error for samples in question that do not cover the pool, given their measure."""

    # Weights in the user's library

    @abstractmethod
    def weights(self, measure: Measure) -> Any:
        """Return the weight of each row; 0 for those that were left out, or are not in question."""

    @abstractmethod
    def probabilities(self, measure: Measure) -> Any:
        """Return weight times count of each row, with sum 1."""

    @abstractmethod
    def draw(self, measure: Measure, n: int, seed: RandomSeed, *, replace: bool | None, identity: str | None) -> Any:
        """Draw rows by weight."""

    @abstractmethod
    def chances(self, measure: Measure) -> Floats:
        """Return the probability of each row as an array, from which positions are drawn."""

    # Functions of the rows

    @abstractmethod
    def functions(self, values: Function) -> Kept:
        """Return one column, expression or array as a function of the rows in the fit."""

    @abstractmethod
    def matrix(self, values: Functions) -> Kept:
        """Return several columns, expressions or arrays as functions of the rows in the fit."""

    @abstractmethod
    def columns_of(self, asked: Mapping[str, Function]) -> dict[str, Kept]:
        """Return columns, expressions and arrays, each as a function on its own."""

    @abstractmethod
    def recorded_by(self, asked: Sequence[Function], columns: Sequence[str] = ()) -> tuple[int, ...]:
        """Return the samples that have recorded some functions and columns; empty if all have, or none.

        A sample whose values are all missing has not recorded them.
        """

    @abstractmethod
    def is_declared(self, text: str) -> bool:
        """Return whether a text reads no column, so that it is its own mean."""

    @abstractmethod
    def steps(self, measure: Measure, values: Function) -> Steps:
        """Return where the distribution function of something steps."""

    @abstractmethod
    def domains(
        self, measure: Measure, values: Function | None, by: By, base: int, *, whole: bool = False
    ) -> tuple[Keys, RowsByDomain]:
        """Return domains and a function of their rows (1 for None); the first ``base`` columns define their bases."""

    @abstractmethod
    def steps_by_domain(self, measure: Measure, values: Function, by: By) -> tuple[Keys, Callable[[int], Steps]]:
        """Return domains, and a function that returns the steps of the distribution function in each."""

    # The user's columns

    @property
    @abstractmethod
    def numeric_columns(self) -> tuple[str, ...]:
        """The numeric columns that all samples have, without missing values, those that the biases read first."""

    @property
    @abstractmethod
    def of_some(self) -> Mapping[str, tuple[int, ...]]:
        """Columns that only some samples have recorded, with these samples."""

    @abstractmethod
    def numeric_without_gaps(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of some columns of some samples that are numeric, and complete in their samples."""

    @property
    @abstractmethod
    def mixed(self) -> Mapping[str, str]:
        """Columns whose type differs between samples, with the type in each."""

    @property
    @abstractmethod
    def gaps(self) -> Mapping[str, int]:
        """How many values are missing or infinite in each numeric column that has such, as far as that is known."""

    @abstractmethod
    def parts(self, fit: WeightedSample) -> MemoryParts:
        """Return what accounts of a fit need of its rows."""

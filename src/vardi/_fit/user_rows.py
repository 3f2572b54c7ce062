"""What the user gave, wherever its rows are: how it is solved, and how it becomes functions of the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from vardi._estimate.cdf import Steps
from vardi._fit.capabilities import Holder
from vardi._inputs.dependence import Dependence
from vardi._inputs.domains import By
from vardi._inputs.given import Function, Functions
from vardi._inputs.known import Known
from vardi._inputs.pool import Name, Pool
from vardi._rows import Rows
from vardi._rows.contract import Kept
from vardi._rows.joint import Joint, JointRows
from vardi._rows.measure import Measure
from vardi._rows.point import KnownMoments
from vardi._solve.identify import Verdict
from vardi._solve.model import JointFit
from vardi._types import Floats, RandomSeed

if TYPE_CHECKING:
    from vardi._fit.parts import MemoryParts
    from vardi._fit.solved import Solved
    from vardi._fit.weighted import WeightedSample
    from vardi._inputs.lazy_pool import EngineDependence
    from vardi._rows.domains import RowsByDomain
    from vardi._rows.lazy_model import LazyRows

Keys = tuple[tuple[Any, ...], ...]  # of domains: the values of the columns that define each


@dataclass(frozen=True)
class Prepared:
    """What a fit solves.

    Attributes
    ----------
    names : tuple
        A name for each bias of these rows.
    rows : Rows or LazyRows
        The rows with their known biases; for biases with parameters, the known factor.
    joint : Joint or EngineRows
        The same with parameters and known moments.
    data : UserRows
        What the user gave, with biases completed from the rows, where categories have parameters.
    known : Known
        What is known.
    values : ndarray of shape (n, m)
        The known functions on the rows.
    directions : ndarray of shape (m, r)
        Which combinations of the known functions are linearly independent.
    in_memory : bool
        Whether the rows to solve are in memory, as they also are if equal rows of an engine were collapsed.
    """

    names: tuple[Name, ...]
    rows: Rows | LazyRows
    joint: JointRows
    data: UserRows
    known: Known = field(default_factory=Known.none)
    values: Floats = field(default_factory=lambda: np.empty((0, 0)))
    directions: Floats = field(default_factory=lambda: np.empty((0, 0)))
    in_memory: bool = True

    @classmethod
    def plain(cls, names: tuple[Name, ...], rows: Rows, data: UserRows) -> Prepared:
        """Return rows without parameters and known values."""
        return cls(names, rows, Joint(rows, {}, KnownMoments.none()), data)

    @property
    def is_plain(self) -> bool:
        """Whether there are neither parameters nor known values, so that normalisers are all there is to solve for."""
        return not self.known and not self.joint.families

    @property
    def sizes(self) -> dict[Name, float]:
        """How many (counted) rows were drawn with each bias."""
        return dict(zip(self.names, self.rows.sizes.tolist(), strict=True))


@dataclass(frozen=True, eq=False, kw_only=True)
class UserRows(ABC):
    """Samples and biases as the user gave them: the rows of all samples of a fit, or of those in question.

    Attributes
    ----------
    holder : str
        What is declared in ``_fit/capabilities`` for such rows.
    in_memory : bool
        Whether rows are in memory, or read in blocks, rather than in an engine.
    pool : Pool
        The rows.
    known : object
        What is known of the population, as the user gave it; checked already for an engine.
    sampled, states : tuple of int
        The places of all samples that have rows, and of those in question: none before the rows are prepared.
    reference : Solved or None
        With learned biases: the samples whose biases are known, debiased.
    """

    holder: ClassVar[Holder]
    in_memory: ClassVar[bool]
    pool: Pool
    known: Any = None
    sampled: tuple[int, ...] = ()
    states: tuple[int, ...] = ()
    reference: Solved | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all samples are in question, not some of them."""
        return self.states == self.sampled

    @property
    @abstractmethod
    def dependence(self) -> Dependence | EngineDependence:
        """How rows depend on one another."""

    def of(self, states: tuple[int, ...]) -> Self:
        """Return the same rows, with other samples in question."""
        return replace(self, states=states)

    # The solution

    @abstractmethod
    def prepare(self) -> Prepared:
        """Return the rows to solve."""

    @abstractmethod
    def of_samples(self, names: set[Name]) -> Self:
        """Return the rows of some samples only, to be solved without the others."""

    @abstractmethod
    def overlap(self, prepared: Prepared) -> Verdict:
        """Judge which samples can be compared: it depends on where biases are zero, which no parameter changes."""

    def explained(self, verdict: Verdict) -> Verdict:
        """Return a verdict with an explanation from the rows; as it is in an engine, where that would take a pass."""
        return verdict

    @abstractmethod
    def notes(self, verdict: Verdict, sizes: Mapping[Name, float]) -> tuple[str, ...]:
        """Return what is odd about the declared biases, though it may be intended."""

    def solved(self, prepared: Prepared, found: JointFit) -> Solved:
        """Return the solution at the rows."""
        from vardi._fit.solved import Solved

        return Solved(prepared, found)

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
    def gaps(self) -> Mapping[str, int]:
        """How many values are missing or infinite in each numeric column that has such; unknown without a pass."""
        return {}

    @abstractmethod
    def parts(self, fit: WeightedSample) -> MemoryParts:
        """Return what accounts of a fit need of its rows."""

"""What estimates need of a solved fit beside its tangent, from which most follows wherever the rows are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from vardi._estimate.tangent import Influence, Tangent
from vardi._inputs.pool import Name
from vardi._types import Floats

if TYPE_CHECKING:
    import numpy as np

    from vardi._estimate.sensitivity.worst import Errors
    from vardi._inputs.by_row import KeptRows
    from vardi._inputs.given import Function, Functions
    from vardi._inputs.lazy_pool import LazyPool
    from vardi._inputs.pool import Pool
    from vardi._rows import Rows
    from vardi._rows.contract import Kept
    from vardi._rows.hashed import GroupSums
    from vardi._solve.newton import Solution
    from vardi._solve.refit import Refit, SharedPasses


class GivenRows(Protocol):
    """The rows that the user gave."""

    @property
    def in_memory(self) -> bool:
        """Whether they are in memory, or read in blocks, rather than in an engine."""

    @property
    def numeric_columns(self) -> tuple[str, ...]:
        """The numeric columns without missing values."""

    def matrix(self, values: Functions) -> Kept:
        """Return several functions in the form in which their holder keeps them."""


class GivenInMemory(GivenRows, Protocol):
    """The rows that the user gave, in memory."""

    @property
    def pool(self) -> Pool:
        """All rows."""

    @property
    def kept(self) -> KeptRows:
        """Which of them are in the fit."""

    def values(self, values: Function) -> Floats:
        """Return a function as numbers, one for each row in the fit."""


class GivenInEngine(GivenRows, Protocol):
    """The rows that the user gave, in their engine."""

    @property
    def pool(self) -> LazyPool:
        """The frames."""

    def in_groups(self, solved: Any, statistic: object, groups: object, seed: int, identity: str | None) -> GroupSums:
        """Return sums of what a refit needs by group of rows."""

    def by_name(self, frames: Mapping[int | None, Any]) -> Any:
        """Return the one frame of all samples, or frames by the name of their sample."""


class SolvedFit(Protocol):
    """A solved fit."""

    names: tuple[Name, ...]
    solution: Solution
    apart: str  # why a draw of rows has no fit

    def __len__(self) -> int:
        """Return how many rows the pool has."""

    @property
    def tangent(self) -> Tangent:
        """The solution as a map from functions to estimates with errors."""

    @property
    def log_omegas(self) -> Floats:
        """The log of each normaliser."""

    @property
    def data(self) -> GivenRows:
        """The rows that the user gave."""

    @property
    def memory(self) -> GivenInMemory:
        """The same, in memory."""

    @property
    def engine(self) -> GivenInEngine:
        """The same, in an engine."""

    @property
    def summed_in_memory(self) -> bool:
        """Whether the rows that were solved are in memory, and enough for errors."""

    @property
    def rows_in_memory(self) -> Rows:
        """The rows that were solved, in memory."""

    def bias_influence(self) -> Influence:
        """Return the influence on the log of each normaliser."""

    def slopes(self, influence: Influence, errors: Errors) -> Floats:
        """Return how far estimates move at worst, per unit of log Gamma."""

    def refit(self, counts: Floats, *, tol: float, may_part: bool, rng: np.random.Generator | None = None) -> Refit:
        """Solve again for other counts of the rows in memory."""

    def shared_passes(self, functions: Floats) -> SharedPasses | None:
        """Return passes over the rows that refits to other counts can share."""

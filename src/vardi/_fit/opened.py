"""Samples and biases as the user gave them, with what the pipeline needs of rows in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vardi._fit.memory import RowsInMemory
from vardi._fit.prepare import Prepared, counted, prepare
from vardi._fit.solved import Solved
from vardi._inputs.kept import KeptRows
from vardi._inputs.pool import Name, Pool
from vardi._solve.identify import Verdict, judge
from vardi._solve.model import JointFit


@dataclass(frozen=True, eq=False)
class MemoryRows:
    """A pool whose rows are in memory, or read in blocks.

    Attributes
    ----------
    pool : Pool
        What the user gave.
    omega : Any
        The values of the biases, if these were given as a matrix.
    known : Any
        What is known of the population, as the user gave it.
    log : bool
        Whether omega holds logs.
    kept : ndarray of bool
        Which rows of the pool the fit rests on.
    reference : Solved or None
        With learned biases: the samples whose biases are known, debiased.
    """

    pool: Pool
    omega: Any
    known: Any
    log: bool
    kept: NDArray[np.bool_]
    reference: Solved | None = None

    @classmethod
    def of(cls, pool: Pool, known: Any, omega: Any = None, *, log: bool = False) -> MemoryRows:
        """Open all rows that count."""
        return cls(pool, omega, known, log, counted(pool))

    @property
    def names(self) -> tuple[Name, ...]:
        """A name for each bias."""
        return self.pool.names

    def prepare(self) -> Prepared:
        """Return the rows to solve."""
        return prepare(self.pool, self.omega, self.kept, self.known, log=self.log)

    def overlap(self, prepared: Prepared) -> Verdict:
        """Judge which samples can be compared."""
        families = prepared.joint.families.values()
        first = np.concatenate([np.empty(0), *(model.starts()[0] for model in families)])
        return self.explained(judge(prepared.joint.rows_at(first), self.names))

    def explained(self, verdict: Verdict) -> Verdict:
        """Return the verdict; if groups share no row, with the two samples that are nearest to one another."""
        hint = "" if verdict.identified else self.pool.nearest(verdict.groups)
        return replace(verdict, message=f"{verdict.message} {hint}") if hint else verdict

    def notes(self, verdict: Verdict, sizes: Mapping[Name, float]) -> tuple[str, ...]:
        """Return what is odd about the declared biases; whether one has no effect at all only the weights can show."""
        from vardi._facts.biases import bias_notes

        return bias_notes(self.pool, sizes, verdict, even=False)

    def of_samples(self, names: set[Name]) -> MemoryRows:
        """Return the rows of some samples only."""
        codes = [k for k, name in enumerate(self.names) if name in names]
        return replace(self, kept=self.kept & np.isin(self.pool.source, codes))

    def solved(self, prepared: Prepared, found: JointFit) -> Solved:
        """Return the solution at the rows of the pool."""
        pool = self.pool if prepared.pool is None else prepared.pool
        sampled = tuple(np.flatnonzero(prepared.joint.sizes > 0).tolist())
        return Solved(RowsInMemory(pool, KeptRows.where(self.kept), sampled), prepared, found, self.reference)

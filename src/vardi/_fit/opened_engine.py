"""Lazy frames and biases as the user gave them, with what the pipeline needs of rows in an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vardi._facts.biases import bias_notes
from vardi._fit.engine import RowsInEngine
from vardi._fit.prepare import Prepared, independent, require_told
from vardi._fit.solved import Solved
from vardi._inputs.engine.dependence import as_engine_dependence
from vardi._inputs.engine.distinct import DistinctRows
from vardi._inputs.engine.pool import LazyPool, OpenFrames
from vardi._inputs.known import Known, as_known
from vardi._inputs.pool import Name
from vardi._rows.dense import Dense
from vardi._rows.engine.choose import few_rows, functions_on, in_memory, joint_rows
from vardi._rows.engine.lazy_rows import LazyRows
from vardi._rows.engine.levels import with_levels
from vardi._rows.engine.model import model_of
from vardi._rows.point import KnownMoments
from vardi._rows.queries import Queries
from vardi._solve.identify import Verdict, connected, judge
from vardi._solve.model import JointFit
from vardi._solve.newton import GAP, Solution, solve
from vardi._types import Floats


@dataclass(frozen=True, eq=False)
class EngineFrames:
    """Lazy frames whose rows stay in their engine.

    Attributes
    ----------
    pool : LazyPool
        The frames, with biases, features and known functions as columns, checked.
    known : Known
        What is known of the population.
    """

    pool: LazyPool
    known: Known

    @classmethod
    def of(cls, frames: OpenFrames, known: Any, depends: Sequence[Any]) -> EngineFrames:
        """Put biases, features and known functions on the frames, and check them."""
        given = Known.none() if known is None else as_known(known, frames.names, frames.table)
        pool = with_levels(frames).survey(given.functions)
        require_told(pool, pool.sizes)
        return cls(replace(pool, dependence=as_engine_dependence(pool, *depends)), given)

    @property
    def names(self) -> tuple[Name, ...]:
        """A name for each bias."""
        return self.pool.names

    def prepare(self) -> Prepared:
        """Return the rows to solve: the distinct ones in memory, or those in the engine if they are too many."""
        found, is_all = few_rows(self.pool)
        few = in_memory(self.pool, found, is_all=is_all)
        rows = few if is_all else _in_engine(self.pool, few)
        known, values, directions = _known(self.pool, self.known, found)
        frames, model = model_of(self.pool, known)
        joint = joint_rows(self.pool, frames, model, found, few, is_all=is_all)
        return Prepared(rows, joint, self.known, values, directions, frames=frames, model=model, in_memory=is_all)

    def overlap(self, prepared: Prepared) -> Verdict:
        """Judge which samples can be compared."""
        return judge(prepared.rows, self.names)

    def explained(self, verdict: Verdict) -> Verdict:
        """Return the verdict as it is: finding the nearest samples would take all rows."""
        return verdict

    def notes(self, verdict: Verdict, sizes: Mapping[Name, float]) -> tuple[str, ...]:
        """Return what is odd about the declared biases."""
        pool, even = self.pool, self.pool.lows == self.pool.highs
        return bias_notes(pool, sizes, verdict, even=bool(even[: len(pool.names)][pool.sizes > 0].all()))

    def of_samples(self, names: set[Name]) -> EngineFrames:
        """Return the rows of some samples only."""
        return replace(self, pool=self.pool.of_samples([k for k, name in enumerate(self.names) if name in names]))

    def solved(self, prepared: Prepared, found: JointFit) -> Solved:
        """Return the solution at the rows of the frames, whose weights stay in the engine."""
        assert prepared.frames is not None
        assert prepared.model is not None
        sampled = tuple(np.flatnonzero(self.pool.sizes > 0).tolist())
        data = RowsInEngine(self.pool, prepared.frames, prepared.model, sampled)
        return Solved(data, prepared, replace(found, solution=replace(found.solution, weights=None)))


def _in_engine(pool: LazyPool, few: Dense) -> LazyRows:
    """Return the rows of the engine, given some in memory that stand for all."""
    constants = pool.declared.constants
    frames = Queries(pool.parts, pool.sizes, pool.dependence)
    return LazyRows(frames, pool.reach, few, lambda: _start(few), constants)


def _start(few: Dense) -> Floats:
    """Return the solution u of a small part of the rows, or a rough start if they do not determine it."""
    if connected(few.reach(), few.sizes):
        solution: Solution = solve(few, tol=1e-6)
        if solution.gap >= GAP:
            return solution.u
    return few.start()


def _known(pool: LazyPool, known: Known, found: DistinctRows) -> tuple[KnownMoments, Floats, Floats]:
    """Return what is known, by columns; its functions on some rows; and which combinations of these are independent."""
    H = functions_on(pool, found)
    directions, root, moving = independent(known, H, set(pool.declared.features))
    moments = KnownMoments(pool.declared.function_columns, directions, known.values @ directions, root, moving)
    return moments, H, directions

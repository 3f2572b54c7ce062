"""Lazy frames -> pool -> rows -> solution -> DebiasedSample: the pipeline where rows stay in their engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from vardi._fit.engine import InEngine
from vardi._fit.known import as_identified, warn_of_contradiction
from vardi._fit.pipeline import largest_group, refuse_largest
from vardi._fit.prepare import Prepared, independent, require_told
from vardi._fit.sample import DebiasedSample
from vardi._inputs.engine.distinct import DistinctRows
from vardi._inputs.engine.pool import LazyPool, OpenFrames
from vardi._inputs.known import Known, as_known
from vardi._rows.dense import Dense
from vardi._rows.engine.choose import as_dense, few_rows, functions_on, joint_rows
from vardi._rows.engine.lazy_rows import LazyRows
from vardi._rows.engine.levels import with_levels
from vardi._rows.engine.model import EngineKnown, EngineModel
from vardi._rows.joint import Joint
from vardi._solve.identify import Verdict, connected, joined_verdict, judge
from vardi._solve.model import joining_of, solve_in_engine, solve_joint, solve_plain
from vardi._solve.newton import GAP, Solution, solve
from vardi._types import Floats
from vardi.errors import NotIdentifiableError


def open_pool(frames: OpenFrames, known: Any) -> tuple[LazyPool, Known | None]:
    """Put biases, features and known functions on the frames, and check them."""
    given = None if known is None else as_known(known, frames.names, frames.table)
    frames = with_levels(frames)
    pool = frames.survey(() if given is None else given.functions)
    require_told(pool, pool.sizes)
    return pool, given


def fit_lazy(frames: OpenFrames, known: Any, on_unidentified: str, tol: float, max_iterations: int) -> DebiasedSample:
    """Fit frames whose rows stay in their engine."""
    pool, given = open_pool(frames, known)
    if given is None and not pool.declared.features:
        return _fit_plain(pool, on_unidentified, tol, max_iterations)
    refuse_largest(on_unidentified, known=given is not None)
    found, is_all = few_rows(pool)
    model, values, directions = _model(pool, given, found)
    joint = joint_rows(pool, model, found, is_all=is_all)
    rows = _rows(pool, found, is_all=is_all)
    verdict = judge(rows, pool.names)
    if isinstance(joint, Joint):
        solved = solve_joint(joint, pool.names, given, values, verdict, tol=tol, max_iterations=max_iterations)
    else:
        solved = solve_in_engine(joint, pool.names, given, values, verdict, tol=tol, max_iterations=max_iterations)
    prepared = Prepared(rows, joint, given, values, directions)  # type: ignore[arg-type]
    fit = DebiasedSample(InEngine(pool, model, prepared, solved.solution, solved.alone, solved.groups, solved.joining))
    if given is not None:
        warn_of_contradiction(fit.known)
    return fit


def _fit_plain(pool: LazyPool, on_unidentified: str, tol: float, max_iterations: int) -> DebiasedSample:
    while True:
        found, is_all = few_rows(pool)
        rows = _rows(pool, found, is_all=is_all)
        solution = solve_plain(rows, pool.names, tol, max_iterations)
        if isinstance(solution, Solution):
            break
        if on_unidentified == "raise":
            raise solution.error()
        largest = largest_group(solution, dict(zip(pool.names, rows.sizes.tolist(), strict=True)))
        pool = pool.of_samples([k for k, name in enumerate(pool.names) if name in largest])
    _, shift = rows.weights(solution.u)
    model = EngineModel.of(pool)
    return DebiasedSample(InEngine(pool, model, Prepared(rows), solution.shifted(shift)))


def lazy_verdict_of(frames: OpenFrames, known: Any) -> Verdict:
    """Judge frames whose rows stay in their engine."""
    pool, given = open_pool(frames, known)
    found, is_all = few_rows(pool)
    verdict = judge(_rows(pool, found, is_all=is_all), pool.names)
    if given is None:
        return verdict
    model, _, _ = _model(pool, given, found)
    joint = joint_rows(pool, model, found, is_all=is_all)
    try:
        joining = joining_of(joint if isinstance(joint, Joint) else joint.few, pool.names, verdict)
    except NotIdentifiableError as error:
        if error.verdict is None:
            raise
        return as_identified(error.verdict, str(error))
    return joined_verdict(verdict, joining)


def _rows(pool: LazyPool, found: DistinctRows, *, is_all: bool) -> Any:
    """Return the distinct rows in memory, or the rows where they are if there are too many of them."""
    few = as_dense(found, len(pool.names))
    if is_all:
        return few
    few = few.standing_for(pool.sizes)
    return LazyRows(pool.parts, len(pool.names), pool.sizes, pool.reach, few, lambda: _start(few))


def _start(few: Dense) -> Floats:
    """Return u of a small part of the rows, solved, or as near as can be where it does not determine it."""
    if connected(few.reach(), few.sizes):
        solution: Solution = solve(few, tol=1e-6)
        if solution.gap >= GAP:
            return solution.u
    return few.start()


def _model(pool: LazyPool, known: Known | None, found: DistinctRows) -> tuple[EngineModel, Floats, Floats]:
    """Return what depends on which coordinates, the known functions on some rows, and which of them are independent."""
    if known is None:
        return EngineModel.of(pool), np.empty((len(found), 0)), np.empty((0, 0))
    H = functions_on(pool, found)
    directions, root, moving = independent(known, H, set(pool.declared.features))
    engine = EngineKnown(pool.declared.function_columns, directions, known.values @ directions, root, moving)
    return EngineModel.of(pool, engine), H, directions

"""Pool -> rows -> verdict -> solution -> DebiasedSample."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from vardi._fit.known import as_identified, warn_of_contradiction
from vardi._fit.memory import InMemory
from vardi._fit.prepare import Prepared, counted, prepare
from vardi._fit.sample import DebiasedSample
from vardi._inputs.pool import Name, Pool
from vardi._solve.identify import Verdict, joined_verdict, judge
from vardi._solve.model import joining_of, solve_joint, solve_plain
from vardi._solve.newton import Solution
from vardi._solve.parameters import unknown_everywhere
from vardi.errors import DroppedSamplesWarning, MismatchError, NotIdentifiableError
from vardi.errors._texts import show

OnUnidentified = Literal["raise", "largest"]


def fit(
    pool: Pool,
    omega: Any,
    known: Any,
    on_unidentified: OnUnidentified,
    tol: float,
    max_iterations: int,
    *,
    log: bool,
) -> DebiasedSample:
    """Fit a pool whose rows are in memory or read in blocks."""
    kept = counted(pool)
    while True:
        prepared = prepare(pool, omega, kept, known, log=log)
        if prepared.joint is not None:
            refuse_largest(on_unidentified, known=prepared.known is not None)
            return _fit_joint(pool, kept, prepared, tol, max_iterations)
        fitted = solve_plain(prepared.rows, pool.names, tol, max_iterations)
        if isinstance(fitted, Solution):
            break
        fitted = with_hint(pool, fitted)
        if on_unidentified == "raise":
            raise fitted.error()
        largest = largest_group(fitted, dict(zip(pool.names, prepared.rows.sizes.tolist(), strict=True)))
        kept = kept & np.isin(pool.source, [k for k, name in enumerate(pool.names) if name in largest])
    weights, shift = prepared.rows.weights(fitted.u)
    solution = replace(fitted.shifted(shift), weights=weights)
    return DebiasedSample(InMemory(pool, None if kept.all() else kept, prepared, solution))


def _fit_joint(
    pool: Pool, kept: NDArray[np.bool_], prepared: Prepared, tol: float, max_iterations: int
) -> DebiasedSample:
    joint = prepared.joint
    assert joint is not None
    verdict = with_hint(pool, judge(joint.rows_at(first_theta(prepared)), pool.names))
    found = solve_joint(
        joint, pool.names, prepared.known, prepared.values, verdict, tol=tol, max_iterations=max_iterations
    )
    fit = DebiasedSample(
        InMemory(
            pool,
            None if kept.all() else kept,
            prepared,
            found.solution,
            found.alone,
            found.groups,
            found.joining,
        )
    )
    if prepared.known is not None:
        warn_of_contradiction(fit.known)
    return fit


def verdict_of(pool: Pool, omega: Any, known: Any, *, log: bool) -> Verdict:
    """Judge a pool without solving for more than it takes."""
    prepared = prepare(pool, omega, counted(pool), known, log=log)
    joint = prepared.joint
    if joint is None:
        return with_hint(pool, judge(prepared.rows, pool.names))
    verdict = with_hint(pool, judge(joint.rows_at(first_theta(prepared)), pool.names))
    sampled = np.flatnonzero(joint.sizes > 0)
    if prepared.known is None:
        if len(joint.families) == len(sampled) and verdict.identified:
            return as_identified(verdict, str(unknown_everywhere([pool.names[k] for k in sampled], verdict)))
        return verdict
    try:
        joining = joining_of(joint, pool.names, verdict)
    except NotIdentifiableError as error:
        if error.verdict is None:
            raise
        return as_identified(error.verdict, str(error))
    return joined_verdict(verdict, joining)


def first_theta(prepared: Prepared) -> NDArray[np.float64]:
    """Return parameters to look at the overlap by: it is where biases are zero, and no parameter changes that."""
    assert prepared.joint is not None
    families = prepared.joint.families.values()
    return np.concatenate([np.empty(0), *(model.starts()[0] for model in families)])


def with_hint(pool: Pool, verdict: Verdict) -> Verdict:
    """Return the verdict; where groups share no row, with the two samples that lie nearest to one another."""
    hint = "" if verdict.identified else pool.nearest(verdict.groups)
    return replace(verdict, message=f"{verdict.message} {hint}") if hint else verdict


def refuse_largest(on_unidentified: str, *, known: bool) -> None:
    """Refuse to leave samples out where known values or parameters speak of all."""
    if on_unidentified != "largest":
        return
    if known:
        raise MismatchError(
            "on_unidentified='largest' leaves samples out, and known values speak of the whole population. Give known "
            "values that join the groups, or debias the samples of one group without them.",
            expected=("raise",),
            got=("largest",),
        )
    raise MismatchError(
        "on_unidentified='largest' leaves samples out, and with them what is known of parameters. Debias the samples "
        "of one group.",
        expected=("raise",),
        got=("largest",),
    )


def largest_group(verdict: Verdict, sizes: Mapping[Name, float]) -> set[Name]:
    """Return the samples of the group with the most rows, and warn of the others."""
    largest = max(verdict.groups, key=lambda group: sum(sizes[name] for name in group))
    dropped = [name for group in verdict.groups if group is not largest for name in group]
    warnings.warn(
        f"Left out {show(dropped)} with {sum(sizes[name] for name in dropped):g} rows. {verdict.message}",
        DroppedSamplesWarning,
        stacklevel=4,
    )
    return set(largest)

"""Samples -> rows -> verdict -> solution -> DebiasedSample, wherever the rows are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from vardi._fit.known import as_identified, warn_of_contradiction
from vardi._fit.sample import DebiasedSample
from vardi._fit.user_rows import Prepared, UserRows
from vardi._inputs.pool import Name
from vardi._solve.identify import Verdict, joined_verdict
from vardi._solve.model import JointFit, joining_of, solve_joint, solve_plain
from vardi._solve.newton import Solution, shifted
from vardi._solve.parameters import unknown_everywhere
from vardi.errors import DroppedSamplesWarning, MismatchError, NotIdentifiableError
from vardi.errors._texts import show
from vardi.errors._warn import warn

OnUnidentified = Literal["raise", "largest"]


@dataclass(frozen=True)
class Options:
    """How a fit is solved: the arguments of the same names of :func:`vardi.debias`."""

    on_unidentified: OnUnidentified = "raise"
    tol: float = 1e-10
    max_iterations: int = 100


def fit(rows: UserRows, inputs: Any, options: Options, near: Mapping[Name, float] | None = None) -> DebiasedSample:
    """Solve for the weights of all rows, starting near given log normalisers if any."""
    while True:
        prepared = rows.prepare()
        if not prepared.is_plain:
            return _fit_joint(prepared, inputs, options, near)
        found = solve_plain(prepared.rows, prepared.names, options.tol, options.max_iterations, near)
        if isinstance(found, Solution):
            weights, shift = prepared.rows.settled(found.u).weights(found.u)
            solution = JointFit(replace(shifted(found, shift), weights=weights))
            return DebiasedSample(rows.solved(prepared, solution), inputs)
        verdict = rows.explained(found)
        if options.on_unidentified == "raise":
            raise verdict.error()
        rows = rows.of_samples(_largest_group(verdict, prepared.sizes))


def _fit_joint(prepared: Prepared, inputs: Any, options: Options, near: Mapping[Name, float] | None) -> DebiasedSample:
    known, data = prepared.known, prepared.data
    _refuse_largest(options.on_unidentified, known=bool(known))
    verdict = data.overlap(prepared)
    tol, most = options.tol, options.max_iterations
    found = solve_joint(
        prepared.joint, prepared.names, known, prepared.values, verdict, tol=tol, max_iterations=most, near=near
    )
    fitted = DebiasedSample(data.solved(prepared, found), inputs)
    if known:
        warn_of_contradiction(fitted.known)
    return fitted


def verdict_of(prepared: Prepared) -> Verdict:
    """Judge samples, solving only what that takes."""
    verdict, joint, names = prepared.data.overlap(prepared), prepared.joint, prepared.names
    if prepared.is_plain:
        return verdict
    sampled = [name for name, size in zip(names, joint.sizes, strict=True) if size > 0]
    if not prepared.known:
        if len(joint.families) == len(sampled) and verdict.identified:
            return as_identified(verdict, str(unknown_everywhere(sampled, verdict)))
        return verdict
    try:
        joining = joining_of(joint.few, names, verdict)
    except NotIdentifiableError as error:
        if error.verdict is None:
            raise
        return as_identified(error.verdict, str(error))
    return joined_verdict(verdict, joining)


def _refuse_largest(on_unidentified: str, *, known: bool) -> None:
    """Refuse to leave samples out if known values or parameters concern all of them."""
    if on_unidentified != "largest":
        return
    fact, remedy = (
        (
            "but known values describe the whole population",
            "Give known values that join the groups, or debias the samples of one group without them.",
        )
        if known
        else ("and with them information about the parameters", "Debias the samples of one group.")
    )
    raise MismatchError(f"on_unidentified='largest' leaves samples out, {fact}. {remedy}")


def _largest_group(verdict: Verdict, sizes: Mapping[Name, float]) -> set[Name]:
    """Return the samples of the group with the most rows, and warn of the others."""
    largest = max(verdict.groups, key=lambda group: sum(sizes[name] for name in group))
    dropped = [name for group in verdict.groups if group is not largest for name in group]
    rows = sum(sizes[name] for name in dropped)
    warn(DroppedSamplesWarning(f"Left out {show(dropped)} with {rows:g} rows. {verdict.message}"))
    return set(largest)

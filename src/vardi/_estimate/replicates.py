r"""Replicate weights: a column of weights for each draw, from whose spread any software computes standard errors.

A replicate counts row i :math:`m_i` times (:mod:`vardi._rows.multipliers`). One Newton step from the solution v, with J
taken there, leads to the solution of the replicate, and the weights move with it:

.. math::

    \delta = -J^{-1} g_m,\qquad g_m = \sum_i m_i q_i - n,\qquad
    w_i \propto m_i\,e^{-x_i'\delta} / S_i,

since x is the gradient of log S. So each replicate needs only a sum of q over the rows, linear in m: in an engine, one
query computes many. The error is of second order in the draw. That of :math:`m_i / S_i(v + \delta)` is no smaller, but
its weights could fall below zero where known values move S, or explode where parameters move a curve.
"""

from __future__ import annotations

from typing import Any, get_args

import numpy as np

from vardi._estimate.refits import LONG, Progress, entropy_of, one_step
from vardi._estimate.replicate_rows import ReplicatesInEngine, ReplicatesInMemory, SomeReplicates
from vardi._estimate.solved import SolvedFit
from vardi._rows.multipliers import Multipliers, ReplicateKind
from vardi._types import Floats
from vardi.errors import MismatchError, WeakOverlapWarning
from vardi.errors._warn import warn


def replicate_weights(
    solved: SolvedFit,
    n: int = 500,
    kind: ReplicateKind = "bayesian",
    seed: int | np.random.Generator | None = 0,
    *,
    identity: str | None = None,
    progress: Progress | None = None,
) -> Any:
    """Return the weights of replicates of a fit; see :meth:`vardi.DebiasedSample.replicate_weights`.

    Draws are of whole clusters, or of batches of successive rows of a series, within strata; they spread less where a
    sample is a good part of a finite population.

    Parameters
    ----------
    solved : SolvedFit
        The fit's rows and solution.
    n, kind, seed, identity, progress
        As in that method.
    """
    _check(n, kind)
    holder = ReplicatesInMemory if solved.data.in_memory else ReplicatesInEngine
    rows = holder(solved, kind, n, entropy_of(seed), identity)
    _require_units(rows.law)
    far, uncertain = 0, solved.tangent.measure.coordinates.uncertain
    for chunk in rows.chunks():
        times, counted, q = rows.drawn(chunk)
        steps = one_step(solved.tangent, q, counted, drawn_errors(rows.law, uncertain, chunk))
        spread = rows.keep(SomeReplicates(chunk, rows.point, times, steps))
        far += int((spread > LONG).sum())
        if progress is not None:
            progress(chunk.stop, n)
    if far:
        warn(
            WeakOverlapWarning(
                f"{far} of {n} replicates move the weights so far (by more than {LONG} on the log scale) that "
                "refitting them by one step is rough: few rows join the samples. Compare with fit.bootstrap, which "
                "solves each draw in full, or add rows where the samples overlap."
            )
        )
    return rows.result()


def drawn_errors(law: Multipliers, uncertain: int, replicates: range) -> Floats:
    """Return drawn errors of the known values that have one, in standard deviations: (r, R).

    For a jackknife, whose variance is a sum of squares, they are scaled down accordingly.
    """
    rng = np.random.default_rng(np.random.SeedSequence(law.seed, spawn_key=(0, 2)))
    drawn = rng.standard_normal((law.n, uncertain))[replicates.start : replicates.stop].T
    return drawn / np.sqrt(law.n - 1.0) if law.kind == "jackknife" else drawn


def _check(n: int, kind: ReplicateKind) -> None:
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 2:
        raise MismatchError(f"{n!r} replicates have no spread. Give a whole number of 2 or more, such as 500.")
    if kind not in get_args(ReplicateKind):
        raise MismatchError(
            f"kind is {kind!r}. Give 'bayesian' (every row stays, with a random weight), 'rows' (rows are drawn with "
            "replacement) or 'jackknife' (rows are left out, a group at a time)."
        )


def _require_units(law: Multipliers) -> None:
    units = int(law.units.sum())
    if law.kind == "jackknife" and law.n > units:
        raise MismatchError(
            f"{law.n} groups cannot be made of {units} units (rows, or clusters of them), so most replicates would "
            f"leave nothing out. Give {units} or fewer, or kind='bayesian'."
        )

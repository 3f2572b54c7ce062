"""Rows in memory with known values or parameters -> what is solved: families of biases, independent known columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vardi._fit.user_rows import Prepared
from vardi._inputs.by_row import KeptRows
from vardi._inputs.known import NOTHING_KNOWN, Known, PoolTable, as_known
from vardi._inputs.known_on_rows import reduced, values_on
from vardi._inputs.pool import Pool
from vardi._rows.cells import with_levels
from vardi._rows.families import Function, as_model
from vardi._rows.joint import Joint
from vardi._rows.point import KnownMoments
from vardi._types import Floats
from vardi.biases import ParametricBias
from vardi.errors import TooLargeError
from vardi.errors._refusals import untold_parameters

if TYPE_CHECKING:
    from vardi._fit.rows_in_memory import RowsInMemory

RANK = 1e-12  # relative size above which a variance of known values counts
MAX_JOINT_BIASES = 5000  # whose matrix with parameters or known values takes 200 MB, of which a solve holds a few


def prepare(data: RowsInMemory, omega: Any) -> Prepared:
    """Evaluate parameters and known values on the rows that count, given the known factors of biases."""
    pool, kept = data.pool, data.kept
    if len(pool.names) > MAX_JOINT_BIASES:
        count = len(pool.names)
        raise TooLargeError(
            f"There are {count:,} biases, and known values or parameters would need a matrix of their number squared "
            f"({8 * count**2 / 2**30:,.1f} GB), several times. Up to {MAX_JOINT_BIASES:,} biases are solved so. Merge "
            "samples that were drawn with the same bias, or leave the known values and parameters out.",
            bytes=8 * count**2,
        )
    known = NOTHING_KNOWN if data.known is None else as_known(data.known, pool.names, PoolTable(pool))
    pool = _with_levels(pool, kept, omega)
    families = {
        k: as_model(bias, pool.frames, kept.mask, kept.of(pool.counts), str(pool.names[k]))
        for k, bias in enumerate(pool.biases)
        if isinstance(bias, ParametricBias)
    }
    H = kept.of(values_on(known, pool, omega, log=data.log))
    also = [*H.T, *(column for model in families.values() for column in getattr(model, "z", np.empty((0, 0))).T)]
    if any(isinstance(model, Function) for model in families.values()):  # a function may differ between any two rows
        also.append(np.arange(len(H), dtype=np.float64))
    data = replace(data, pool=pool)
    rows = data.rows_with(omega, also)
    if rows.inverse is not None:  # H and features are needed on the first row of the pool that each row stands for
        first = np.empty(len(rows), np.int64)
        first[rows.inverse[::-1]] = np.arange(len(rows.inverse))[::-1]
        H, families = H[first], {k: model.subset(first) for k, model in families.items()}
    directions, root, moving = independent(known, H, set(families))
    moments = KnownMoments(H, directions, known.values @ directions, root, moving)
    return Prepared(pool.names, rows, Joint(rows, families, moments), data, known, H, directions)


def require_told(pool: Pool, sizes: NDArray[Any]) -> None:
    """Refuse biases with parameters that no sample was drawn with."""
    untold = [k for k, bias in enumerate(pool.biases) if isinstance(bias, ParametricBias) and not sizes[k]]
    if untold:
        raise untold_parameters([pool.names[k] for k in untold], pool.biases[untold[0]])


def _with_levels(pool: Pool, kept: KeptRows, omega: Any) -> Pool:
    """Return the pool with biases by category completed: with the values that have a parameter."""
    sizes = np.bincount(kept.of(pool.source), minlength=len(pool.names))
    require_told(pool, sizes)
    biases = list(pool.biases)
    for k, bias in enumerate(biases):
        if isinstance(bias, ParametricBias):
            matters = np.where(kept.mask, pool.counts, 0.0) * (np.asarray(omega[k]) > 0)
            biases[k] = with_levels(bias, pool.frames, matters, pool.source == k, str(pool.names[k]))
    return replace(pool, biases=tuple(biases))


def independent(known: Known, H: Floats, parametric: set[int]) -> tuple[Floats, Floats, dict[int, int]]:
    """Return which combinations of known functions are used, a root of their covariance, and which have parameters.

    A function that is a bias with parameters is kept on its own, since it moves with these.
    """
    moving = known.moving(parametric)
    fixed = np.array([j for j in range(len(known)) if j not in moving], np.int64)
    part = replace(
        known,
        labels=tuple(known.labels[j] for j in fixed),
        functions=tuple(known.functions[j] for j in fixed),
        values=known.values[fixed],
        covariance=known.covariance[np.ix_(fixed, fixed)],
        margins=(),
    )
    inside = reduced(part, H[:, fixed]) if len(fixed) else np.empty((0, 0))
    directions = np.zeros((len(known), inside.shape[1] + len(moving)))
    directions[fixed, : inside.shape[1]] = inside
    directions[list(moving), inside.shape[1] + np.arange(len(moving))] = 1.0
    variances, axes = np.linalg.eigh(directions.T @ known.covariance @ directions)
    kept = variances > RANK * max(float(np.abs(variances).max(initial=0.0)), 1e-300)
    root = axes[:, kept] * np.sqrt(variances[kept])
    return directions, root, {inside.shape[1] + i: k for i, k in enumerate(moving.values())}

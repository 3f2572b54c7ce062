"""A pool and what is known -> the rows to solve: known biases, families of biases with parameters, known columns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vardi._inputs.known import Known, PoolTable, as_known
from vardi._inputs.known_on_rows import reduced, values_on
from vardi._inputs.pool import Pool
from vardi._rows import Rows, as_rows
from vardi._rows.cells import with_levels
from vardi._rows.families import BiasFamily, Function, as_model
from vardi._rows.joint import Joint, JointRows
from vardi._rows.point import KnownMoments, Model
from vardi._types import Floats, Integers
from vardi.biases import ParametricBias
from vardi.errors._refusals import too_many_biases, untold_parameters

if TYPE_CHECKING:
    from vardi._rows.lazy_rows import LazyRows
    from vardi._rows.queries import Queries

RANK = 1e-12  # relative size above which a variance of known values counts
MAX_JOINT_BIASES = 5000  # whose matrix with parameters or known values takes 200 MB, of which a solve holds a few


@dataclass(frozen=True)
class Prepared:
    """What a fit solves.

    Attributes
    ----------
    rows : Rows or LazyRows
        The rows with their known biases; for biases with parameters, the known factor.
    joint : Joint or EngineRows
        The same with parameters and known moments.
    known : Known
        What is known.
    values : ndarray of shape (n, m)
        The known functions on the rows.
    directions : ndarray of shape (m, r)
        Which combinations of the known functions are linearly independent.
    pool : Pool or None
        The pool, if its biases were completed from the rows, with the categories that have a parameter.
    frames, model : Queries and Model, or None
        For rows in an engine: its frames, and what depends on which coordinates of a point.
    in_memory : bool
        Whether the rows to solve are in memory, as they also are if equal rows of an engine were collapsed.
    """

    rows: Rows | LazyRows
    joint: JointRows
    known: Known = field(default_factory=Known.none)
    values: Floats = field(default_factory=lambda: np.empty((0, 0)))
    directions: Floats = field(default_factory=lambda: np.empty((0, 0)))
    pool: Pool | None = None
    frames: Queries | None = None
    model: Model | None = None
    in_memory: bool = True

    @classmethod
    def plain(cls, rows: Rows) -> Prepared:
        """Return rows without parameters and known values."""
        return cls(rows, Joint(rows, {}, KnownMoments.none()))

    @property
    def is_plain(self) -> bool:
        """Whether there are neither parameters nor known values, so that normalisers are all there is to solve for."""
        return not self.known and not self.joint.families

    @property
    def moving(self) -> dict[int, int]:
        """Known functions that are a bias with parameters, with the position of that bias."""
        functions, families = self.known.functions, self.joint.families
        return {j: h for j, h in enumerate(functions) if isinstance(h, int) and h in families}


def prepare(pool: Pool, omega: Any, kept: NDArray[np.bool_], known: Any, *, log: bool) -> Prepared:
    """Evaluate biases, parameters and known values on the rows that count."""
    parametric = {k: bias for k, bias in enumerate(pool.biases) if isinstance(bias, ParametricBias)}
    if omega is None:
        factors = tuple(bias.known if isinstance(bias, ParametricBias) else bias for bias in pool.biases)
        omega = replace(pool, biases=factors).values()
    if known is None and not parametric:
        return Prepared.plain(rows_of(pool, omega, kept, log=log))
    if len(pool.names) > MAX_JOINT_BIASES:
        raise too_many_biases(len(pool.names), MAX_JOINT_BIASES)
    given = Known.none() if known is None else as_known(known, pool.names, PoolTable(pool))
    pool = _with_levels(pool, parametric, kept, omega)
    families = _families(pool, kept)
    H = values_on(given, pool, omega, log=log)[kept]
    also = [*H.T, *(column for model in families.values() for column in getattr(model, "z", np.empty((0, 0))).T)]
    opaque = any(isinstance(model, Function) for model in families.values())
    if opaque:  # a function may differ between any two rows
        also.append(np.arange(len(H), dtype=np.float64))
    rows = rows_of(pool, omega, kept, log=log, also=also)
    first = _representatives(rows)
    if first is not None:
        H, families = H[first], {k: model.subset(first) for k, model in families.items()}
    columns, directions = _known_columns(given, H, families)
    return Prepared(rows, Joint(rows, families, columns), given, H, directions, pool)


def rows_of(pool: Pool, omega: Any, kept: NDArray[np.bool_], *, log: bool, also: Any = ()) -> Rows:
    """Hold the biases of the rows that count."""
    if kept.all():
        return as_rows(omega, pool.source, pool.counts, pool.names, log=log, also=also, place=pool.place)
    omega = [column[kept] for column in omega] if isinstance(omega, list) else omega[kept]
    counts = pool.counts[kept]
    positions = np.flatnonzero(kept)
    source = pool.source[kept]
    return as_rows(omega, source, counts, pool.names, log=log, positions=positions, also=also, place=pool.place)


def counted(pool: Pool) -> NDArray[np.bool_]:
    """Return which rows of a pool count."""
    return pool.counts > 0 if pool.is_counted else np.ones(len(pool), bool)


def require_told(pool: Pool, sizes: NDArray[Any]) -> None:
    """Refuse biases with parameters that no sample was drawn with."""
    untold = [k for k, bias in enumerate(pool.biases) if isinstance(bias, ParametricBias) and not sizes[k]]
    if untold:
        raise untold_parameters([pool.names[k] for k in untold], pool.biases[untold[0]])


def _with_levels(pool: Pool, parametric: dict[int, ParametricBias], kept: NDArray[np.bool_], omega: Any) -> Pool:
    """Return the pool with biases by category completed: with the values that have a parameter."""
    sizes = np.bincount(pool.source[kept], minlength=len(pool.names))
    require_told(pool, sizes)
    biases = list(pool.biases)
    for k, bias in parametric.items():
        matters = np.where(kept, pool.counts, 0.0) * (np.asarray(omega[k]) > 0)
        biases[k] = with_levels(bias, pool.frames, matters, pool.source == k, str(pool.names[k]))
    return replace(pool, biases=tuple(biases))


def _families(pool: Pool, kept: NDArray[np.bool_]) -> dict[int, BiasFamily]:
    counts = pool.counts[kept]
    return {
        k: as_model(bias, pool.frames, kept, counts, str(pool.names[k]))
        for k, bias in enumerate(pool.biases)
        if isinstance(bias, ParametricBias)
    }


def _representatives(rows: Rows) -> Integers | None:
    """Return the first row of the pool that each collapsed row stands for; None if none was collapsed."""
    if rows.inverse is None:
        return None
    first = np.empty(len(rows), np.int64)
    first[rows.inverse[::-1]] = np.arange(len(rows.inverse))[::-1]
    return first


def _known_columns(known: Known, H: Floats, families: dict[int, BiasFamily]) -> tuple[KnownMoments, Floats]:
    """Return known functions that are linearly independent over the rows, as which combinations of all functions."""
    directions, root, moving = independent(known, H, set(families))
    return KnownMoments(H, directions, known.values @ directions, root, moving), directions


def independent(known: Known, H: Floats, parametric: set[int]) -> tuple[Floats, Floats, dict[int, int]]:
    """Return which combinations of known functions are used, a root of their covariance, and which have parameters.

    A function that is a bias with parameters is kept on its own, since it moves with these.
    """
    moving = {j: h for j, h in enumerate(known.functions) if isinstance(h, int) and h in parametric}
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

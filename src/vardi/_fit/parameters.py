r"""Parameters of biases, and what is known of the population: made ready for a solve, estimated, and tested.

What is known is tested against the samples. They are fitted without the known values; groups that overlap does not join
keep the masses that these give them. The means of the known functions are then compared with what is known, each and
all together. If only the known values determine the parameters of a bias, the samples alone have no fit, and what can
be tested is that :math:`\mu = 0`, in the directions in which mu varies: it does not in those that determine parameters.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from vardi._estimate.check_results import KnownCheck, KnownLine
from vardi._estimate.estimates import EstimatesByName, estimates_of
from vardi._estimate.hotelling import Hotelling, hotelling
from vardi._estimate.intervals import REFUSED
from vardi._estimate.tangent import Influence, Tangent
from vardi._fit.capabilities import refusal
from vardi._fit.solved import Prepared, Solved
from vardi._inputs.known import NOTHING_KNOWN, Known, PoolTable, as_known
from vardi._inputs.known_on_rows import reduced, values_on
from vardi._inputs.pool import KeptRows, Name, Pool
from vardi._rows.arrays import Arrays
from vardi._rows.cells import with_levels
from vardi._rows.contract import Block, Kept
from vardi._rows.families import Function, as_model
from vardi._rows.likelihood import Joint, JointRows
from vardi._rows.measure import Functions
from vardi._rows.point import KnownMoments, RowsAt
from vardi._solve.saddle import Iterate
from vardi._types import Floats
from vardi.biases import Bias, ParametricBias
from vardi.errors import MismatchError, TooLargeError, VardiError, suggest
from vardi.errors._refusals import untold_parameters
from vardi.errors._texts import show

if TYPE_CHECKING:
    from vardi._fit.rows_in_memory import RowsInMemory

SINGULAR = 1e-12  # relative size above which a variance of known values counts
RANK = 1e-8  # relative size above which an eigenvalue of a covariance counts
NOTHING = 1e-10  # variance relative to that of one row below which it is only rounding
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
    moments = known_moments(known, H, set(families), H)
    return Prepared(pool.names, rows, Joint(rows, families, moments), data, known)


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


def known_moments(known: Known, H: Floats, parametric: set[int], values: Kept) -> KnownMoments:
    """Return the combinations of known functions that are linearly independent.

    A function that is a bias with parameters is kept on its own, since it moves with these.

    Parameters
    ----------
    known : Known
        What is known.
    H : ndarray of shape (n, m)
        The functions on the rows, or on the distinct ones.
    parametric : set of int
        The biases that have parameters.
    values : ndarray, or names of columns
        The functions as questions read them.
    """
    moving = known.moving(parametric)
    fixed = [j for j in range(len(known)) if j not in moving]
    named = tuple(known.labels[j] for j in fixed), tuple(known.functions[j] for j in fixed)
    part = Known(*named, known.values[fixed], known.covariance[np.ix_(fixed, fixed)])
    inside = reduced(part, H[:, fixed]) if fixed else np.empty((0, 0))
    directions = np.zeros((len(known), inside.shape[1] + len(moving)))
    directions[fixed, : inside.shape[1]] = inside
    directions[list(moving), inside.shape[1] + np.arange(len(moving))] = 1.0
    variances, axes = np.linalg.eigh(directions.T @ known.covariance @ directions)
    kept = variances > SINGULAR * max(float(np.abs(variances).max(initial=0.0)), 1e-300)
    root = axes[:, kept] * np.sqrt(variances[kept])
    places = {inside.shape[1] + i: k for i, k in enumerate(moving.values())}
    return KnownMoments(values, directions, known.values @ directions, root, places)


def estimates(solved: Solved) -> dict[Name, EstimatesByName[str]]:
    """Return the parameters of each bias that has any, on the user's scale."""
    joint = solved.joint
    if not joint.families:
        return {}
    directions = np.zeros((len(joint.coordinates), joint.coordinates.parameters))
    directions[joint.coordinates.theta] = block_diag(*(model.scale for model in joint.families.values())).T
    values = np.concatenate([solved.users_theta(k) for k in joint.families])
    found = iter(estimates_of(values, solved.tangent.of_coordinates(directions)))
    return {
        solved.names[k]: EstimatesByName((name, next(found)) for name in model.names)
        for k, model in joint.families.items()
    }


def likelihood(solved: Solved, name: Name) -> tuple[JointRows, Floats, int]:
    """Return what tests of a sample's parameters need.

    These are the rows without known values, which the likelihood ignores, the maximum of their likelihood, and the
    place of the sample.
    """
    known = {solved.names[k]: k for k in solved.joint.families}
    if name not in known:
        fact = (
            f"The bias of {str(name)!r} has no parameters" if name in solved.names else f"There is no sample {name!r}"
        )
        those = f"Those of {show(known)} have parameters." if known else "No bias has parameters."
        raise MismatchError(f"{fact}. {those}{suggest(name, known)}")
    if solved.depends:
        raise refusal("tests of parameters", "rows in memory", "parameters", "clusters")
    joint = solved.joint.without_known()
    if not solved.prepared.known:
        return joint, solved.point, known[name]
    if solved.alone is None:
        raise VardiError(
            "Only the known values determine the parameters, not the samples, so there is no likelihood ratio for "
            "them. Look at fit.parameters: an estimate over its error is nearly normal."
        )
    return joint, solved.alone[: len(joint.coordinates)], known[name]


def check_known(solved: Solved) -> KnownCheck | None:
    """Compare known values with the samples."""
    known = solved.prepared.known
    if not known:
        return None
    alone = _alone(solved)
    values, covariance, own_df = known.values, np.zeros((len(known), len(known))), np.full(len(known), np.inf)
    if alone is not None:
        tangent = solved.tangent_of(*alone, quick=True)
        values, influence = _means_at(solved, tangent, *alone)
        spread = influence.spread()
        covariance, own_df = spread.covariance, spread.df
    variances, least = np.diag(covariance), _least(solved)
    stderr = np.where(variances > least, np.sqrt(np.maximum(variances, 0.0)), 0.0)
    withheld = (stderr > 0) & (own_df < REFUSED)
    read = [h.columns if isinstance(h, Bias) else () for h in known.functions]
    margins = map(known.margin_of, range(len(known)))
    numbers = known.values, known.stderr, values, np.where(withheld, math.nan, stderr)
    lines = tuple(map(KnownLine, known.labels, *np.array(numbers).tolist(), read, margins))
    samples = tuple(str(solved.names[k]) for k in solved.data.sampled)
    means = solved.tangent.measure.mean(_functions(solved, solved.tangent))
    residual = float(np.abs(means - solved.moved_known()).max())
    if withheld.any():
        test = Hotelling(math.nan, 0, math.nan)
    elif alone is None:
        test = _test_of_multipliers(solved)
    else:
        told = np.outer(stderr > 0, stderr > 0)
        total = np.where(told, covariance + known.covariance, 0.0)
        test = hotelling(influence, values - known.values, total, least)
    statistic = test.statistic if test.df else math.nan
    return KnownCheck(lines, statistic, test.df, test.pvalue, residual, samples, test.freedom)


def _functions(solved: Solved, tangent: Tangent) -> Functions:
    """Return the functions with known means on the rows of a tangent; biases are those at its point."""
    known = solved.prepared.known
    moving, m = known.moving(solved.joint.families), len(known)
    values = solved.joint.few.known.values
    if not solved.data.in_memory and not isinstance(tangent.measure.rows, Arrays):
        values = solved.engine.model.known.values  # as columns of the engine

    def make(block: Block, at: RowsAt) -> Floats:
        columns = block.solved(values)
        own = {j: at.users_bias(k) for j, k in moving.items()}
        return np.hstack([own.get(j, columns[:, [j]]) for j in range(m)]) if own else columns

    return Functions((), m, make)


def _means_at(solved: Solved, tangent: Tangent, joint: JointRows, v: Floats) -> tuple[Floats, Influence]:
    """Return the means of the known functions at another point, and the influence on them."""
    functions = _functions(solved, tangent)
    eta, gradients = tangent.measure.mean(functions), joint.mean_gradients(v)
    moved = np.zeros((len(joint.coordinates), len(eta)))
    for j, k in solved.prepared.known.moving(joint.families).items():
        moved[:, j] = tangent.n * eta[j] * gradients[:, k]
    return eta, tangent.influence_on(functions, eta, moved)


def _least(solved: Solved) -> Floats:
    """Return the variances of the known functions' means below which they are only rounding.

    A constant has no variance of its own: its rounding is relative to its size.
    """
    values = np.asarray(solved.joint.few.known.values)
    rounded = np.square(1e-8 * np.abs(values).max(axis=0, initial=0.0))
    return NOTHING * np.maximum(np.maximum(values.var(axis=0), rounded), 1e-300) / solved.tangent.n


def _alone(solved: Solved) -> tuple[JointRows, Floats] | None:
    """Return the samples without known values except the masses of groups; None if known values fix parameters."""
    if solved.alone is None:
        return None
    joint, groups = solved.joint, solved.groups
    v, own = solved.alone[: joint.coordinates.theta.stop], joint.without_known()
    if solved.joining is None or groups is None:
        return own, v
    masses = joint.masses_of(groups, solved.point)
    v = v.copy()
    v[: joint.coordinates.samples] += np.append(np.log(own.masses_of(groups, v) / masses), 0.0)[groups]
    return joint.with_masses_of(groups, masses), np.append(v, np.zeros(len(masses) - 1))


def _test_of_multipliers(solved: Solved) -> Hotelling:
    """Return the test of mu = 0."""
    at, v = solved.joint.coordinates, solved.point.copy()
    v[at.mu] = v[at.epsilon] = 0.0
    tangent = solved.tangent_of(solved.joint, v, quick=True)
    scale = Iterate(solved.joint, v).scale[at.mu]
    influence = tangent.of_coordinates(np.eye(len(at))[:, at.mu]) @ np.diag(scale)
    return hotelling(influence, solved.point[at.mu] * scale, influence.covariance(), RANK)

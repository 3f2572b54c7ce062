r"""The weight of rows that need not be in the pool: a function of the row, wherever the rows of the fit are.

.. math:: r(z) = 1 / S(z),\qquad S(z) = \sum_l e^{u_l}\omega_l(z;\theta) + \mu'(g(z) - R\varepsilon)

For some samples alone, S is the first sum over these, up to the scale at which weights have mean 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from vardi._inputs.frames import Frame, as_frame
from vardi._inputs.known import NOTHING_KNOWN, Known
from vardi._inputs.known_on_rows import values_on_frame
from vardi._rows import Checks
from vardi._rows.families import users_log_omega
from vardi._types import Floats, Integers
from vardi.biases import ParametricBias
from vardi.biases._values import as_array, as_numbers
from vardi.errors import ImpossibleRowError, InvalidBiasError, MismatchError
from vardi.errors._texts import LISTED

if TYPE_CHECKING:
    from vardi._fit.solved import Solved


def weigh(solved: Solved, rows: Any) -> Any:
    """Return the weights of new rows, in their library.

    Parameters
    ----------
    solved : Solved
        The solved fit; only its biases and its point are used, no rows.
    rows : array or frame
        In memory, with the columns that biases and known values read; for a fit of a matrix, a matrix of biases.
    """
    sampled = list(solved.data.states)  # the others do not enter the weight
    known = solved.prepared.known if solved.data.is_whole else NOTHING_KNOWN
    frame = as_frame(rows) if solved.pool.biases else None
    logs, H = _of_matrix(solved, rows, sampled, known) if frame is None else _of_frame(solved, frame, sampled, known)
    log_mass = scipy.special.logsumexp(logs + solved.solution.u[sampled], axis=1)
    uncovered = np.flatnonzero(log_mass == -np.inf)
    if len(uncovered):
        raise _without_weight(
            uncovered,
            ", so nothing is known of their weight. The debiased sample represents the part of the population that "
            "some sample could have drawn.",
            "No sampled bias covers ",
        )
    if solved.groups is not None and solved.groups.max() > 0:
        _require_one_group(logs > -np.inf, solved.groups[sampled])
    scale = 1.0 if solved.data.is_whole else solved.tangent.measure.point.scale
    weights = _with_known(solved, known, log_mass, H) if known.labels else scale * np.exp(-log_mass)
    return weights if frame is None else frame.wrap(weights, "weight")


def _of_frame(solved: Solved, frame: Frame, sampled: Sequence[int], known: Known) -> tuple[Floats, Floats]:
    """Return log omega and the known functions of new rows."""
    biases, fixed = [solved.pool.biases[k] for k in sampled], list(solved.pool.biases)
    factors = frame.evaluate([bias.known if isinstance(bias, ParametricBias) else bias for bias in biases])
    logs = _logs(solved, sampled, factors, log=False)
    for place, (k, bias) in enumerate(zip(sampled, biases, strict=True)):
        if isinstance(bias, ParametricBias):
            allowed = logs[:, place] > -np.inf
            logs[:, place] += users_log_omega(bias, frame, solved.users_theta(k), str(solved.names[k]), allowed)
            fixed[k] = solved.fixed_bias(k)
    return logs, values_on_frame(known, frame, fixed) if known.labels else np.empty((len(logs), 0))


def _of_matrix(solved: Solved, rows: Any, sampled: Sequence[int], known: Known) -> tuple[Floats, Floats]:
    matrix, log = _as_matrix(solved, rows), solved.rows.log
    H = matrix[:, list(known.states)].astype(np.float64)
    return _logs(solved, sampled, [matrix[:, k] for k in sampled], log=log), np.exp(H) if log else H


def _logs(solved: Solved, sampled: Sequence[int], columns: Sequence[np.ndarray], *, log: bool) -> Floats:
    """Return log omega, given the values of biases, or their logs, on new rows."""
    Checks([solved.names[k] for k in sampled], log, whole="the new rows").columns(columns)
    values = np.column_stack([np.asarray(column, np.float64) for column in columns])
    with np.errstate(divide="ignore"):
        return values if log else np.log(values)


def _as_matrix(solved: Solved, rows: Any) -> Floats:
    """Return new rows of a matrix fit as an array; entries that a sparse one does not store are omega = 0."""
    if sparse.issparse(rows):
        stored = sparse.coo_array(rows)
        matrix = np.full(stored.shape, -np.inf if solved.rows.log else 0.0)
        matrix[stored.row, stored.col] = stored.data
    else:
        array = as_array(rows, "The matrix of new rows")
        numbers = as_numbers(array)
        if numbers is None:
            raise InvalidBiasError(f"The new rows hold {array.dtype}, but biases are numbers. Give a matrix of floats.")
        matrix = numbers.astype(np.float64, copy=False)
    if matrix.ndim != 2 or matrix.shape[1] != len(solved.names):
        raise MismatchError(
            f"The new rows have shape {matrix.shape}. Give a matrix of biases with {len(solved.names)} columns, as "
            "in the fit."
        )
    return matrix


def _require_one_group(allowed: NDArray[np.bool_], groups: Integers) -> None:
    """Refuse new rows that samples of several groups could have drawn: the pool has no such row to weigh them by."""
    several = [allowed[:, groups == label].any(axis=1) for label in range(int(groups.max()) + 1)]
    between = np.flatnonzero(np.sum(several, axis=0) > 1)
    if len(between):
        raise _without_weight(
            between,
            " could have been drawn by samples of several groups, but no row of the pool could, so it is unknown how "
            "the groups compare there. Leave them out, or narrow the biases to what was drawn.",
        )


def _with_known(solved: Solved, known: Known, log_mass: Floats, H: Floats) -> Floats:
    """Return 1 / S including the known functions; raise if S is not positive on some row."""
    for column, place in known.margins:
        strange = np.flatnonzero(H[:, place].sum(axis=1) != 1.0)
        if len(strange):
            raise _without_weight(
                strange,
                f" have a value of {column!r} that has no known share, so nothing is known of their weight. Weight "
                "only rows whose value is in the margin.",
            )
    directions = solved.joint.known.directions
    terms = (H - solved.moved_known()) @ directions * solved.point[solved.joint.coordinates.mu]
    S = np.exp(log_mass) + terms.sum(axis=1)
    bad = np.flatnonzero(~(S > 0))
    if len(bad):
        by = int(np.argmin(directions @ terms[bad[0]])) if len(known) > 1 else 0
        raise _without_weight(
            bad,
            f" have no weight: {known.labels[by]!r}, whose mean is known, is further out on them than on any row of "
            "the pool, and the weights are positive on the pool only. Weight only rows like those of the pool, or "
            "debias without that known value.",
        )
    return 1.0 / S


def _without_weight(rows: Integers, why: str, no_bias: str = "") -> ImpossibleRowError:
    """Return the error for new rows that have no weight."""
    message = f"{no_bias}{len(rows)} of the new rows (the first is row {rows[0]}){why}"
    return ImpossibleRowError(message, sample=None, rows=rows[:LISTED])

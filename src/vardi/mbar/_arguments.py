"""Arguments of pymbar, checked: potentials in its layouts, brought to a number for each state and row, and options."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from vardi._types import Floats, Integers
from vardi.biases._values import as_array
from vardi.errors import InvalidBiasError, MismatchError

METHODS = ("svd-ew", "svd", "approximate", "bootstrap")


class ParameterError(MismatchError):
    """An argument that cannot be used: also pymbar's ``ParameterError``, where that has been imported.

    Examples
    --------
    >>> import vardi
    >>> try:
    ...     vardi.mbar.timeseries.statistical_inefficiency([1.0, 1.0, 1.0])
    ... except vardi.mbar.ParameterError as error:
    ...     print(error)
    The covariance of the series is 0, so there is no correlation in time to measure. Give a series that varies.
    """

    def __new__(cls, *arguments: object) -> Self:
        utils = sys.modules.get("pymbar.utils")  # whoever catches pymbar's has imported it
        theirs: type = cls if utils is None else utils.ParameterError
        return super().__new__(cls if issubclass(cls, theirs) else type(cls.__name__, (cls, theirs), {}), *arguments)

    def __reduce__(self) -> tuple[type[ParameterError], tuple[object, ...], dict[str, object]]:
        return ParameterError, self.args, self.__dict__


def as_sizes(N_k: ArrayLike) -> Integers:
    """Return how many rows each state has: whole numbers."""
    sizes = np.asarray(N_k)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iuf" or (sizes < 0).any() or (sizes % 1).any():
        raise ParameterError(
            f"N_k is {np.array2string(sizes, threshold=10)}. It counts the rows of each state: give whole numbers, 0 "
            "for a state that was not simulated."
        )
    return sizes.astype(np.int64)


def by_state(numbers: ArrayLike, N_k: Integers, what: str = "u_kn") -> Floats:
    """Return numbers of shape (L, n), given in that shape, as (n,) for one state, or padded by sample (K, L, N_max)."""
    u = np.asarray(numbers, np.float64)
    if u.ndim == 3:
        u = _unpadded(u, N_k, what)
    u = u.reshape(1, -1) if u.ndim == 1 else u
    n = int(N_k.sum())
    if u.ndim != 2 or u.shape[1] != n:
        raise ParameterError(
            f"{what} has shape {u.shape}, but N_k counts {n} rows. Give a column for each row, in all states: an array "
            f"of shape (states, {n})."
        )
    return u


def by_row(numbers: ArrayLike, N_k: Integers, what: str) -> Floats:
    """Return numbers of shape (n,), given in that shape, as one row, or padded by sample (K, N_max)."""
    values = np.asarray(numbers, np.float64)
    n = int(N_k.sum())
    if values.ndim == 2 and values.shape[0] == len(N_k) and values.shape[1] >= N_k.max(initial=0):
        values = _unpadded(values[:, None, :], N_k, what)[0]
    elif values.shape == (1, n):
        values = values[0]
    if values.shape != (n,):
        raise ParameterError(
            f"{what} has shape {values.shape}, but N_k counts {n} rows. Give a number for each of them."
        )
    return values


def _unpadded(values: Floats, N_k: Integers, what: str) -> Floats:
    """Return the first N_k numbers of each sample, concatenated, for values of shape (K, L, N_max)."""
    if len(values) != len(N_k) or values.shape[2] < N_k.max(initial=0):
        raise ParameterError(
            f"{what} has shape {values.shape}, but N_k counts up to {N_k.max(initial=0)} rows in each of {len(N_k)} "
            "samples. Give an array of shape (samples, states, rows), padded where samples are shorter."
        )
    return np.concatenate([one[:, :size] for one, size in zip(values, N_k, strict=True)], axis=1)


def as_source(x_kindices: ArrayLike | None, N_k: Integers) -> Integers:
    """Return the state that each row was drawn in; by default rows are ordered by state."""
    if x_kindices is None:
        return np.repeat(np.arange(len(N_k)), N_k)
    source = np.asarray(x_kindices)
    whole = source.ndim == 1 and source.dtype.kind in "iuf" and not (source % 1).any()
    inside = whole and ((source >= 0) & (source < len(N_k))).all()
    counts = np.bincount(source.astype(np.int64), minlength=len(N_k)) if inside else np.array([])
    if not np.array_equal(counts, N_k):
        fact = f"has {counts.tolist()} rows of each state" if inside else f"is not a list of states 0 to {len(N_k) - 1}"
        raise ParameterError(
            f"x_kindices {fact}, but N_k counts {N_k.tolist()}. Give the state that each row was drawn in."
        )
    return source.astype(np.int64)


def require_potentials(u_kn: Floats) -> None:
    """Refuse NaN and minus infinity, which give no finite weight; plus infinity marks a row that a state forbids."""
    bad = np.isnan(u_kn) | (u_kn == -np.inf)
    if bad.any():
        k, row = np.argwhere(bad)[0]
        raise InvalidBiasError(
            f"The reduced potential of row {row} in state {k} is {u_kn[k, row]}, but exp(-u) must be a finite weight. "
            "Give numbers, or inf where a state forbids a row.",
            sample=str(k),
            rows=np.flatnonzero(bad[k])[:10],
        )


def require_one_of(value: str, choices: Sequence[str], what: str) -> None:
    """Refuse an option that does not exist."""
    if value not in choices:
        raise ParameterError(f"{what} is {value!r}. Give one of {', '.join(map(repr, choices))}.")


def as_bootstraps(n_bootstraps: int | None) -> int:
    """Return a number of refits."""
    n = 0 if n_bootstraps is None else n_bootstraps
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0 or n == 1:
        raise ParameterError(
            f"n_bootstraps is {n_bootstraps!r}, but it must be a number of refits. Give 0 for none, or 2 or more; 200 "
            "is usual."
        )
    return int(n)


def as_seed(seed: int | None) -> int:
    """Return the seed of refits that are the same whenever they are asked for; one from the machine for None."""
    entropy = np.random.SeedSequence(seed).entropy
    assert isinstance(entropy, int | np.integer)
    return int(entropy)


def uncertainty(method: str | None, n_bootstraps: int) -> str:
    """Return the method by which errors are computed."""
    method = "svd-ew" if method is None else method
    require_one_of(method, METHODS, "uncertainty_method")
    if method == "bootstrap" and not n_bootstraps:
        raise ParameterError(
            "uncertainty_method is 'bootstrap', but no refits were asked for. Write MBAR(u_kn, N_k, n_bootstraps=200)."
        )
    return method


def as_series(values: ArrayLike, what: str = "The series") -> Floats:
    """Return a number for each frame."""
    array = as_array(values, what)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "fiub" or not np.isfinite(array).all():
        fact = (
            f"has shape {array.shape}"
            if array.ndim != 1 or not len(array)
            else f"holds {array.dtype}"
            if array.dtype.kind not in "fiub"
            else f"has no number at frame {int(np.flatnonzero(~np.isfinite(array))[0])}"
        )
        raise ParameterError(
            f"{what} {fact}, but a time series has one number for each frame. Give an array of shape (N,) "
            "without missing values, in time order."
        )
    return array.astype(np.float64)

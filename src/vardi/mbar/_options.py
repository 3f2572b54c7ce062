"""Options of pymbar that decide how errors are computed."""

from __future__ import annotations

import numpy as np

from vardi.errors import MismatchError

METHODS = ("svd-ew", "svd", "approximate", "bootstrap")


def as_bootstraps(n_bootstraps: int | None) -> int:
    """Return a number of refits."""
    n = 0 if n_bootstraps is None else n_bootstraps
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0 or n == 1:
        raise MismatchError(
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
    if method not in METHODS:
        raise MismatchError(f"uncertainty_method is {method!r}. Give one of {', '.join(map(repr, METHODS))}.")
    if method == "bootstrap" and not n_bootstraps:
        raise MismatchError(
            "uncertainty_method is 'bootstrap', but no refits were asked for. Write MBAR(u_kn, N_k, n_bootstraps=200)."
        )
    return method

"""Arguments of pymbar that this solver does not need: checked, and logged to ``vardi.mbar``."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from vardi.errors import MismatchError

METHODS = ("svd-ew", "svd", "approximate", "bootstrap")
STARTS = ("zeros", "mean-reduced-potential", "BAR")
PROTOCOLS = ("default", "robust", "jax")
log = logging.getLogger("vardi.mbar")


def note_solver_options(
    K: int, initial_f_k: Any, initialize: str, solver_protocol: Any, bootstrap_solver_protocol: Any
) -> None:
    """Refuse invalid options, and log that those of pymbar's solvers have no effect."""
    if initial_f_k is not None and np.shape(initial_f_k) != (K,):
        raise MismatchError(
            f"initial_f_k has shape {np.shape(initial_f_k)}, but there are {K} states. Leave it out: the solver finds "
            "its own start."
        )
    if initialize not in STARTS:
        raise MismatchError(
            f"initialize is {initialize!r}. Leave it out, since the solver finds its own start, or give one of "
            f"{', '.join(map(repr, STARTS))}."
        )
    protocols = {"solver_protocol": solver_protocol, "bootstrap_solver_protocol": bootstrap_solver_protocol}
    for name, given in protocols.items():
        if isinstance(given, str) and given not in PROTOCOLS:
            raise MismatchError(
                f"{name} is {given!r}. Leave it out, since there is one solver, or give one of "
                f"{', '.join(map(repr, PROTOCOLS))}."
            )
    named = [name for name, given in protocols.items() if given is not None]
    named += ["initial_f_k"] * (initial_f_k is not None) + ["initialize"] * (initialize != "zeros")
    if named:
        log.info(
            "%s: not used. Newton's method finds its own start, and its solution has a certificate.", ", ".join(named)
        )


def as_bootstraps(n_bootstraps: Any) -> int:
    """Return a number of refits."""
    n = 0 if n_bootstraps is None else n_bootstraps
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0 or n == 1:
        raise MismatchError(
            f"n_bootstraps is {n_bootstraps!r}, but it must be a number of refits. Give 0 for none, or 2 or more; 200 "
            "is usual."
        )
    return int(n)


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

"""The other solvers, each called as its manual recommends, on the layout that suits it best."""

from __future__ import annotations

import importlib.util
import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from scipy.optimize import minimize

import vardi
from benchmarks.problems import Floats, Integers, Problem
from benchmarks.timing import Contestant

LogOmegas = Floats
VARDI = "vardi"


@dataclass(frozen=True)
class Peer:
    """A solver of the same problem.

    Attributes
    ----------
    needs : tuple of str
        Modules that it requires.
    prepare : callable
        From the K x n reduced potentials -log omega and the K sizes to the call that is timed, which returns the K
        log normalisers.
    public : bool
        Whether a user could make that call.
    """

    who: str
    needs: tuple[str, ...]
    prepare: Callable[[Floats, Integers], Callable[[], LogOmegas]]
    public: bool = True
    note: str = ""

    @property
    def missing(self) -> str:
        """What is not installed; empty if everything is."""
        names = [module for module in self.needs if not installed(module)]
        return f"not installed: {', '.join(names)} (pip install 'vardi[bench]')" if names else ""


def installed(module: str) -> bool:
    """Return whether a module can be imported."""
    return importlib.util.find_spec(module) is not None


def _pymbar(protocol: str) -> Callable[[Floats, Integers], Callable[[], LogOmegas]]:
    def prepare(u_kn: Floats, sizes: Integers) -> Callable[[], LogOmegas]:
        logging.getLogger("pymbar").setLevel(logging.CRITICAL)  # its accuracy is measured, not read from its log
        pymbar: Any = import_module("pymbar")

        def call() -> LogOmegas:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return -np.asarray(pymbar.MBAR(u_kn, sizes, solver_protocol=protocol).f_k)

        return call

    return prepare


def _fastmbar(u_kn: Floats, sizes: Integers) -> Callable[[], LogOmegas]:
    torch, FastMBAR = import_module("torch"), import_module("FastMBAR").FastMBAR

    energy, counts = torch.from_numpy(u_kn), torch.from_numpy(sizes.astype(np.float64))  # float64 tensors: no copies
    return lambda: -FastMBAR(energy, counts, cuda=False, method="Newton").F


def _fastmbar_bare(u_kn: Floats, sizes: Integers) -> Callable[[], LogOmegas]:
    torch, FastMBAR = import_module("torch"), import_module("FastMBAR").FastMBAR
    fastmbar = import_module("FastMBAR.fastmbar")

    energy, counts = torch.from_numpy(u_kn), torch.from_numpy(sizes.astype(np.float64))

    def call() -> LogOmegas:
        shell: Any = object.__new__(FastMBAR)  # the steps of its constructor up to the weights
        shell.M = len(sizes)
        dF = fastmbar._solve_mbar(shell._initialize_dF(energy, counts), energy, counts, "Newton")
        F = torch.cat([dF.new_zeros(1), dF])
        torch.logsumexp(-(energy - F[:, None] - torch.log(counts)[:, None]), dim=0)
        return -F.numpy()

    return call


def _bayesmbar(u_kn: Floats, sizes: Integers) -> Callable[[], LogOmegas]:
    FastMBAR = import_module("bayesmbar").FastMBAR
    import_module("jax").config.update("jax_enable_x64", True)
    return lambda: -np.asarray(FastMBAR(u_kn, sizes, method="Newton").F)


PYMBAR = Peer("pymbar, default", ("pymbar", "jax"), _pymbar("default"))
PYMBAR_ROBUST = Peer("pymbar, robust", ("pymbar", "jax"), _pymbar("robust"))
FASTMBAR = Peer(
    "FastMBAR, Newton", ("FastMBAR", "torch"), _fastmbar, note="its constructor always computes a covariance too"
)
BAYESMBAR = Peer("bayesmbar's FastMBAR, Newton", ("bayesmbar", "jax"), _bayesmbar)
FASTMBAR_BARE = Peer(
    "FastMBAR, solve and weights only",
    ("FastMBAR", "torch"),
    _fastmbar_bare,
    public=False,
    note="its private steps, without the covariance; not a call that a user makes",
)
PEERS = (PYMBAR, PYMBAR_ROBUST, FASTMBAR, BAYESMBAR)


def ours(problem: Problem, *, log: bool) -> Contestant:
    """Return the whole call: validation, identifiability, solve, certificate, weights."""

    def call() -> LogOmegas:
        fit = vardi.debias_matrix(problem.matrix, problem.source, log=log)
        assert len(fit.weights) == len(problem.source)  # weights are computed on demand
        return np.array(list(fit.log_omegas.values()))

    return Contestant(VARDI, call)


def contestants(peers: Sequence[Peer], log_problem: Problem) -> list[Contestant]:
    """Return the peers that are installed, each ready to be called."""
    present = [peer for peer in peers if not peer.missing]
    if not present:
        return []
    u_kn = np.ascontiguousarray(-log_problem.matrix.T)
    return [Contestant(peer.who, peer.prepare(u_kn, log_problem.sizes)) for peer in present]


def lbfgs(problem: Problem, *, exact: bool, seed: int = 85) -> Callable[[], LogOmegas]:
    """L-BFGS-B on the dual, as the paper's package solves it: SciPy, tolerance 1e-10, a random start.

    D(u) = mean_i log sum_k e^{u_k} omega_k(z_i) - sum_k lambda_k u_k, with its gradient, two products with the matrix
    per evaluation. D does not change when a constant is added to u, so the exps are taken relative to the largest.

    With ``exact`` it continues until the gradient, not the objective, has settled: SciPy's ``tol`` stops on either.
    """
    omega, share = problem.matrix, problem.sizes / len(problem.source)
    n, K = omega.shape

    def dual(u: Floats) -> tuple[float, Floats]:
        top = u.max()
        step = np.exp(u - top)
        S = omega @ step
        value = float(np.log(S).mean() + top - share @ u)
        np.reciprocal(S, out=S)
        return value, step * (S @ omega) / n - share

    def call() -> LogOmegas:
        start = np.random.default_rng(seed).standard_normal(K)
        if exact:
            options = {"ftol": 0.0, "gtol": 1e-10 * share.min(), "maxiter": 10_000, "maxfun": 100_000, "maxcor": 20}
            found = minimize(dual, start, jac=True, method="L-BFGS-B", options=options)
        else:
            found = minimize(dual, start, jac=True, method="L-BFGS-B", tol=1e-10)
        S = omega @ np.exp(found.x)
        weights = 1 / S
        weights /= weights.mean()
        return np.log(share) - found.x

    return call

"""Vardi's system solved to 50 digits and checked from the outside, sharing no code with the package.

Written from the equations alone. With lambda_k the share of sample k and m_i the share of row i in the pool:

    D(u) = sum_i m_i log sum_l e^{u_l} omega_l(z_i) - lambda . u          is convex and smallest at u*
    pi_i = m_i / sum_l lambda_l omega_l(z_i) / Omega_l                    with Omega_l = lambda_l e^{-u_l}
    Omega_k = sum_i pi_i omega_k(z_i)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
from scipy import sparse

DIGITS = 50
FEW = 12  # samples up to which eigenvalues are computed
TINY = 1e-290  # probabilities below this are denormal or zero in floating point, and have no relative error to speak of

# ---------------------------------------------------------------- 50 digits


@dataclass(frozen=True)
class Exact:
    """The solution to 50 digits, rounded to floats at the very end."""

    u: np.ndarray  # log(lambda_k / Omega_k) of the sampled states, -inf for the others
    log_omegas: np.ndarray
    weights: np.ndarray
    gap: float  # second smallest eigenvalue of Q^{-1/2} H Q^{-1/2} at the solution
    digits: dict  # u of the sampled states with all its digits

    def off(self, u: np.ndarray) -> float:
        """Return range(u - u*), from all digits."""
        with mpmath.workdps(2 * DIGITS):
            differences = [mpmath.mpf(float(u[k])) - exact for k, exact in self.digits.items()]
            return float(max(differences) - min(differences))


def exact(
    omega: Any, source: Any, counts: Any = None, *, log: bool = False, digits: int = DIGITS, start: Any = None
) -> Exact:
    """Solve by Newton's method on the dual in the log domain, at 50 digits, without any floating point number.

    ``start`` is a u to begin from where rows have scales of their own, which hide the order of it.
    """
    omega = _dense(omega, -np.inf if log else 0.0)
    n, K = omega.shape
    with mpmath.workdps(digits):
        counts = [mpmath.mpf(1)] * n if counts is None else [mpmath.mpf(float(c)) for c in counts]
        total = mpmath.fsum(counts)
        m = [c / total for c in counts]
        rows = [
            [(k, mpmath.mpf(x) if log else mpmath.log(mpmath.mpf(x))) for k, x in enumerate(row) if x > threshold]
            for row, threshold in zip(omega.tolist(), [-np.inf if log else 0.0] * n, strict=True)
        ]
        lam = [mpmath.fsum(m[i] for i in range(n) if source[i] == k) for k in range(K)]
        sampled = [k for k in range(K) if lam[k] > 0]
        u = dict.fromkeys(sampled, mpmath.mpf(0))
        for k in sampled:  # each sample alone: crude, but of the right order
            own = [m[i] * dict(rows[i])[k] for i in range(n) if source[i] == k and m[i] > 0]
            u[k] = mpmath.log(lam[k]) - mpmath.fsum(own) / lam[k] if start is None else mpmath.mpf(float(start[k]))
        D, q, G = _sums(rows, m, u, lam)
        for _ in range(5):  # self-consistent steps descend from anywhere
            u = {k: u[k] + mpmath.log(lam[k]) - mpmath.log(q[k]) for k in sampled}
            D, q, G = _sums(rows, m, u, lam)
        far, near = mpmath.mpf(10) ** -8, mpmath.mpf(10) ** -40
        for _ in range(2000):
            delta = _newton_step(q, G, lam, sampled)
            spread = max(delta.values()) - min(delta.values())
            decrement = -mpmath.fsum((q[k] - lam[k]) * delta[k] for k in sampled)
            new = {k: u[k] + delta[k] for k in sampled}
            D_new, q_new, G_new = _sums(rows, m, new, lam)
            if D_new > D - decrement / 4 and spread > far:
                t = mpmath.log(1 + spread) / spread
                new = {k: u[k] + t * delta[k] for k in sampled}
                D_new, q_new, G_new = _sums(rows, m, new, lam)
            u, D, q, G = new, D_new, q_new, G_new
            if spread < near:
                break
        else:
            raise AssertionError("the oracle did not converge")
        log_pi = [
            mpmath.log(m[i]) - _log_sum([u[k] + x for k, x in rows[i] if k in u]) if m[i] else None for i in range(n)
        ]
        shift = _log_sum([p for p in log_pi if p is not None])  # the gauge in which the probabilities sum to 1
        log_pi = [None if p is None else p - shift for p in log_pi]
        log_omegas = []
        for k in range(K):
            terms = [p + dict(row)[k] for p, row in zip(log_pi, rows, strict=True) if p is not None and k in dict(row)]
            log_omegas.append(_log_sum(terms) if terms else mpmath.mpf("-inf"))
        weights = [0.0 if p is None else float(mpmath.exp(p) / m[i]) for i, p in enumerate(log_pi)]
        scaled = mpmath.matrix(len(sampled))
        for a, k in enumerate(sampled):
            for b, l in enumerate(sampled):
                scaled[a, b] = ((q[k] if k == l else 0) - G[k, l]) / mpmath.sqrt(q[k] * q[l])
        eigenvalues = sorted(float(e) for e in mpmath.eigsy(scaled, eigvals_only=True)) if len(sampled) <= FEW else []
        return Exact(
            u=np.array([float(u[k] + shift) if k in u else -np.inf for k in range(K)]),
            log_omegas=np.array([float(value) for value in log_omegas]),
            weights=np.array(weights),
            gap=eigenvalues[1] if len(eigenvalues) > 1 else (1.0 if len(sampled) == 1 else np.nan),
            digits={k: u[k] + shift for k in sampled},
        )


def _dense(omega: Any, unstored: float) -> np.ndarray:
    if not sparse.issparse(omega):
        return np.asarray(omega, dtype=float)
    stored, dense = sparse.coo_array(omega), np.full(omega.shape, unstored)
    dense[stored.row, stored.col] = stored.data
    return dense


def _log_sum(values: list) -> Any:
    top = max(values)
    return top + mpmath.log(mpmath.fsum(mpmath.exp(value - top) for value in values))


def _sums(rows: list, m: list, u: dict, lam: list) -> tuple:
    D = -mpmath.fsum(lam[k] * u[k] for k in u)
    q = dict.fromkeys(u, mpmath.mpf(0))
    G: dict = {(k, l): mpmath.mpf(0) for k in u for l in u}
    for row, mass in zip(rows, m, strict=True):
        if not mass:
            continue
        terms = [(k, u[k] + x) for k, x in row if k in u]
        log_S = _log_sum([value for _, value in terms])
        D += mass * log_S
        p = [(k, mpmath.exp(value - log_S)) for k, value in terms]
        for k, p_k in p:
            q[k] += mass * p_k
            for l, p_l in p:
                G[k, l] += mass * p_k * p_l
    return D, q, G


def _newton_step(q: dict, G: dict, lam: list, sampled: list[int]) -> dict:
    """Return -H^+ gradient with the first sample held at zero; H = diag(q) - G."""
    free = sampled[1:]
    delta = {sampled[0]: mpmath.mpf(0)}
    if not free:
        return delta
    H = mpmath.matrix(len(free))
    for a, k in enumerate(free):
        for b, l in enumerate(free):
            H[a, b] = (q[k] if k == l else 0) - G[k, l]
    step = mpmath.lu_solve(H, mpmath.matrix([lam[k] - q[k] for k in free]))
    return delta | {k: step[a] for a, k in enumerate(free)}


# ---------------------------------------------------------------- the two identities


@dataclass(frozen=True)
class Entries:
    """The positive biases as (row, column, log omega), whatever held them."""

    row: np.ndarray
    column: np.ndarray
    log_omega: np.ndarray
    n: int
    K: int

    def by_row(self, values: np.ndarray) -> np.ndarray:
        return log_sum_by(self.row, self.log_omega + values[self.column], self.n)

    def by_column(self, values: np.ndarray) -> np.ndarray:
        return log_sum_by(self.column, self.log_omega + values[self.row], self.K)


def entries(omega: Any, *, log: bool = False) -> Entries:
    if sparse.issparse(omega):
        stored = sparse.coo_array(omega)
        row, column, values = stored.row, stored.col, stored.data.astype(float)
    else:
        omega = np.asarray(omega, dtype=float)
        row, column = (index.ravel() for index in np.indices(omega.shape))
        values = omega.ravel()
    positive = values > (-np.inf if log else 0.0)
    values = values[positive]
    return Entries(row[positive], column[positive], values if log else np.log(values), *omega.shape)


def log_sum_by(index: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """Return log sum_{j: index_j = i} e^{values_j} for each i; -inf for an empty sum."""
    top = np.full(size, -np.inf)
    np.maximum.at(top, index, values)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return shift + np.log(np.bincount(index, np.exp(values - shift[index]), minlength=size))


def certify(fit: Any, omega: Any, source: Any, counts: Any = None, *, log: bool = False, rtol: float = 1e-9) -> None:
    """Check what a fit says of itself, from the definition of the biases alone.

    Omega_k = sum_i pi_i omega_k(z_i) for every k; pi_i = 1 / (n sum_l lambda_l omega_l(z_i) / Omega_l), times its
    count; weights have mean 1 over the counted rows, and weight i belongs to row i.
    """
    found = entries(omega, log=log)
    source = np.asarray(source)
    c = np.ones(found.n) if counts is None else np.asarray(counts, dtype=float)
    sizes = np.bincount(source, c, minlength=found.K)
    names = list(fit.log_omegas)
    log_omegas = np.array(list(fit.log_omegas.values()))
    assert tuple(names) == tuple(fit.names)
    assert list(fit.sizes.items()) == list(zip(names, sizes.tolist(), strict=True))
    with np.errstate(divide="ignore"):
        log_lam, log_c = np.log(sizes / sizes.sum()), np.log(c / c.sum())
    log_pi = log_c - found.by_row(np.where(sizes > 0, log_lam - log_omegas, -np.inf))
    weights, probabilities = np.asarray(fit.weights), np.asarray(fit.probabilities)
    assert weights.shape == probabilities.shape == (found.n,)
    np.testing.assert_allclose(probabilities, np.exp(log_pi), rtol=rtol, atol=TINY)
    counted = c > 0
    np.testing.assert_allclose(
        weights[counted], np.exp(log_pi[counted] - log_c[counted]), rtol=rtol, atol=TINY * found.n
    )
    np.testing.assert_allclose(np.exp(found.by_column(log_pi)[sizes > 0] - log_omegas[sizes > 0]), 1.0, rtol=rtol)
    unsampled = (sizes == 0) & np.isfinite(log_omegas)
    np.testing.assert_allclose(np.exp(found.by_column(log_pi)[unsampled] - log_omegas[unsampled]), 1.0, rtol=rtol)
    np.testing.assert_allclose((c * weights).sum() / c.sum(), 1.0, rtol=1e-12)  # in pairs: a dot product loses digits
    np.testing.assert_allclose(probabilities.sum(), 1.0, rtol=1e-12)
    assert fit.solution.converged
    assert fit.solution.residual <= 1e-10


def vardi_residual(u: np.ndarray, omega: Any, source: Any, counts: Any = None, *, log: bool = False) -> float:
    """Return max_k |Gamma_k - 1| at a dual point: the relative gap of q_k = sum_i m_i p_ik to lambda_k."""
    found = entries(omega, log=log)
    c = np.ones(found.n) if counts is None else np.asarray(counts, dtype=float)
    lam = np.bincount(np.asarray(source), c, minlength=found.K) / c.sum()
    with np.errstate(divide="ignore"):
        log_q = u + found.by_column(np.log(c / c.sum()) - found.by_row(u))
    return float(np.abs(np.exp(log_q[lam > 0]) / lam[lam > 0] - 1).max())


# ---------------------------------------------------------------- designs


@dataclass(frozen=True)
class Design:
    """Rows z of biased samples of one population, with the n x K matrix of their biases."""

    z: np.ndarray
    omega: np.ndarray
    source: np.ndarray


KINDS = ("indicator", "tilt", "power")


def design(kind: str, K: int, n: int, seed: int) -> Design:
    """Draw a strongly connected design of K samples and n >= K rows, each sample with one row or more."""
    rng = np.random.default_rng([KINDS.index(kind), K, n, seed])
    for attempt in range(500):
        sizes = 1 + rng.multinomial(n - K, rng.dirichlet(np.full(K, 2.0)))
        source = rng.permutation(np.repeat(np.arange(K), sizes))
        z, omega = {"indicator": _indicator, "tilt": _tilt, "power": _power}[kind](rng, source, K, attempt)
        if strongly_connected(edges(omega, source, K)):
            return Design(z, omega, source)
    raise AssertionError(f"no strongly connected {kind} design with K = {K}, n = {n}")


def _indicator(rng: np.random.Generator, source: np.ndarray, K: int, attempt: int) -> tuple:
    """Draw P uniform on (0, 1), seen through windows, which get wider until they overlap."""
    low, width = rng.random(K), rng.uniform(0.15, 0.6, K) * (1 + attempt / 20)
    low = np.clip(low - width / 2, 0, 0.9)
    high = np.minimum(low + width, 1.0)
    z = rng.uniform(low[source], high[source])
    return z, ((z[:, None] >= low) & (z[:, None] <= high)).astype(float)


def _tilt(rng: np.random.Generator, source: np.ndarray, K: int, attempt: int) -> tuple:
    """Draw P = N(0, 1) tilted by kernels of centre c and width s, which gives N(c / (1 + s^2), s^2 / (1 + s^2))."""
    centre, width = rng.normal(0, 1.5, K), rng.uniform(1.0, 3.0, K)
    variance = width**2 / (1 + width**2)
    z = rng.normal((centre / (1 + width**2))[source], np.sqrt(variance)[source])
    return z, np.exp(-0.5 * ((z[:, None] - centre) / width) ** 2)


def _power(rng: np.random.Generator, source: np.ndarray, K: int, attempt: int) -> tuple:
    """Draw P = Gamma(3) biased by powers: z^a gives Gamma(3 + a)."""
    power = rng.uniform(-1.0, 3.0, K)
    z = rng.gamma(3.0 + power[source])
    return z, z[:, None] ** power


def far_logs(seed: int) -> tuple[np.ndarray, np.ndarray, Exact]:
    """Draw a design as logs with offsets of up to 1e6, of rows, of columns or of both, and solve it."""
    rng = np.random.default_rng([7, seed])
    K = 2 + seed % 4
    d = design(KINDS[seed % 3], K, K + 5 + int(rng.integers(30)), 5000 + seed)
    largest = 10.0 ** rng.uniform(3, 6)
    by_row, by_column = rng.uniform(-largest, largest, (len(d.source), 1)), rng.uniform(-largest, largest, K)
    by_row *= seed // 3 % 3 != 1
    by_column *= seed // 3 % 3 != 0
    logs = log_of(d.omega) + by_row + by_column
    return logs, d.source, exact(logs, d.source, log=True, start=-by_column, digits=60)


def edges(omega: Any, source: np.ndarray, K: int, *, log: bool = False) -> np.ndarray:
    """Return whether k -> l: some row of sample l has a positive omega_k."""
    found = entries(omega, log=log)
    there = np.zeros((K, K), dtype=bool)
    there[found.column, np.asarray(source)[found.row]] = True
    return there


def strongly_connected(there: np.ndarray) -> bool:
    """Tell by the transitive closure whether every sample can be reached from every other."""
    reach = there | np.eye(len(there), dtype=bool)
    for _ in range(int(np.ceil(np.log2(max(len(reach), 2)))) + 1):
        reach = (reach.astype(np.float32) @ reach.astype(np.float32)) > 0
    return bool(reach.all())


def as_sparse_log(omega: np.ndarray) -> sparse.csr_array:
    """Return log omega where what is not stored is omega = 0: so log 1 = 0 is stored."""
    row, column = np.nonzero(omega)
    return sparse.csr_array((np.log(omega[row, column]), (row, column)), shape=omega.shape)


def log_of(omega: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(omega)

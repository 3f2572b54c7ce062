"""Random designs, each drawn again from its family and its seed: what the oracle is asked about.

A family says what is hard about its designs, not how they must end: whether a design can be solved follows from its
matrix alone (tests/judging.py). Rows and states are shuffled last, so that no order is a help.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

Rng = np.random.Generator


@dataclass(frozen=True)
class Design:
    """A pool of biased samples, as it is given to the package.

    ``columns`` says that the biases go in one by one, through vardi.debias, and not as a matrix.
    """

    family: str
    seed: int
    omega: Any
    source: np.ndarray
    counts: np.ndarray | None = None
    log: bool = False
    columns: bool = False

    def __str__(self) -> str:
        n, K = self.omega.shape
        how = "columns" if self.columns else type(self.omega).__name__
        return f"design({self.family!r}, {self.seed}): n = {n}, K = {K}, {how}, log = {self.log}"


@dataclass(frozen=True)
class Draft:
    """A design before it is shuffled: logs of the biases where ``log``, and a dense array in any case."""

    values: np.ndarray
    source: np.ndarray
    counts: np.ndarray | None = None
    log: bool = False
    form: str = "dense"


def design(family: str, seed: int) -> Design:
    """Return the design of that family and seed, always the same."""
    rng = np.random.default_rng([*family.encode(), seed])
    draft = FAMILIES[family](rng)
    rows, states = rng.permutation(len(draft.source)), rng.permutation(draft.values.shape[1])
    values = np.ascontiguousarray(draft.values[rows][:, states])
    source = np.argsort(states)[draft.source[rows]]
    counts = None if draft.counts is None else draft.counts[rows]
    return Design(
        family, seed, FORMS[draft.form](values, draft.log), source, counts, draft.log, draft.form == "columns"
    )


# ---------------------------------------------------------------- ways to hold a matrix


def _sparse(values: np.ndarray, log: bool) -> Any:
    """Store what is not zero bias: in logs that is all but -inf, and a log of 0 is stored."""
    row, column = np.nonzero(values != (-np.inf if log else 0.0))
    return sparse.coo_array((values[row, column], (row, column)), shape=values.shape)


FORMS: dict[str, Callable[[np.ndarray, bool], Any]] = {
    "dense": lambda values, log: values,
    "columns": lambda values, log: values,
    "fortran": lambda values, log: np.asfortranarray(values),
    "csr": lambda values, log: sparse.csr_array(_sparse(values, log)),
    "csc": lambda values, log: sparse.csc_matrix(_sparse(values, log)),
    "coo": _sparse,
}


# ---------------------------------------------------------------- parts


def _log(values: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(values)


def _labels(rng: Rng, K: int, n: int) -> np.ndarray:
    """Give each of K samples a row, and the other n - K to samples of unequal size."""
    return np.concatenate([np.arange(K), rng.choice(K, n - K, p=rng.dirichlet(np.full(K, rng.choice([0.3, 2.0]))))])


def _shape(rng: Rng, most: int = 12, rows: int = 150) -> tuple[int, int]:
    K = int(rng.integers(1, most + 1))
    return K, K + int(rng.integers(0, rows))


def _windows(rng: Rng, K: int, n: int, wide: float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of (0, 1) through windows; narrow ones may leave the samples apart."""
    source = _labels(rng, K, n)
    width = rng.uniform(0.1, wide, K)
    low = rng.uniform(0, 1 - width)
    z = rng.uniform(low[source], (low + width)[source])
    return ((z[:, None] >= low) & (z[:, None] <= low + width)).astype(float), source


def _densities(rng: Rng, K: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows from laws with densities everywhere: tilts, powers, or noise."""
    source = _labels(rng, K, n)
    kind = rng.integers(3)
    if kind == 0:
        centre, width = rng.normal(0, 1.5, K), rng.uniform(0.7, 3.0, K)
        z = rng.normal(centre[source] / (1 + width[source] ** 2), 1.0)
        return np.exp(-0.5 * ((z[:, None] - centre) / width) ** 2), source
    if kind == 1:
        power = rng.uniform(-1.0, 3.0, K)
        z = rng.gamma(3.0 + power[source])
        return z[:, None] ** power, source
    return np.exp(rng.normal(0, rng.uniform(0.1, 4.0), (n, K))), source


def _base(rng: Rng, K: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    return _densities(rng, K, n) if rng.random() < 0.5 else _windows(rng, K, n, 0.9)


def _holes(rng: Rng, omega: np.ndarray, source: np.ndarray, share: float) -> np.ndarray:
    """Forbid a share of what other samples' biases allow."""
    keep = rng.random(omega.shape) >= share
    keep[np.arange(len(source)), source] = True
    return np.where(keep, omega, 0.0)


def _groups(rng: Rng, one_way: bool) -> tuple[np.ndarray, np.ndarray]:
    """Join groups that hold together: not at all, or by biases of the first that allow rows of the second only."""
    sizes = rng.integers(1, 6, int(rng.integers(2, 5)))
    starts, K = np.cumsum(sizes) - sizes, int(sizes.sum())
    group = np.repeat(np.arange(len(sizes)), sizes)
    source = _labels(rng, K, K + int(rng.integers(0, 100)))
    allowed = group[source][:, None] == group
    if one_way:
        allowed |= (group[source][:, None] > group) & (rng.random((len(source), K)) < 0.3)
        for g in range(1, len(sizes)):  # one row at least
            allowed[np.flatnonzero(source == starts[g])[0], starts[g - 1]] = True
    omega = np.exp(rng.normal(0, 1.0, (len(source), K))) if rng.random() < 0.5 else np.ones((len(source), K))
    return np.where(allowed, omega, 0.0), source


def _frequencies(rng: Rng, source: np.ndarray) -> np.ndarray:
    """Return counts with zeros, over up to six orders of magnitude; no sample is left without any."""
    kind = rng.integers(4)
    counts = [
        rng.integers(0, 5, len(source)).astype(float),
        np.ceil(rng.exponential(10.0, len(source))),
        np.ceil(10.0 ** rng.uniform(0, 6, len(source))),
        rng.integers(0, 2, len(source)) * rng.integers(1, 10**6, len(source)).astype(float),
    ][kind]
    counts[rng.random(len(source)) < rng.choice([0.0, 0.3])] = 0.0
    first = np.unique(source, return_index=True)[1]
    counts[first] = np.maximum(counts[first], 1.0)
    return counts


def _more_states(rng: Rng, omega: np.ndarray) -> np.ndarray:
    """Add states that no sample was drawn from: anywhere, on some rows, on one, or on none at all."""
    n = len(omega)
    extra = []
    for _ in range(int(rng.integers(1, 5))):
        value = np.exp(rng.normal(0, 2.0, n))
        value[rng.random(n) < rng.choice([0.0, 0.5, 1.0], p=[0.6, 0.3, 0.1])] = 0.0
        extra.append(value)
    return np.column_stack([omega, *extra])


# ---------------------------------------------------------------- families


def _indicator(rng: Rng) -> Draft:
    omega, source = _windows(rng, *_shape(rng))
    return Draft(omega, source, form=rng.choice(["dense", "fortran", "columns", "csr"]))


def _continuous(rng: Rng) -> Draft:
    omega, source = _densities(rng, *_shape(rng))
    return Draft(omega, source, form=rng.choice(["dense", "fortran", "columns"]))


def _sparse_family(rng: Rng) -> Draft:
    K, n = _shape(rng, 40, 250)
    omega = np.exp(rng.normal(0, rng.choice([0.0, 1.0]), (n, K)))
    source = _labels(rng, K, n)
    omega = _holes(rng, omega, source, rng.uniform(0.4, 0.98))
    log = bool(rng.random() < 0.4)
    return Draft(_log(omega) if log else omega, source, log=log, form=rng.choice(["csr", "csc", "coo"]))


def _log_domain(rng: Rng) -> Draft:
    """Logs that spread over hundreds and thousands: umbrellas, offsets of states and of rows, zeros."""
    K, n = _shape(rng, 15, 150)
    source = _labels(rng, K, n)
    spacing = rng.uniform(0.3, 3.0)
    x = rng.normal(spacing * source, 1.0)
    log_omega = -0.5 * (x[:, None] - spacing * np.arange(K)) ** 2
    log_omega = log_omega + rng.normal(0, rng.choice([0.0, 100.0, 1000.0]), K)
    log_omega = log_omega + rng.normal(0, rng.choice([0.0, 100.0, 700.0]), n)[:, None]
    if rng.random() < 0.3:
        log_omega += rng.normal(0, rng.uniform(0.0, 5.0), (n, K))
    if rng.random() < 0.4:
        log_omega = _log(_holes(rng, np.ones((n, K)), source, rng.uniform(0.0, 0.6))) + log_omega
    return Draft(log_omega, source, log=True, form=rng.choice(["dense", "fortran", "csr"]))


def _chain(rng: Rng) -> Draft:
    """Windows in a row, each sharing one row with the next, either way; the shared row may be all but forbidden."""
    K, per = int(rng.integers(2, 41)), int(rng.integers(1, 30))
    per = max(per, 2)
    source = np.repeat(np.arange(K), per)
    omega = np.zeros((K * per, K))
    omega[np.arange(K * per), source] = np.exp(rng.normal(0, rng.choice([0.0, 1.0]), K * per))
    strength = 10.0 ** -rng.uniform(0, rng.choice([0.0, 2.0, 4.0]), (2, K))
    for k in range(K - 1):
        omega[k * per, k + 1] = strength[0, k]
        omega[(k + 2) * per - 1, k] = strength[1, k]
    return Draft(omega, source, form=rng.choice(["dense", "csr", "columns"]))


def _faint(rng: Rng) -> Draft:
    """Groups that hold together well, joined by rows whose other bias is all but zero: a gap down to nothing."""
    omega, source = _groups(rng, one_way=False)
    own = omega[np.arange(len(source)), source]
    exponent = rng.uniform(0, rng.choice([2.0, 5.0, 10.0, 16.0, 24.0]))
    link = own[:, None] * 10.0 ** -(exponent * rng.uniform(0.5, 1.0, omega.shape))
    link[rng.random(omega.shape) < rng.choice([0.0, 0.8])] = 0.0
    return Draft(np.where(omega > 0, omega, link), source)


def _wide(rng: Rng) -> Draft:
    """Weights over 12 orders of magnitude and more: a factor of all biases of a row goes into its weight."""
    K, n = _shape(rng, 8, 150)
    omega, source = _base(rng, K, n + 2)
    factor = 10.0 ** rng.uniform(-7, 7, n + 2)
    factor[:2] = 1e-7, 1e7
    log = bool(rng.random() < 0.3)
    omega = omega * factor[:, None]
    return Draft(
        _log(omega) if log else omega, source, log=log, form=rng.choice(["dense", "csr", "columns"][: 3 - log])
    )


def _many(rng: Rng) -> Draft:
    K = 300 if rng.random() < 0.2 else int(rng.integers(60, 301))
    n = K * int(rng.integers(1, 4)) + int(rng.integers(0, 200))
    if rng.random() < 0.4:
        omega, source = _windows(rng, K, n, 0.3)
    elif rng.random() < 0.5:
        omega, source = _densities(rng, K, n)
    else:
        source = _labels(rng, K, n)
        omega = _holes(rng, np.exp(rng.normal(0, 1, (n, K))), source, rng.uniform(0.5, 0.97))
    return Draft(omega, source, form=rng.choice(["dense", "csr", "columns"]))


def _ties(rng: Rng) -> Draft:
    """Few kinds of rows, many of each, so that they are collapsed; some kinds differ in the last bit."""
    K, n = int(rng.integers(1, 9)), int(rng.integers(200, 12_000))
    kinds, labels = _base(rng, K, K + int(rng.integers(1, 20)))
    if rng.random() < 0.5:
        kinds = np.vstack([kinds, np.nextafter(kinds, np.where(kinds > 0, np.inf, 0.0))])
        labels = np.tile(labels, 2)
    pick = np.concatenate([np.arange(len(labels)), rng.integers(0, len(labels), n)])
    counts = _frequencies(rng, labels[pick]) if rng.random() < 0.3 else None
    log = bool(rng.random() < 0.3)
    values = _log(kinds[pick]) if log else kinds[pick]
    return Draft(values, labels[pick], counts, log, rng.choice(["dense", "csr", "fortran"]))


def _counts(rng: Rng) -> Draft:
    omega, source = _base(rng, *_shape(rng))
    return Draft(omega, source, _frequencies(rng, source), form=rng.choice(["dense", "columns", "csr"]))


def _unsampled(rng: Rng) -> Draft:
    omega, source = _base(rng, *_shape(rng, 8))
    return Draft(_more_states(rng, omega), source, form=rng.choice(["dense", "columns", "csr"]))


def _disconnected(rng: Rng) -> Draft:
    return Draft(*_groups(rng, one_way=False), form=rng.choice(["dense", "csr", "columns"]))


def _one_way(rng: Rng) -> Draft:
    return Draft(*_groups(rng, one_way=True), form=rng.choice(["dense", "csr", "columns"]))


def _impossible(rng: Rng) -> Draft:
    """Rows that their own bias forbids, or that no bias covers."""
    omega, source = _base(rng, *_shape(rng))
    bad = rng.choice(len(source), int(rng.integers(1, min(len(source), 30) + 1)), replace=False)
    omega[bad, source[bad]] = 0.0
    if rng.random() < 0.3:
        omega[bad] = 0.0
    log = bool(rng.random() < 0.3)
    return Draft(
        _log(omega) if log else omega, source, log=log, form=rng.choice(["dense", "csr", "columns"][: 3 - log])
    )


def _invalid(rng: Rng) -> Draft:
    """Biases that are negative, infinite or not numbers, and counts that are."""
    draft = _counts(rng) if rng.random() < 0.5 else _continuous(rng)
    if draft.counts is not None and rng.random() < 0.3:
        counts = draft.counts.copy()
        counts[rng.choice(len(counts), 1 + len(counts) // 20)] = rng.choice([-1.0, np.nan, np.inf])
        return replace(draft, counts=counts)
    log = bool(rng.random() < 0.3)
    values = _log(draft.values) if log else draft.values.copy()
    counted = np.arange(len(values)) if draft.counts is None else np.flatnonzero(draft.counts)
    row = rng.choice(counted, int(rng.integers(1, 15)))
    column = rng.integers(0, values.shape[1], len(row))
    values[row, column] = rng.choice([np.nan, np.inf] if log else [np.nan, np.inf, -1.0, -np.inf], len(row))
    return replace(draft, values=values, log=log, form=rng.choice(["dense", "csr", "columns"][: 3 - log]))


def _mixture(rng: Rng) -> Draft:
    """Several of these at once."""
    kind = rng.integers(4)
    if kind == 0:
        omega, source = _groups(rng, one_way=bool(rng.random() < 0.5))
        link = rng.random(omega.shape) < rng.choice([0.0, 0.02, 0.3])
        omega = np.where(link & (omega == 0), 10.0 ** -rng.uniform(0, 6), omega)
    else:
        omega, source = _base(rng, *_shape(rng, 20, 200))
    omega = _holes(rng, omega, source, rng.choice([0.0, 0.2, 0.6]))
    omega = omega * 10.0 ** rng.uniform(-5, 5, (len(source), 1)) * 10.0 ** rng.uniform(-20, 20, omega.shape[1])
    if rng.random() < 0.5:
        omega = _more_states(rng, omega)
    if rng.random() < 0.4:
        again = np.concatenate([np.arange(len(source)), rng.integers(0, len(source), 3 * len(source))])
        omega, source = omega[again], source[again]
    counts = _frequencies(rng, source) if rng.random() < 0.5 else None
    if rng.random() < 0.05 and counts is not None:
        counts[source == source[0]] = 0.0
    if rng.random() < 0.05:
        omega[int(rng.integers(len(source)))] = 0.0
    if rng.random() < 0.5:
        offset = rng.normal(0, rng.choice([0.0, 300.0]), omega.shape[1])
        return Draft(_log(omega) + offset, source, counts, True, rng.choice(["dense", "csr"]))
    return Draft(omega, source, counts, False, rng.choice(["dense", "columns", "csr", "coo"]))


def _large(rng: Rng) -> Draft:
    """Enough numbers for a start from a subsample."""
    K = int(rng.integers(2, 25))
    n = int(rng.integers(210_000, 400_000)) // K
    omega, source = _base(rng, K, n)
    counts = _frequencies(rng, source) if rng.random() < 0.3 else None
    log = bool(rng.random() < 0.5)
    return Draft(_log(omega) if log else omega, source, counts, log, rng.choice(["dense", "csr"]))


FAMILIES: dict[str, Callable[[Rng], Draft]] = {
    "indicator": _indicator,
    "continuous": _continuous,
    "sparse": _sparse_family,
    "log domain": _log_domain,
    "chain": _chain,
    "faint": _faint,
    "wide weights": _wide,
    "many samples": _many,
    "ties": _ties,
    "counts": _counts,
    "unsampled": _unsampled,
    "disconnected": _disconnected,
    "one way": _one_way,
    "impossible": _impossible,
    "invalid": _invalid,
    "mixture": _mixture,
    "large": _large,
}

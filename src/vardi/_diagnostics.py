r"""What the debiased sample rests on: effective sizes, overlap, who carries the weight, what to collect next.

With :math:`V` the variance of an expectation and :math:`\phi` its influence values, one more row of sample k changes
V by

.. math:: \frac{\partial V}{\partial n_k} = -\frac{1}{n^2} \operatorname{Var}_{P_k}(\phi).

The estimator is efficient, so its influence values minimise :math:`\sum_k \operatorname{Var}_{P_k}(h_k) / n_k` over all
that are unbiased, and to first order a change of n_k leaves the minimising :math:`h_k = \lambda_k \phi` alone. It holds
for states that no sample was drawn from, too.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from scipy import sparse

from vardi._identify import Verdict, widest_tree
from vardi._influence import Influence
from vardi._pool import Name, cut
from vardi._sums import Floats
from vardi._trust import CARRIES, Trust

if TYPE_CHECKING:
    from vardi._sample import DebiasedSample

LARGEST = 10
MOST_SAMPLES = 20  # samples shown in the text; the value has all of them
CONSTANT = 1e-12  # spread of a column, relative to the size of its values, up to which it is rounding alone
MANY = 3000  # samples from which their overlap is a sparse array


@dataclass(frozen=True)
class SampleDiagnostics:
    """One bias, and what its sample brings.

    Attributes
    ----------
    name : hashable
        Its name.
    rows : float
        How many (counted) rows.
    share : float
        lambda_k, its share of the pool.
    weight_share : float
        Its share of the weight.
    effective : float
        Kish's effective number of its rows.
    largest_weight : float
        The largest weight of one of its rows; NaN without rows.
    """

    name: Name
    rows: float
    share: float
    weight_share: float
    effective: float
    largest_weight: float


@dataclass(frozen=True)
class ColumnDiagnostics:
    """One column, before and after.

    Attributes
    ----------
    name : str
        The column.
    pooled, debiased : float
        Its mean over the pool, and over the population.
    stderr : float
        Standard error of the latter; NaN where none can be given.
    difference : float
        The shift from pool to population, in standard deviations of the population.
    equivalent : float
        Rows of a sample without bias that would give the same error.
    design_effect : float
        n V / Var: how many times as large the variance is as that of n rows without bias.
    largest_row : float
        Share of the variance that a single row carries.
    gain : dict
        For each bias, by how much V falls with one more row of its sample, relative to V.
    """

    name: str
    pooled: float
    debiased: float
    stderr: float
    difference: float
    equivalent: float
    design_effect: float
    largest_row: float
    gain: dict[Name, float]

    @property
    def collect_next(self) -> Name:
        """The bias whose next row helps this column most."""
        return max(self.gain, key=lambda name: self.gain[name])


@dataclass(frozen=True)
class Diagnostics:
    """All diagnostics of a fit.

    Attributes
    ----------
    rows, effective : float
        How many (counted) rows, and Kish's effective number, 1 / sum pi_i^2.
    samples : tuple of SampleDiagnostics
        By bias.
    columns : tuple of ColumnDiagnostics
        By numeric column.
    overlap : ndarray of shape (K, K)
        O_kl = (1/n_k) sum_i p_ik p_il of the sampled biases; rows sum to 1. A sparse array for thousands of samples,
        and of shape (0, 0) where rows that each allow many of them leave it unformed.
    second_eigenvalue : float
        Its second largest eigenvalue; at 1 the samples fall apart.
    largest : tuple of (int, float)
        Position in the pool and weight of the rows with the largest weights.
    trust : Trust
        Bridging rows over the weakest cut, and the tail of the weights.
    verdict : Verdict
        Links between samples; ``weakest_rows`` is the distance from non-identifiability, in rows.
    disconnection : float
        Bound on the probability that other samples of the same sizes would not be identified.
    """

    rows: float
    effective: float
    samples: tuple[SampleDiagnostics, ...]
    columns: tuple[ColumnDiagnostics, ...]
    overlap: Any = field(repr=False)
    second_eigenvalue: float
    largest: tuple[tuple[int, float], ...] = field(repr=False)
    trust: Trust = field(repr=False)
    verdict: Verdict = field(repr=False)
    disconnection: float

    @property
    def warnings(self) -> tuple[str, ...]:
        """All that should be said before the numbers are used; empty where all is well."""
        single = [f"{c.name!r} ({c.largest_row:.0%})" for c in self.columns if c.largest_row > CARRIES]
        if not single:
            return self.trust.messages
        return (
            *self.trust.messages,
            f"One row carries much of the variance of {', '.join(single)}: errors rest on it.",
        )

    def to_frame(self, backend: Any = "pandas") -> Any:
        """Return all numbers in one tidy frame: part, name, measure, value."""
        records: list[tuple[str, str, str, float]] = [
            ("fit", "", "rows", self.rows),
            ("fit", "", "effective", self.effective),
            ("fit", "", "second_eigenvalue", self.second_eigenvalue),
            ("fit", "", "bridging", self.trust.bridging),
            ("fit", "", "tail_index", self.trust.tail_index),
            ("fit", "", "kappa", self.verdict.kappa),
            ("fit", "", "weakest_rows", self.verdict.weakest_rows),
            ("fit", "", "disconnection", self.disconnection),
        ]
        for sample in self.samples:
            records += _records("sample", sample)
        for column in self.columns:
            records += _records("column", column)
            records += [("column", column.name, f"gain of {name}", gain) for name, gain in column.gain.items()]
        parts, names, measures, values = zip(*records, strict=True)
        data = {"part": list(parts), "name": list(names), "measure": list(measures), "value": list(values)}
        return nw.from_dict(data, backend=backend).to_native()

    def _overlap(self) -> list[str]:
        bridging = f"bridging rows       {self.trust.bridging:,.1f} over the weakest cut"
        if len(self.verdict.groups) > 1:  # joined by known shares
            within = [f"{bridging} within a group"] if np.isfinite(self.trust.bridging) else []
            return [
                *within,
                f"overlap             none between {len(self.verdict.groups)} groups: known shares join them",
            ]
        return [
            bridging,
            f"overlap             second eigenvalue {self.second_eigenvalue:.4f}, kappa {self.verdict.kappa:.4g}",
            f"weakest link        {self.verdict.weakest_rows:g} rows",
        ]

    def summary(self) -> str:
        """Return the diagnostics as text in at most 80 columns."""
        lines = [
            f"effective rows      {self.effective:,.1f} of {self.rows:,.0f}",
            *self._overlap(),
            "",
            f"{'sample':<20} {'rows':>10} {'of pool':>9} {'of weight':>9} {'effective':>10} {'largest':>9}",
        ]
        lines += [
            f"{cut(str(s.name), 20):<20} {s.rows:>10,.0f} {s.share:>9.1%} {s.weight_share:>9.1%} {s.effective:>10,.1f} "
            f"{s.largest_weight:>9.3g}"
            for s in self.samples[:MOST_SAMPLES]
        ]
        if len(self.samples) > MOST_SAMPLES:
            lines.append(f"... and {len(self.samples) - MOST_SAMPLES} more")
        if self.columns:
            lines += [
                "",
                f"{'mean of':<16} {'pool':>9} {'population':>11} {'error':>8} {'shift':>7} {'worth':>7}  next",
            ]
            lines += [
                f"{cut(c.name, 16):<16} {c.pooled:>9.4g} {c.debiased:>11.4g} {c.stderr:>8.2g} {c.difference:>7.2f} "
                f"{c.equivalent:>7,.0f}  {cut(str(c.collect_next), 14)}"
                for c in self.columns
            ]
            lines.append("(shift in standard deviations, worth in rows without bias, next to collect)")
        for warning in self.warnings:
            lines += ["", *textwrap.wrap(warning, 80)]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()


def _records(part: str, line: SampleDiagnostics | ColumnDiagnostics) -> list[tuple[str, str, str, float]]:
    measures = [one.name for one in fields(line) if one.name not in ("name", "gain")]
    return [(part, str(line.name), measure, float(getattr(line, measure))) for measure in measures]


def diagnose(fit: DebiasedSample, columns: Sequence[str]) -> Diagnostics:
    """Compute the diagnostics of a fit, for some columns."""
    influence = fit._influence
    weights = influence.weights
    verdict = fit.identify()
    overlap, second = _overlap(influence)
    values = np.column_stack([fit._values(name) for name in columns]) if columns else np.empty((len(weights), 0))
    order = np.argsort(fit._weights)[::-1][:LARGEST]
    counted = _counted(influence)
    return Diagnostics(
        rows=influence.n,
        effective=_kish(weights, counted),
        samples=_samples(influence, fit.names),
        columns=tuple(_columns(fit, columns, values)),
        overlap=overlap,
        second_eigenvalue=second,
        largest=tuple((int(row), float(fit._weights[row])) for row in order),
        trust=fit.trust,
        verdict=verdict,
        disconnection=_disconnection(influence, verdict),
    )


def _counted(influence: Influence) -> Floats:
    counts = influence.strata.counts
    return np.ones(len(influence.strata.source)) if counts is None else counts


def _kish(weights: Floats, counts: Floats) -> float:
    return float((counts @ weights) ** 2 / (counts @ weights**2)) if len(weights) else 0.0


def _overlap(influence: Influence) -> tuple[Any, float]:
    sampled = influence.sampled
    sizes = influence.rows.sizes[sampled]
    gram = influence.laplacian.gram
    if callable(gram):
        return np.empty((0, 0)), 1.0 - influence.laplacian.gap()[0]
    if not isinstance(gram, np.ndarray):
        gram = gram.toarray() if len(sizes) <= MANY else gram
    overlap = gram / sizes[:, None] if isinstance(gram, np.ndarray) else sparse.diags_array(1.0 / sizes) @ gram
    return overlap, 1.0 - influence.laplacian.gap()[0]


def _samples(influence: Influence, names: Sequence[Name]) -> tuple[SampleDiagnostics, ...]:
    source, weights, counts = influence.strata.source, influence.weights, _counted(influence)
    sizes = influence.rows.sizes
    mass = np.bincount(source, counts * weights, minlength=len(names))
    squares = np.bincount(source, counts * weights**2, minlength=len(names))
    largest = np.full(len(names), -np.inf)
    np.maximum.at(largest, source, weights)
    effective = np.divide(mass**2, squares, out=np.zeros(len(names)), where=squares > 0)
    columns = (sizes, sizes / influence.n, mass / influence.n, effective, np.where(sizes > 0, largest, np.nan))
    return tuple(
        SampleDiagnostics(name, *values)
        for name, *values in zip(names, *(column.tolist() for column in columns), strict=True)
    )


def _columns(fit: DebiasedSample, names: Sequence[str], values: Floats) -> list[ColumnDiagnostics]:
    if not names:
        return []
    influence = fit._influence
    counts, weights = _counted(influence), influence.weights
    eta, phi = influence.of(values)
    estimates = influence.estimates(values, 0.95, trusted=True)
    centred = influence.strata.centred(phi)
    tilts = fit._tilts(fit._log_omegas) * (counts / influence.n)[:, None]
    out = []
    for j, name in enumerate(names):
        mass, pooled = counts * weights / influence.n, float(counts @ values[:, j] / influence.n)
        variance = float(mass @ (values[:, j] - eta[j]) ** 2)
        constant = np.sqrt(variance) <= CONSTANT * float(mass @ np.abs(values[:, j]))
        V, variance = (0.0, 0.0) if constant else (float(estimates.covariance[j, j]), variance)
        means = tilts.T @ phi[:, j]
        within = np.maximum(tilts.T @ phi[:, j] ** 2 - means**2, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            gains = np.where(V > 0, within / influence.n**2 / V, 0.0)
            out.append(
                ColumnDiagnostics(
                    name,
                    pooled,
                    float(eta[j]),
                    float(np.sqrt(V)) if fit.trust.errors_hold else np.nan,
                    0.0 if constant else float((eta[j] - pooled) / np.sqrt(variance)),
                    float(np.divide(variance, V)),
                    float(np.divide(influence.n * V, variance)),
                    float(np.divide((centred[:, j] ** 2).max(), V)),
                    dict(zip(fit.names, gains.tolist(), strict=True)),
                )
            )
    return out


def _disconnection(influence: Influence, verdict: Verdict) -> float:
    r"""Return :math:`\sum (1 - q_{kl})^{n_l}` over a tree, both ways; q_kl is the share of sample l that k allows."""
    sizes = influence.rows.sizes[influence.sampled]
    if len(sizes) == 1:
        return 0.0
    # q_kl by the rows of sample l itself, which the tilts reproduce on average
    both = verdict.reach.minimum(verdict.reach.T)
    tree = widest_tree(both)
    if tree.nnz < len(sizes) - len(verdict.groups):
        return 1.0  # no tree of two-way links: the bound says nothing
    k, l = tree.row, tree.col
    forward = np.asarray(verdict.reach[k, l]).ravel() / sizes[l]
    backward = np.asarray(verdict.reach[l, k]).ravel() / sizes[k]
    with np.errstate(divide="ignore"):
        bound = np.exp(sizes[l] * np.log1p(-forward)).sum() + np.exp(sizes[k] * np.log1p(-backward)).sum()
    return float(min(bound, 1.0))

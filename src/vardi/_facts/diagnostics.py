"""What the debiased sample rests on: effective sizes, overlap, how the weight is spread, what to collect next."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vardi._estimate.reliability import Trust
from vardi._estimate.tables import Record, Tabular
from vardi._facts.account import SampleFacts, normalisers_of, samples_of, trust_of
from vardi._facts.columns import ColumnFacts
from vardi._facts.links import sampled_gram
from vardi._rows.grouping import widest_tree
from vardi._solve.identify import Verdict
from vardi._tables import Facts, Note, Part, Shown, Table
from vardi._types import Floats
from vardi.errors import WeakOverlapWarning
from vardi.errors._texts import LISTED

if TYPE_CHECKING:
    from vardi._fit.sample import DebiasedSample

SAMPLES = ("sample", "rows", "of pool", "of weight", "effective", "largest")
OF_A_SAMPLE = {
    "rows": "{:,.0f}",
    "share": "{:.1%}",
    "weight_share": "{:.1%}",
    "effective": "{:,.1f}",
    "largest_weight": "{:.3g}",
}
"""What is shown of a sample, and how."""
COLUMNS = ("mean of", "pool", "population", "error", "shift", "worth", "next")
COLUMNS_MEAN = "shift in standard deviations, worth in rows without bias, next to collect"
OF_A_COLUMN = ("pooled", "debiased", "stderr", "difference", "equivalent", "design_effect", "df", "tail_index")


@dataclass(frozen=True)
class Diagnostics(Shown, Tabular):
    """All diagnostics of a fit.

    Attributes
    ----------
    rows, effective : float
        How many (counted) rows, and Kish's effective number, 1 / sum pi_i^2.
    samples : tuple of SampleFacts
        By bias.
    columns : tuple of ColumnFacts
        By numeric column.
    overlap : ndarray of shape (K, K)
        O_kl = (1/n_k) sum_i p_ik p_il of the sampled biases; rows sum to 1. A sparse array for thousands of samples,
        and of shape (0, 0) if it was not formed because many of them allow each row.
    second_eigenvalue : float
        Its second largest eigenvalue; at 1 the samples are disconnected.
    largest : tuple of (int, float)
        Position in the pool and weight of the rows with the largest weights.
    trust : Trust
        What the errors rest on, and the rows that bridge the smallest cut.
    verdict : Verdict
        Links between samples; ``weakest_rows`` is the distance from non-identifiability, in rows.
    disconnection : float
        Bound on the probability that other samples of the same sizes would not be identified.
    """

    rows: float
    effective: float
    samples: tuple[SampleFacts, ...]
    columns: tuple[ColumnFacts, ...]
    overlap: Any = field(repr=False)
    second_eigenvalue: float
    largest: tuple[tuple[int, float], ...] = field(repr=False)
    trust: Trust = field(repr=False)
    verdict: Verdict = field(repr=False)
    disconnection: float

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before the numbers are used; empty if all is well."""
        return self.trust.messages

    def _records(self) -> list[Record]:
        """Return a row for each number: part, name, measure, value."""
        of_fit = (
            (self, ("rows", "effective", "second_eigenvalue")),
            (self.trust, ("df", "bridging", "tail_index")),
            (self.verdict, ("kappa", "weakest_rows")),
            (self, ("disconnection",)),
        )
        records = [("fit", "", measure, getattr(one, measure)) for one, measures in of_fit for measure in measures]
        for sample in self.samples:
            records += [("sample", str(sample.name), measure, getattr(sample, measure)) for measure in OF_A_SAMPLE]
        for column in self.columns:
            records += [("column", column.name, measure, getattr(column, measure)) for measure in OF_A_COLUMN]
            records += [("column", column.name, f"gain of {name}", gain) for name, gain in column.gain.items()]
        return [dict(zip(("part", "name", "measure", "value"), record, strict=True)) for record in records]

    def _overlap(self) -> dict[str, str]:
        bridging, groups = f"{self.trust.bridging:,.1f} over the weakest cut", self.verdict.groups
        if len(groups) > 1:  # joined by known values
            within = {"bridging rows": f"{bridging} within a group"} if np.isfinite(self.trust.bridging) else {}
            return {**within, "overlap": f"none between {len(groups)} groups: known values join them"}
        return {
            "bridging rows": bridging,
            "overlap": f"second eigenvalue {self.second_eigenvalue:.4f}, kappa {self.verdict.kappa:.4g}",
            "weakest link": f"{self.verdict.weakest_rows:g} rows",
        }

    def _parts(self) -> list[Part]:
        return [
            Facts({"effective rows": f"{self.effective:,.1f} of {self.rows:,.0f}", **self._overlap()}),
            Table(SAMPLES, self.samples, _sample_cells, "samples"),
            Table(COLUMNS, self.columns, _column_cells, "columns", texts=(0, 6), beneath=f"({COLUMNS_MEAN})"),
            *(Note("doubt:", warning) for warning in self.warnings),
        ]


def _sample_cells(sample: SampleFacts) -> tuple[str, ...]:
    return str(sample.name), *(text.format(getattr(sample, measure)) for measure, text in OF_A_SAMPLE.items())


def _column_cells(column: ColumnFacts) -> tuple[str, ...]:
    return (
        column.label,
        _short(column.pooled, 4),
        _short(column.debiased, 4),
        _short(column.stderr, 2),
        f"{column.difference:.2f}",
        f"{column.equivalent:,.0f}",
        str(column.collect_next),
    )


def _short(value: float, digits: int) -> str:
    """Return a number to so many digits; with more of them before powers of ten are needed.

    >>> _short(41959.2, 4), _short(782.4, 2), _short(0.012764, 4), _short(2.5e7, 4)
    ('41,959', '782', '0.01276', '2.5e+07')
    """
    return f"{value:,.0f}" if 10**digits <= abs(value) < 1e6 else f"{value:.{digits}g}"


def diagnose(fit: DebiasedSample, columns: Sequence[str]) -> Diagnostics:
    """Compute the diagnostics of a fit, for some columns."""
    parts, verdict = fit.parts, fit.identify()
    sums, (sizes, gram) = parts.weight_sums(), sampled_gram(fit)
    given = parts.given()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakOverlapWarning)  # the diagnostics have it as a message
        described = parts.describe([parts.column(name, name) for name in columns], gains=True) if columns else ()
        normalisers, _, _ = normalisers_of(fit, given)
    return Diagnostics(
        rows=float(sizes.sum()),
        effective=sums.effective,
        samples=samples_of(fit, given, sums, normalisers),
        columns=described,
        overlap=gram.over(sizes),
        second_eigenvalue=1.0 - fit.solution.gap,
        largest=tuple((row, weight) for row, _, weight in parts.largest_weights(LISTED)),
        trust=trust_of(fit, normalisers, described),
        verdict=verdict,
        disconnection=_disconnection(sizes, verdict),
    )


def _disconnection(sizes: Floats, verdict: Verdict) -> float:
    r"""Return :math:`\sum (1 - q_{kl})^{n_l}` over a tree, both ways; q_kl is the share of sample l that k allows."""
    # q_kl is estimated from the rows of sample l itself, which the tilts reproduce on average
    both = verdict.reach.minimum(verdict.reach.T)
    tree = widest_tree(both)
    if tree.nnz < len(sizes) - len(verdict.groups):
        return 1.0  # no tree of two-way links: the bound is vacuous
    k, l = tree.row, tree.col
    forward = np.asarray(verdict.reach[k, l]).ravel() / sizes[l]
    backward = np.asarray(verdict.reach[l, k]).ravel() / sizes[k]
    with np.errstate(divide="ignore"):
        bound = np.exp(sizes[l] * np.log1p(-forward)).sum() + np.exp(sizes[k] * np.log1p(-backward)).sum()
    return float(min(bound, 1.0))

"""What accounts ask of rows in an engine: see :class:`vardi._facts.parts.Parts`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from vardi._estimate.cdf import Band
from vardi._facts.choice import MOST_NUMERIC, note_on
from vardi._facts.columns import Column, ColumnFacts, ColumnSums
from vardi._facts.parts import Given, ValueTable, WeightSums, WeightTable
from vardi._fit.parts import MemoryParts
from vardi._inputs.pool import Name
from vardi._lazy.influence import as_columns, is_endless
from vardi._refusals import needs_rows
from vardi._rows.engine.asking import schema_of
from vardi._rows.engine.binned import values_in_bins, weights_in_bins
from vardi._rows.engine.lazy_rows import PREFIX, Part
from vardi.errors import NeedsRowsError

if TYPE_CHECKING:
    from vardi._lazy.sample import LazyDebiasedSample

S = nw.col(f"{PREFIX}S")


class EngineParts(MemoryParts):
    """Rows in an engine, of which sums are asked; what the distinct rows in memory can tell is asked of them."""

    def __init__(self, fit: LazyDebiasedSample) -> None:
        super().__init__(fit)
        self._lazy, self._parts, self._u = fit, fit._lazy.parts, fit.solution.u

    def given(self) -> Given:
        counted, labelled = any(part.counted for part in self._parts), self._parts[0].label is not None
        unasked = self._columns["numeric"]
        return replace(super().given(), is_counted=counted, is_labelled=labelled, costs=0, unasked=unasked)

    def weight_sums(self) -> WeightSums:
        if self._is_collapsed:
            return super().weight_sums()
        found = np.zeros((3, len(self._pool.names)))
        for part in self._parts:
            terms = {"mass": (part.count / S).sum(), "squares": (part.count / S / S).sum(), "largest": (1.0 / S).max()}
            for code, row in part.by_sample(terms, self._u):
                found[:, code] = [row[name] for name in terms]
        return WeightSums(*found)

    def weight_table(self) -> WeightTable:
        return super().weight_table() if self._is_collapsed else WeightTable(*weights_in_bins(self._parts, self._u))

    def largest_weights(self, most: int) -> list[tuple[int, Name, float]]:
        return []

    def column(self, name: str, values: Any) -> Column:
        if not isinstance(values, str):
            raise needs_rows("An expectation of values that are not columns")
        return Column(name, values)

    def choose(self) -> tuple[tuple[Column, ...], str]:
        numeric, conditions = self._columns["numeric"], self._columns["conditions"]
        gaps = self._gaps((*numeric, *conditions))
        whole = [name for name in numeric if name not in gaps]
        columns = [*whole[:MOST_NUMERIC], *(name for name in conditions if name not in gaps)]
        left_out = {"missing or infinite values": gaps, "text: write a condition in variables=": self._columns["texts"]}
        return tuple(Column(name, name) for name in columns), note_on(whole, left_out)

    def describe(self, columns: Sequence[Column], *, gains: bool = False) -> tuple[ColumnFacts, ...]:
        """Ask for eta and b by two queries, and by a third for all sums and extremes of f and phi within samples."""
        fit, sizes, texts = self._lazy, self._rows.sizes, [column.values for column in columns]
        compiled = {id(part): fit._functions(part, texts) for part in self._parts}
        eta, phi_of = fit._influence.phi(lambda part: compiled[id(part)], texts)
        m, n, K = len(texts), float(sizes.sum()), len(sizes) if gains else 0
        sums, ends = np.zeros((len(sizes), 6 + 2 * K, m)), np.zeros((len(sizes), 2, m))
        for part in self._parts:
            added, read = as_columns([*compiled[id(part)], *phi_of(part)])
            laws = [omega * part.count / S for omega in fit._biases_of(part)[:K]]
            own = zip(read[:m], read[m:], eta.tolist(), strict=True)
            terms = [_terms(f, phi, mean, part, laws) for f, phi, mean in own]
            asked = {f"{j}_{place}": term.sum() for j, one in enumerate(terms) for place, term in enumerate(one)}
            asked |= {f"{j}_low": phi.min() for j, phi in enumerate(read[m:])}
            asked |= {f"{j}_high": phi.max() for j, phi in enumerate(read[m:])}
            for code, row in part.by_sample(asked, self._u, added):
                sums[code] = [[row[f"{j}_{place}"] for j in range(m)] for place in range(6 + 2 * K)]
                ends[code] = [[row[f"{j}_{end}"] for j in range(m)] for end in ("low", "high")]
        size = np.maximum(sizes, 1.0)[:, None]
        factor, mean = size / np.maximum(size - 1.0, 1.0) / n**2, sums[:, 4] / size
        carried = np.maximum(sums[:, 5] - sums[:, 4] * mean, 0.0) * factor
        farthest = (np.maximum(ends[:, 1] - mean, mean - ends[:, 0]) ** 2 * factor)[sizes > 0].max(axis=0)
        total, omegas = sums.sum(axis=0) / n, np.exp(fit._log_omegas)[:K, None]
        found = ColumnSums(
            pooled=total[0],
            debiased=eta,
            variance=total[1],
            size=total[2],
            is_share=total[3] == 0.0,
            carried=carried,
            largest=np.divide(farthest, carried.sum(axis=0), out=np.zeros(m), where=carried.sum(axis=0) > 0),
            within=np.maximum(total[6 + K :] / omegas - (total[6 : 6 + K] / omegas) ** 2, 0.0) / n**2,
        )
        return tuple(found.facts([column.name for column in columns], fit.sizes, trusted=fit.trust.errors_hold))

    def value_table(self, column: Column, centre: float, scale: float) -> ValueTable:
        compiled = {id(part): self._lazy._functions(part, [column.values])[0] for part in self._parts}
        return ValueTable(*values_in_bins(self._parts, self._u, lambda part: compiled[id(part)], centre, scale))

    def band(self, column: Column, level: float = 0.95) -> Band | None:
        try:
            return self._lazy.cdf(column.values).band(level)
        except NeedsRowsError:
            return None

    @property
    def _is_collapsed(self) -> bool:
        return len(self._fit._row_weights) > 0

    @cached_property
    def _columns(self) -> dict[str, tuple[str, ...]]:
        """The user's columns that all parts have, by what they hold; of numbers those that the biases read first."""
        schemas = [schema_of(part.frame, part.name) for part in self._parts]
        read = {name for bias in self._pool.biases for name in bias.columns}
        shared = [name for name in schemas[0] if not name.startswith(PREFIX) and all(name in one for one in schemas)]
        shared.sort(key=lambda name: name not in read)
        kinds = {name: {_kind(schema[name]) for schema in schemas} for name in shared}
        return {
            kind: tuple(name for name in kinds if kinds[name] == {kind}) for kind in ("numeric", "conditions", "texts")
        }

    def _gaps(self, names: Sequence[str]) -> list[str]:
        """Return those of some columns in which a value is missing or infinite, by one query for each part."""
        if not names:
            return []
        terms = [is_endless(nw.col(name).cast(nw.Float64)) for name in names]
        found = np.sum([part.sums(None, terms) for part in self._parts], axis=0)
        return [name for name, count in zip(names, found, strict=True) if count]


def _terms(f: nw.Expr, phi: nw.Expr, eta: float, part: Part, laws: Sequence[nw.Expr]) -> list[nw.Expr]:
    """Return what a function is asked for: sums of itself, of its influence values, and of these under each bias."""
    c, r = part.count, part.count / S
    own = [f * c, (f - eta) * (f - eta) * r, f.abs() * r, (f * (1.0 - f)).abs(), phi * c, phi * phi * c]
    return [*own, *(law * phi for law in laws), *(law * phi * phi for law in laws)]


def _kind(dtype: Any) -> str:
    if dtype.is_numeric():
        return "numeric"
    return "conditions" if dtype == nw.Boolean else "texts" if dtype in (nw.String, nw.Categorical, nw.Enum) else ""

"""Replicates of rows that stay in their engine: sums for one Newton step each, and weights as computed columns.

Multipliers are expressions of a hash, so no query stores them, and the rows are read a few times for many replicates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np

from vardi._inputs.engine.aggregates import Aggregate
from vardi._inputs.engine.asking import answering
from vardi._inputs.engine.dependence import SERIES_APART, UNIT
from vardi._inputs.engine.part import PREFIX, Part, with_columns
from vardi._rows.engine.hashing import LEFT, RIGHT, hashed
from vardi._rows.engine.moments import EngineMoments
from vardi._rows.expressions import total
from vardi._rows.engine.weights import with_added
from vardi._rows.multipliers import Multipliers, ReplicateKind, names_of, poisson_thresholds
from vardi._types import Floats
from vardi.errors._refusals import needs_rows

AT_ONCE = 25  # replicates per query: a few hundred sums
NUMBERS_AT_ONCE = 125 * 10**6  # multipliers per query that an engine without streaming may hold
WHAT = "Making replicate weights"
TIMES, SCORE, MEMBER, CHANGE = (f"{PREFIX}{what}_{{}}" for what in ("times", "score", "member", "change"))
GROUP, ALL = f"{PREFIX}group", "all rows"


class EngineReplicates:
    """Frames at a solution whose rows have a hash.

    Parameters
    ----------
    at : EngineMoments
        The rows at the solution.
    kind, n, seed
        Options of the multipliers.
    identity : str or None
        Column that identifies a row; without it the engine's own row number, if it has one.
    lengths : list of int, optional
        Lengths of the batches of successive rows in the series of each sample. All rows of a batch have one
        multiplier, as do those of a cluster of the fit.
    """

    def __init__(
        self,
        at: EngineMoments,
        kind: ReplicateKind,
        n: int,
        seed: Any,
        identity: str | None,
        lengths: list[int] | None = None,
    ) -> None:
        clusters = at.dependence.clusters
        parts = at.parts
        if lengths is not None:
            clusters, parts = UNIT, tuple(_in_batches(at, part, lengths) for part in at.parts)
        elif clusters is None and any(part.counted for part in at.parts):
            raise needs_rows(f"{WHAT}, where rows have counts,")
        elif clusters and len(parts) > 1 and not all(p.schema[clusters].is_integer() for p in parts):
            raise needs_rows(f"{WHAT} of clusters in several frames that are not whole numbers")
        parts = tuple(_with_hash(part, place, n, seed, identity, clusters) for place, part in enumerate(parts))
        self.at = EngineMoments(replace(at.model, parts=parts), at.point.point)
        self.law = Multipliers(kind, n, seed, at.sizes if clusters is None else self._units(clusters))

    def chunks(self) -> Iterator[range]:
        """Yield the replicates that one query covers."""
        size = int(np.clip(NUMBERS_AT_ONCE // max(int(self.at.n), 1), 1, AT_ONCE))
        for low in range(0, self.law.n, size):
            yield range(low, min(low + size, self.law.n))

    def sums(self, replicates: range) -> tuple[Floats, Floats]:
        r"""Return factors that scale each sample to its size, (R, K), and :math:`\sum_i c_i m_i q_i`, (d, R).

        It takes a query for each part. A factor is 0 for a sample without units in a replicate, whose rows then all
        count once.
        """
        at = self.at
        factors = np.zeros((len(replicates), at.coordinates.samples))
        drawn = np.zeros((len(at.coordinates), len(replicates)))
        for part in at.parts:
            scores, places = self._scores(part)
            times = {TIMES.format(r): part.times_count(self._times(part, r)) for r in replicates}
            asked = {ALL: part.rows, **{name: Aggregate(name) for name in times}}
            for j, score in enumerate(scores, 1):
                asked[f"{ALL} {j}"] = Aggregate(part.times_count(nw.col(score)))
                asked |= {f"{name} {j}": Aggregate(nw.col(name) * nw.col(score)) for name in times}
            for code, row in part.by_sample(asked, at.point, with_columns(scores), with_columns(times)):
                for i, name in enumerate(times):
                    factors[i, code] = at.sizes[code] / row[name] if row[name] else 0.0
                    key, factor = (name, factors[i, code]) if row[name] else (ALL, 1.0)
                    found = [row[key], *(row[f"{key} {j}"] for j in range(1, len(places)))]
                    drawn[:, i] += factor * np.array(found, np.float64) @ places
        return factors, drawn

    def moved(self, replicates: range, factors: Floats, deltas: Floats) -> tuple[Floats, Floats]:
        """Return the sum of the weights of each replicate, and how far it moves them: the deviation of x'delta."""
        found = np.zeros((3, len(replicates)))
        for part in self.at.parts:
            changes = {CHANGE.format(r): self._change(deltas[:, i]) for i, r in enumerate(replicates)}
            x = [nw.col(name) for name in changes]
            weights = [self._weight(part, r, factors[i], x[i]) for i, r in enumerate(replicates)]
            terms = [part.times_count(term) for term in (*weights, *x, *(one * one for one in x))]
            found += part.sums(terms, self.at.point, with_columns(changes)).reshape(3, -1)
        _, change, squares = found / self.at.n
        return found[0], np.sqrt(np.maximum(squares - change**2, 0.0))

    def frames(self, factors: Floats, deltas: Floats, totals: Floats, dropped: Sequence[Part]) -> dict[int | None, Any]:
        """Return the user's frames, lazy as they are, with a column of weights and one for each replicate."""
        scale = self.at.n / totals

        def added(part: Part) -> dict[str, nw.Expr]:
            weights = {
                name: self._weight(part, r, factors[r], self._change(deltas[:, r])) * float(scale[r])
                for r, name in enumerate(names_of(self.law.n))
            }
            return {"weight": self.at.point.weight} | weights

        return with_added(self.at, ("weight", *names_of(self.law.n)), added, dropped)

    def _times(self, part: Part, r: int) -> nw.Expr:
        """Return the multiplier of a row, before its sample is scaled to its size."""
        law = self.law
        if law.kind == "jackknife":
            return (nw.col(GROUP) != r).cast(nw.Float64)
        phase = law.phase(nw.col(LEFT), nw.col(RIGHT), r)
        uniform = phase - phase.floor()
        if law.kind == "rows":
            return total([(uniform >= least).cast(nw.Float64) for least in poisson_thresholds().tolist()])
        found = uniform.log() * -1.0
        powers = [(code, float(law.powers[code])) for code in part.codes.values()]
        if all(power == 1.0 for _, power in powers):
            return found
        return total([self._within(part, code, found if power == 1.0 else found**power) for code, power in powers])

    def _weight(self, part: Part, r: int, factors: Floats, change: nw.Expr) -> nw.Expr:
        r"""Return :math:`m_i e^{-x_i'\delta} / S_i`, given the factors that scale samples to their sizes."""
        times = self._times(part, r)
        counted = total(
            [
                self._within(part, code, times * float(factors[code]) if factors[code] else nw.lit(1.0))
                for code in part.codes.values()
            ]
        )
        return counted * self.at.point.weight * (change * -1.0).exp()

    def _within(self, part: Part, code: int, term: nw.Expr) -> nw.Expr:
        """Return a term on the rows of a sample, and 0 on the others of the part."""
        return term if len(part.codes) == 1 else term * nw.col(MEMBER.format(code))

    def _change(self, delta: Floats) -> nw.Expr:
        """Return x'delta."""
        point, at = self.at.point, self.at.coordinates
        terms = [point.x(i) * float(delta[i]) for i in point.active.tolist()]
        if at.uncertain:
            terms.append(point.weight * float(point.weight_of_epsilon @ delta[at.epsilon]))
        return total(terms)

    def _scores(self, part: Part) -> tuple[dict[str, nw.Expr], Floats]:
        r"""Return columns that q consists of, and the coefficients of 1 and of each of them, of shape (1 + columns, d).

        By :math:`\sum_l p_{il} + \mu'(g_i - R\varepsilon)/S_i = 1` the largest sample follows from the others.
        """
        point, at, last = self.at.point, self.at.coordinates, int(np.argmax(self.at.sizes))
        own = {
            at.theta.start + place.start + j: part.only(k, t)
            for k, place in self.at.model.places.items()
            for j, t in enumerate(point.gradient(k))
        }
        less = np.zeros(len(at))  # coefficient of the last sample in each of the others
        less[at.u], less[at.mu] = 1.0, point.mu
        unit = np.eye(len(at))
        columns, places = {}, [unit[last]]
        for i in point.active[point.active != last].tolist():
            mine = own.get(i)
            columns[SCORE.format(i)] = point.x(i) if mine is None else point.x(i) - mine
            places.append(unit[i] - less[i] * unit[last])
        if at.uncertain:
            columns[SCORE.format("r")] = point.weight
            places.append(np.zeros(len(at)))
            places[-1][at.epsilon] = point.weight_of_epsilon
        return columns, np.array(places)

    def _units(self, clusters: str) -> Floats:
        """Return how many clusters each sample has, with a query for each part."""
        found = np.zeros(self.at.coordinates.samples)
        for part in self.at.parts:
            for code, row in part.by_sample({"units": Aggregate(clusters, "n_unique")}):
                found[code] += row["units"]
        return found


def _in_batches(at: EngineMoments, part: Part, lengths: list[int]) -> Part:
    """Return a part with the batch of each row, numbered separately for each sample."""
    units = at.dependence.units(part, lengths)
    apart = [part.only(code, nw.lit(code * SERIES_APART)) for code in part.codes.values()]
    batch = total([nw.col(UNIT), *(one.cast(nw.Int64) for one in apart if one is not None)])
    return part.map(lambda frame: units(frame).with_columns(**{UNIT: batch}))


def _with_hash(part: Part, place: int, n: int, seed: Any, identity: str | None, clusters: str | None) -> Part:
    """Return a part with the hash of each row; rows outside the fit are numbered, too."""
    if clusters is None:
        halves = hashed(part, place, seed, identity, WHAT)
    else:
        halves = hashed(part, 0, seed, clusters, WHAT, clusters=True)
    floats = {GROUP: nw.col(RIGHT) % n, LEFT: nw.col(LEFT).cast(nw.Float64), RIGHT: nw.col(RIGHT).cast(nw.Float64)}
    members = {
        MEMBER.format(code): nw.when(nw.col(str(part.label)) == label).then(nw.lit(1.0)).otherwise(nw.lit(0.0))
        for label, code in part.codes.items()
        if len(part.codes) > 1
    }

    def change(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return halves(frame).with_columns(**floats, **members)

    if part.whole is None or part.belongs is None:
        return part.map(change)
    with answering(part.name):
        whole = change(part.whole)
        return replace(part, frame=whole.filter(part.belongs), whole=whole)

"""Queries about the weights themselves: by sample, against biases, and as a column of the user's frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from vardi._inputs.engine.aggregates import Aggregate
from vardi._inputs.engine.asking import answering, schema_of
from vardi._inputs.engine.part import PREFIX, Part, with_columns
from vardi._rows.engine.functions import EngineFunction
from vardi._rows.engine.model import omega_column
from vardi._rows.engine.moments import EngineMoments
from vardi._types import Floats
from vardi.errors import MismatchError


@dataclass(frozen=True)
class WeightSums:
    """Weights r_i = 1 / S_i by sample, each of shape (K,).

    Attributes
    ----------
    mass, squares : ndarray
        sum_i c_i r_i and sum_i c_i r_i^2.
    largest : ndarray
        The largest r_i; -inf for a state without rows.
    """

    mass: Floats
    squares: Floats
    largest: Floats

    @property
    def shares(self) -> Floats:
        """The share of the weight that the rows of each sample carry."""
        return self.mass / self.mass.sum()

    @property
    def effective(self) -> float:
        """Kish's effective number of rows, of all samples."""
        return float(self.mass.sum() ** 2 / self.squares.sum())


def weights_by_sample(at: EngineMoments) -> WeightSums:
    """Return sums and extremes of the weights, with one query for each part."""
    K = at.coordinates.samples
    mass, squares, largest = np.zeros(K), np.zeros(K), np.full(K, -np.inf)
    r = at.point.weight
    for part in at.together()[0]:
        asked = {
            "mass": Aggregate(part.times_count(r)),
            "squares": Aggregate(part.times_count(r * r)),
            "largest": Aggregate(r, "max"),
        }
        for code, row in part.by_sample(asked, at.point):
            mass[code] += row["mass"]
            squares[code] += row["squares"]
            largest[code] = max(largest[code], row["largest"])
    return WeightSums(mass, squares, largest)


def overlap(at: EngineMoments) -> Floats:
    """Return the masses of the rows that both of two biases could have drawn, weighted, of shape (K, K)."""
    K = at.coordinates.samples
    upper = np.triu_indices(K)
    total = np.zeros(len(upper[0]))
    for part in at.together()[0]:
        positive = [(omega_column(k) > 0).cast(nw.Float64) for k in range(K)]
        mass = part.times_count(at.point.weight)
        total += part.sums([positive[a] * positive[b] * mass for a, b in zip(*upper, strict=True)], at.point)
    found = np.zeros((K, K))
    found[upper] = total / at.n
    return np.maximum(found, found.T)


def pooled_means(at: EngineMoments, functions: Sequence[EngineFunction]) -> Floats:
    """Return the means of functions over the pool as it came, without weights."""
    total = np.zeros(len(functions))
    parts, functions = at.together(functions)
    for part in parts:
        columns = {f"{PREFIX}value_{j}": f(part) for j, f in enumerate(functions)}
        total += part.sums([part.times_count(nw.col(name)) for name in columns], at.point, with_columns(columns))
    return total / at.n


def with_added(
    at: EngineMoments,
    names: Sequence[str],
    values: Callable[[Part], Mapping[str, nw.Expr]],
    dropped: Sequence[Part] = (),
) -> dict[int | None, Any]:
    """Return the user's frames, still lazy, with further columns, which are zero for rows outside the fit.

    They are keyed by the position of their sample, or by None if one frame holds all. ``dropped`` are those of samples
    that were left out.
    """
    frames = {}
    for part in (*at.parts, *dropped):
        rows = part.frame if part.whole is None else part.whole
        taken = schema_of(rows, part.name)
        if lost := [name for name in names if name in taken]:
            raise MismatchError(
                f"There is already a column {lost[0]!r}, which would be lost. Rename it in the frame before the fit."
            )
        columns = dict.fromkeys(names, nw.lit(0.0)) if part in dropped else dict(values(part))
        if part not in dropped and part.belongs is not None:
            columns = {
                name: nw.when(part.belongs).then(column).otherwise(nw.lit(0.0)) for name, column in columns.items()
            }
        with answering(part.name):
            frame = (rows if part in dropped else at.point(rows)).with_columns(**columns)
            ours = [one for one in schema_of(frame, part.name) if one.startswith(PREFIX)]
            frames[None if part.label is not None else part.codes[None]] = frame.drop(*ours).to_native()
    return frames


def weights_column(at: EngineMoments, dropped: Sequence[Part] = ()) -> dict[int | None, Any]:
    """Return the user's frames with their weights, of mean 1 over the counted rows."""
    return with_added(at, ("weight",), lambda part: {"weight": at.point.weight}, dropped)


def probabilities_column(at: EngineMoments, dropped: Sequence[Part] = ()) -> dict[int | None, Any]:
    """Return the user's frames with probabilities that sum to 1."""
    name = "probability"
    return with_added(at, (name,), lambda part: {name: part.times_count(at.point.weight) / at.n}, dropped)

"""Questions about the weights themselves: by sample, where biases overlap, and in bins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vardi._rows.contract import Block, ByKey, Holder, Question
from vardi._rows.measure import Functions, Measure
from vardi._types import Floats, Integers

EVEN = 1e-12  # by how much weights may differ, relative to them, and be all the same


@dataclass(frozen=True, eq=False)
class WeightSums:
    """For the rows of each sample: the sum of their weights, the sum of squares, and the largest weight."""

    mass: Floats
    squares: Floats
    largest: Floats

    @property
    def effective(self) -> float:
        """Kish's effective number of all rows."""
        return float(self.mass.sum() ** 2 / self.squares.sum())

    @property
    def are_even(self) -> bool:
        """Whether all weights are the same, hence 1."""
        rows = self.mass.sum()
        return bool(abs(self.effective - rows) <= EVEN * rows)


@dataclass(frozen=True, eq=False)
class WeightTable:
    """How many rows of which sample have which weight; nearly equal weights may be replaced by their mean."""

    weights: Floats
    source: Integers
    counts: Floats


def weights_by_sample(measure: Measure) -> WeightSums:
    """Return sums of weights by sample, and the largest ones."""
    samples = measure.samples[:, None].astype(np.float64)

    def question(block: Block) -> ByKey:
        r = measure.weight(block)
        return block.of_sample(samples), np.hstack([r, r * r]), r

    keys, sums = measure.solved.grouped(question, 3)
    found = np.zeros((len(measure.sizes), 4))
    found[np.array(keys, np.int64)] = sums
    mass, squares, _, largest = found.T
    return WeightSums(mass, squares, largest)


def overlap(measure: Measure) -> Floats:
    """Return the masses of the rows that both of two biases could have drawn, weighted, of shape (K, K)."""
    return masses_of_pairs(measure.rows, measure.weight) / measure.n


def masses_of_pairs(rows: Holder, weight: Question[Floats]) -> Floats:
    """Return the weight of the rows that both of two biases could have drawn, of shape (K, K)."""
    K = len(rows.sizes)
    first, second = np.triu_indices(K)

    def question(block: Block) -> Floats:
        positive = block.let(np.hstack([(block.omega(k) > 0.0) * 1.0 for k in range(K)]))
        return block.sum(positive[:, first] * positive[:, second] * weight(block))

    found = np.zeros((K, K))
    found[first, second] = rows.total(question, len(first))
    return np.maximum(found, found.T)


def weights_in_bins(measure: Measure, rows: Holder, fine: float = 400.0) -> WeightTable:
    """Return mean weight, sample and count of groups of rows: those of a sample with nearly equal weights.

    There are ``fine`` groups for a factor of e in the weight.
    """
    samples = np.arange(len(rows.sizes), dtype=np.float64)[:, None]

    def question(block: Block) -> ByKey:
        r = measure.weight(block)
        return np.hstack([block.of_sample(samples), np.floor(np.log(r) * fine)]), np.hstack([r * 0.0 + 1.0, r])

    keys, sums = rows.grouped(question, 2)
    counts, mass = sums.T
    return WeightTable(mass / counts, np.array([sample for sample, _ in keys], np.int64), counts)


def values_in_bins(
    measure: Measure, rows: Holder, y: Functions, centre: float, scale: float, half: float = 1000.0
) -> tuple[Floats, Floats, Floats]:
    r"""Return the largest value, the count and the weight of the rows in each bin of a function, in its order.

    Bins are of equal width in :math:`z / (1 + |z|)`, where z is the distance from the centre: fine where most rows are,
    and without ends; ``half`` of them are on either side of the centre. At the largest value of a bin the cumulative
    sums give the distribution function.
    """

    def question(block: Block) -> ByKey:
        at = measure.point.at(block)
        values = y.of(block, at)
        z = block.let((values - centre) / scale)
        bins = np.floor((z / (np.abs(z) + 1.0) + 1.0) * half)
        return bins, np.hstack([at.weight * 0.0 + 1.0, at.weight]), values

    keys, sums = rows.grouped(question, 3)
    counts, mass, _, largest = sums[np.argsort(keys)].T
    return largest, counts, mass

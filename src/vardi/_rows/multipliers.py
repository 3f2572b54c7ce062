r"""How often a row, or a cluster of rows, counts in a replicate: by a hash, so the same in memory and in every engine.

The identity of a unit (a row or a cluster, never its values) has a hash of two halves l and r below a prime P; in a
replicate :math:`U = (l + a r + 1/2) / P \bmod 1`, with a random factor a of the replicate. Then the U of two units are
independent, and so are those of a unit in two replicates, exactly as far as the halves are random. From U follow the
multipliers:

- *bayesian*: :math:`-\log U`, exponential (Rubin 1981);
- *rows*: the Poisson count of mean 1 at which the distribution function passes U (Efron 1979, each unit separately);
- *jackknife*: units are put into as many groups as there are replicates, and replicate r leaves out group r.

Then samples are scaled to their sizes. With g units in a sample, exponential multipliers have :math:`(g - 1)/(g + 1)`
of the right variance. So if there are few, they are raised to the power :math:`1 + 1/(g - 2)`, which corrects that
within 1% from g = 8 on and within 3% below; Poisson counts need no correction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import scipy

from vardi._types import Floats, Integers

SMALL = 30  # units of a sample up to which exponential multipliers are spread a little more: beyond, it would be 3%
FEWEST = 0.1  # least value of g - 2: of two units one has nearly all, and a third cannot be distinguished
Number = TypeVar("Number", bound=Any)  # an array of floats, or a narwhals expression
ReplicateKind: TypeAlias = Literal["bayesian", "rows", "jackknife"]
MOST_FACTOR = 2**20  # so that l + a r is exact, and its remainder modulo P has 32 bits
PRIME = 67_108_859  # the largest prime below 2^26, so squares are whole numbers below 2^53
ROUNDS = 8


@dataclass(frozen=True)
class Multipliers:
    """The distribution of the multipliers of n replicates.

    Attributes
    ----------
    kind : {"bayesian", "rows", "jackknife"}
        How they are drawn.
    n : int
        How many replicates there are.
    seed : Any
        A seed for ``SeedSequence``.
    units : ndarray of shape (K,)
        How many rows or clusters each sample has.
    variances : ndarray of shape (K,), optional
        The variance of the multipliers of each sample, if it is not 1: batches of a series do not show all of it.
    """

    kind: ReplicateKind
    n: int
    seed: Any
    units: Floats
    variances: Floats | None = None

    @cached_property
    def powers(self) -> Floats:
        """The power of exponential multipliers, for each sample; 1 if it has many units."""
        few = (self.units <= SMALL) if self.kind == "bayesian" else np.zeros(len(self.units), bool)
        powers = np.where(few, 1.0 + 1.0 / np.maximum(self.units - 2.0, FEWEST), 1.0)
        if self.variances is None or self.kind != "bayesian":
            return powers
        return powers * np.array([power_of(variance) for variance in self.variances[: len(powers)].tolist()])

    @cached_property
    def factors(self) -> Floats:
        """The factor of each replicate, all different; more replicates leave the first ones unchanged."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(0, 1)))  # frames use shorter keys
        drawn = rng.integers(1, MOST_FACTOR, size=2 * self.n + 100)
        _, first = np.unique(drawn, return_index=True)
        return drawn[np.sort(first)][: self.n].astype(np.float64)

    def of(self, left: Floats, right: Floats, replicates: range, power: Floats | float) -> Floats:
        """Return the multipliers of rows in replicates, given a column of each half of their hashes, and of powers."""
        if self.kind == "jackknife":
            group = right - np.floor(right / self.n) * self.n
            return (group != np.arange(replicates.start, replicates.stop)) * 1.0
        uniform = self._uniform(left, right, replicates)
        if self.kind == "rows":
            mean = 1.0 if self.variances is None else 1.0 / float(self.variances.max())
            thresholds = scipy.special.pdtr(np.arange(11), mean)  # the least U of a count of 1 to 11; none exceeds it
            return sum(((uniform >= least) * 1.0 for least in thresholds), start=np.zeros(1))
        return (-np.log(uniform)) ** power

    def of_counts(self, left: Floats, right: Floats, replicates: range, counts: Floats) -> Floats:
        """Return the multipliers of rows in memory that have counts: the mean of as many, as a function of U."""
        if self.kind == "jackknife":
            return self.of(left, right, replicates, 1.0)
        uniform = self._uniform(left, right, replicates)
        if self.kind == "bayesian":
            sums = scipy.special.gammainccinv(counts, uniform)
        else:
            above = np.ceil(scipy.special.pdtrik(uniform, counts))
            below = np.maximum(above - 1.0, 0.0)
            is_below = scipy.special.pdtr(below, counts) >= uniform  # the root may be off by rounding
            sums = np.where(is_below, below, above)
        return np.asarray(sums / np.where(counts > 0, counts, 1.0))

    def _uniform(self, left: Floats, right: Floats, replicates: range) -> Floats:
        phase = (left + right * self.factors[replicates.start : replicates.stop] + 0.5) / float(PRIME)
        return phase - np.floor(phase)


def power_of_shape(shape: Floats, most: float = 0.1) -> Floats:
    """Return the power of exponential multipliers that spread like those of a gamma law of a shape, 1 - 2 / g.

    >>> power_of_shape(np.array([[1.0 - 2.0 / 10.0]]))  # 1 + 1 / (g - 2)
    array([[1.125]])
    """
    shape = np.maximum(shape, most)
    return (1.0 + shape) / (2.0 * shape)


def power_of(variance: float) -> float:
    r"""Return the power p of an exponential number whose variance is so many times its mean squared.

    That is :math:`\Gamma(1 + 2p) / \Gamma(1 + p)^2 - 1`.

    >>> power_of(1.0), round(power_of(1.25), 3)
    (1.0, 1.116)
    """
    if variance == 1.0:
        return 1.0

    def excess(p: float) -> float:
        return float(scipy.special.gammaln(1.0 + 2.0 * p) - 2.0 * scipy.special.gammaln(1.0 + p) - np.log1p(variance))

    return float(scipy.optimize.brentq(excess, 0.5, 3.0))


def names_of(n: int) -> list[str]:
    """Return the names of the columns of n replicates."""
    return [f"replicate_{r + 1}" for r in range(n)]


def constants(seed: Any, *key: int, rounds: int = ROUNDS) -> list[int]:
    """Return the constants that the rounds of a hash add, different for each key."""
    state = np.random.SeedSequence(seed, spawn_key=key).generate_state(rounds)
    found: list[int] = (state % PRIME).tolist()
    return found


def feistel(left: Number, right: Number, constant: int) -> tuple[Number, Number]:
    """Return a round of a Feistel network: (l, r) -> (r, l + (r + constant)^2), all modulo the prime."""
    moved = (right + constant) % PRIME
    return right, (left + moved * moved) % PRIME


def hashed_numbers(numbers: Integers, seed: Any, place: int) -> tuple[Integers, Integers]:
    """Return the two halves of the hash of whole numbers, each below the prime."""
    size = np.abs(numbers)
    left, right = size % PRIME, (size // PRIME * 2 + (numbers < 0)) % PRIME
    for constant in constants(seed, place):
        left, right = feistel(left, right, constant)
    return left, right

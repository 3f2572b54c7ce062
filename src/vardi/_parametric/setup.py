"""A pool some of whose biases have parameters -> its likelihood, and its rows at any value of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vardi._identify import Verdict
from vardi._parametric.estimate import unknown_everywhere
from vardi._parametric.likelihood import Likelihood
from vardi._parametric.models import as_model
from vardi._pool import Pool, show
from vardi._rows import Checks, Rows
from vardi._rows.dense import Dense
from vardi._sums import Floats, Integers
from vardi.biases import ParametricBias
from vardi.errors import UnidentifiedParametersError

MODERATE = 200.0  # log omega up to which omega itself is held


@dataclass(frozen=True)
class Setup:
    """What a fit with parameters starts from.

    Attributes
    ----------
    pool : Pool
        As it was given.
    kept : ndarray of bool
        The rows of the pool that count.
    known : ndarray of shape (n, K)
        Log of the known factor of each bias on these.
    likelihood : Likelihood
        Of the sampled states alone.
    sampled : ndarray of int
        Which these are.
    """

    pool: Pool
    kept: NDArray[np.bool_]
    known: Floats
    likelihood: Likelihood
    sampled: Integers

    @classmethod
    def of(cls, pool: Pool) -> Setup:
        """Evaluate what is known, and tie each family to the rows."""
        kept = np.ones(len(pool), bool) if pool.counts is None else pool.counts > 0
        source, counts = pool.source[kept], None if pool.counts is None else pool.counts[kept]
        sizes = np.bincount(source, minlength=len(pool.names))
        parametric = {k: bias for k, bias in enumerate(pool.biases) if isinstance(bias, ParametricBias)}
        _require_drawn(pool, [k for k in parametric if not sizes[k]])
        factors = tuple(bias.known if isinstance(bias, ParametricBias) else bias for bias in pool.biases)
        values = [np.asarray(column, np.float64)[kept] for column in replace(pool, biases=factors).values()]
        positions = None if kept.all() else np.flatnonzero(kept)
        Checks(pool.names, False, positions).lists(values, source)
        with np.errstate(divide="ignore"):
            known = np.log(np.column_stack(values))
        sampled = np.flatnonzero(sizes)
        place = {k: j for j, k in enumerate(sampled.tolist())}
        models = {
            place[k]: as_model(bias, pool.frames, kept, counts, str(pool.names[k])) for k, bias in parametric.items()
        }
        counted = np.ones(len(source)) if counts is None else counts
        labels = np.searchsorted(sampled, source)
        return cls(pool, kept, known, Likelihood(known[:, sampled], labels, counted, models), sampled)

    @property
    def positions(self) -> Integers | None:
        """Where the rows stand in the pool, if they are not all of it."""
        return None if self.kept.all() else np.flatnonzero(self.kept)

    def start(self) -> Rows:
        """Return the rows at the first start: overlap is where biases are zero, and no parameter changes that."""
        theta = np.concatenate([model.starts()[0] for model in self.likelihood.models.values()])
        return self.rows(theta)

    def rows(self, theta: Floats) -> Rows:
        """Return the rows with all biases on the user's scale."""
        L = self.known.copy()
        L[:, self.sampled] = self.likelihood.log_omega(theta) + self.likelihood.shift(theta)
        source = self.pool.source[self.kept]
        counts = None if self.pool.counts is None else self.pool.counts[self.kept]
        own = L[np.arange(len(source)), source]
        plain = L.max() <= MODERATE and own.min() >= -MODERATE  # numbers that a person can read
        matrix = np.exp(L) if plain else L
        found = Checks(self.pool.names, not plain, self.positions).array(matrix, source)
        return Dense(matrix, source, counts, **found)

    def judged(self, verdict: Verdict) -> Verdict:
        """Return the verdict on the overlap, or that no bias is known."""
        if len(self.likelihood.models) < len(self.sampled) or not verdict.identified:
            return verdict
        error = unknown_everywhere([self.pool.names[k] for k in self.sampled], verdict)
        return replace(verdict, identified=False, message=str(error))

    def require_known(self, verdict: Verdict) -> None:
        """Refuse samples none of which has a known bias."""
        if len(self.likelihood.models) == len(self.sampled):
            raise unknown_everywhere([self.pool.names[k] for k in self.sampled], verdict)


def has_parameters(pool: Pool) -> bool:
    """Tell whether some bias of a pool has parameters."""
    return any(isinstance(bias, ParametricBias) for bias in pool.biases)


def _require_drawn(pool: Pool, absent: list[int]) -> None:
    if absent:
        bias = pool.biases[absent[0]]
        assert isinstance(bias, ParametricBias)
        raise UnidentifiedParametersError(
            f"No sample was drawn with the bias of {show(pool.names[k] for k in absent)}, {bias}, so nothing tells its "
            "parameters. Give its rows, fix the parameters with .at(...), or leave it out.",
            sample=str(pool.names[absent[0]]),
            parameters=bias.names,
        )

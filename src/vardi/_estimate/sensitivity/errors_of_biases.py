"""Which biases may be wrong, and whether all are wrong alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vardi._estimate.solved import SolvedFit
from vardi._inputs.pool import Name
from vardi._types import Floats
from vardi.errors import MismatchError, suggest
from vardi.errors._texts import show


@dataclass(frozen=True)
class Errors:
    """The errors considered: delta_l(z_i) = log of true over declared bias, within log Gamma of 0.

    Attributes
    ----------
    names : tuple
        The samples whose biases may be wrong.
    wrong : ndarray of bool of shape (K,)
        Which of the sampled biases these are.
    common : bool
        Whether a row's error is the same in all of them.
    """

    names: tuple[Name, ...]
    wrong: NDArray[np.bool_]
    common: bool

    @property
    def reweighs(self) -> bool:
        """Whether an error only divides the probability of its row, so that p_i and the normalisers' part stay."""
        return bool(self.wrong.all()) and (self.common or len(self.wrong) == 1)

    def slopes(self, G: Floats) -> Floats:
        """Return slopes in the errors, of shape (n, K) or (n, 1) if common, from slopes G in each delta_il."""
        own = np.where(self.wrong, G, 0.0)
        return own.sum(axis=1, keepdims=True) if self.common else own

    def spread(self, errors: Floats) -> Floats:
        """Return delta of shape (n, K)."""
        return np.where(self.wrong, errors, 0.0)


def as_errors(solved: SolvedFit, samples: Sequence[Name] | None, kind: str) -> Errors:
    """Return the errors asked for; raise if they are invalid."""
    if kind not in ("free", "common"):
        raise MismatchError(
            f"kind is {kind!r}. Give 'free', where each bias errs on its own, or 'common', where all err alike."
        )
    measure = solved.tangent.measure
    sampled = [solved.names[k] for k in measure.states or range(len(measure.sizes)) if measure.sizes[k]]
    if samples is None:
        wanted = sampled
    else:
        wanted = [samples] if isinstance(samples, str) else list(samples)
    unknown = [name for name in wanted if name not in sampled]
    if unknown or not wanted:
        reason = f"No sample {unknown[0]!r} whose bias enters the weights" if wanted else "No sample was named"
        raise MismatchError(
            f"{reason}. The samples are {show(sampled)}.{suggest(unknown[0], sampled) if unknown else ''} Name those "
            "whose biases may be wrong, or leave samples out for all."
        )
    wrong = np.array([name in wanted for name in sampled])
    return Errors(tuple(name for name in sampled if name in wanted), wrong, kind == "common")

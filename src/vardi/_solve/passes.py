"""Passes over rows, and their Hessian: from a sketch of the gram while that tells enough, otherwise from the gram."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from vardi._rows.contract import Sketch, Sums
from vardi._solve.deflated import Deflated, subspace
from vardi._solve.laplacian import Laplacian, restricted
from vardi._types import Floats

NEAR = 3.0  # how far u may be from where vectors were found that span the gram there

Hessian: TypeAlias = Laplacian | Deflated


class SolvableRows(Protocol):
    """What Newton's method needs of rows."""

    sizes: Floats

    @property
    def reading_dominates(self) -> bool: ...
    @property
    def additions(self) -> int: ...
    @property
    def exponents(self) -> float: ...
    def __len__(self) -> int: ...
    @property
    def is_sketchable(self) -> bool: ...
    def sums(self, u: Floats, *, gram: bool = True, objective: bool = True) -> Sums: ...
    def sketch(self, u: Floats, vectors: Floats) -> Sums: ...
    def log_means(self, u: Floats) -> Floats: ...
    def start(self) -> Floats: ...
    def reach(self) -> Any: ...
    def subsample(self, fraction: float, *, least: int) -> SolvableRows: ...


@dataclass(frozen=True)
class Span:
    """Vectors that span all but a small part of the gram at u.

    Rows of p are those of omega, multiplied by e^u and divided by a number each. So what spans them elsewhere are these
    vectors, multiplied by what e^u has changed by.
    """

    u: Floats
    vectors: Floats

    def reaches(self, u: Floats) -> bool:
        """Whether they serve at another point."""
        sampled = np.isfinite(self.u)
        return bool(np.ptp(u[sampled] - self.u[sampled]) <= NEAR)

    def at(self, u: Floats) -> Floats:
        """Return the vectors at another point."""
        sampled = np.isfinite(self.u)
        factor = np.zeros(len(u))
        factor[sampled] = np.exp(u[sampled] - self.u[sampled])
        return np.asarray(factor[:, None] * self.vectors)


def span_of(u: Floats, hessian: Hessian) -> Span | None:
    """Return what spans the gram of a Hessian at u; None where it takes many vectors."""
    found = subspace(hessian) if isinstance(hessian, Laplacian) else None
    if found is None:
        return None
    vectors = np.zeros((len(u), found.shape[1]))
    vectors[np.isfinite(u)] = found
    return Span(u, vectors)


class Passes:
    """Passes over some rows.

    Parameters
    ----------
    rows : SolvableRows
        The rows.
    span : Span or None
        Along which the gram is sketched, until that does not do.
    """

    def __init__(self, rows: SolvableRows, span: Span | None) -> None:
        self.rows, self._span = rows, span
        self._found: tuple[Sums, Hessian] | None = None

    def sums(self, u: Floats, *, curved: bool, objective: bool = False) -> Sums:
        """Return sums at u, with what tells the Hessian where it is asked for."""
        self._found = None
        if not curved or objective or self._span is None or not self._span.reaches(u):
            return self.rows.sums(u, gram=curved, objective=objective)
        sums = self.rows.sketch(u, self._span.at(u))
        if not isinstance(sums.gram, Sketch) or self.hessian(sums).is_tight:
            return sums
        self.distrust()
        return self.rows.sums(u, objective=False)

    def distrust(self) -> None:
        """Form the gram from now on."""
        self._span = None

    def hessian(self, sums: Sums) -> Hessian:
        """Return the Hessian by sums that tell it, made once."""
        if self._found is None or self._found[0] is not sums:
            self._found = sums, self._hessian(sums)
        return self._found[1]

    def _hessian(self, sums: Sums) -> Hessian:
        sampled = self.rows.sizes > 0
        if isinstance(sums.gram, Sketch):
            return Deflated(sums.shares[sampled], sums.gram.restricted(sampled))
        return Laplacian(sums.shares[sampled], restricted(sums.gram, sampled))

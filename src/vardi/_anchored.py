"""AnchoredSample: a debiased sample that meets known shares of the population."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from vardi._frames import as_frame
from vardi._goodness import BiasCheck
from vardi._identify import Verdict, joined_verdict, judge
from vardi._influence import Influence
from vardi._newton import Solution
from vardi._pool import Name, Pool, show
from vardi._rows import Rows
from vardi._sample import DebiasedSample
from vardi._shares import Anchor, AnchoredInfluence, Refit, SharesCheck, check_shares
from vardi._shares.anchor import raked_log_omegas
from vardi._shares.cells import members_of_frame
from vardi._sums import Floats, Integers
from vardi._trust import Trust
from vardi.errors import ImpossibleRowError, MismatchError, VardiError


class AnchoredSample(DebiasedSample):
    r"""A debiased sample that meets known shares: what :func:`vardi.debias` returns when it is given ``shares``.

    The weight of a row is that of its biases times a factor of the cells that it is in,
    :math:`e^{\mu'c(z)} / \sum_l \lambda_l \omega_l(z) / \Omega_l`.

    Attributes
    ----------
    shares : SharesCheck
        The known shares beside those that the samples give on their own, and a test of the former.
    """

    _anchor: Anchor

    def __init__(
        self,
        pool: Pool,
        rows: Rows,
        solution: Solution,
        anchor: Anchor,
        refit: Refit,
        kept: NDArray[np.bool_] | None,
    ) -> None:
        super().__init__(pool, rows, replace(solution, u=refit.u), refit.weights, kept)
        self._anchor, self._refit = anchor, refit

    @cached_property
    def shares(self) -> SharesCheck:
        """The known shares beside those that the samples give on their own, and a test of the former."""
        return check_shares(self._anchor, self._rows, self._refit, trusted=self.trust.errors_hold)

    @cached_property
    def _log_omegas(self) -> Floats:
        return raked_log_omegas(self._rows, self._row_weights)

    @property
    def w(self) -> dict[Name, float]:
        r"""The normalisers in the paper's scale, :math:`\max_k W_k / \lambda_k = 1`, of the sampled biases."""
        sampled = np.flatnonzero(self._rows.sizes > 0)
        log_omegas = self._log_omegas[sampled]
        log_ratio = log_omegas - np.log(self._rows.sizes[sampled] / self._rows.sizes.sum())
        return {
            self.names[k]: float(value)
            for k, value in zip(sampled.tolist(), np.exp(log_omegas - log_ratio.max()), strict=True)
        }

    def identify(self) -> Verdict:
        """Tell through which rows the samples are compared, and which groups of them the shares join."""
        verdict = judge(self._rows, self.names, self._masses())
        return joined_verdict(verdict, self._anchor.masses)

    @cached_property
    def trust(self) -> Trust:
        """How far standard errors can be trusted: overlap over the weakest cut within a group, and the tail."""
        trust = Trust.of(self._influence, self.solution, self.names)
        return within_groups(trust, self._influence, self.solution, self._anchor.groups, self.names)

    def weigh(self, rows: Any) -> Any:
        """Return the weight of rows that need not be of the pool; they have what biases and shares read."""
        weights = super().weigh(rows)
        sampled = np.flatnonzero(self._rows.sizes > 0)
        if self._pool.biases:
            frame = as_frame(rows)
            members = members_of_frame(self._anchor.cells, frame, self._pool.biases)
            values = frame.evaluate([self._pool.biases[k] for k in sampled])
            positive = np.column_stack([np.asarray(column) > 0 for column in values])
        else:
            frame, matrix = None, self._matrix(rows) > (-np.inf if self._rows.log else 0)
            states = np.array([cell.state for cell in self._anchor.cells], np.int64)
            members, positive = matrix[:, states], matrix[:, sampled]
        self._require_one_group(positive, self._anchor.groups[sampled])
        log_factors, strange = self._anchor.log_factors(members, self._refit)
        if strange.any():
            first = int(np.flatnonzero(strange)[0])
            held = [cell.label for cell, is_in in zip(self._anchor.cells, members[first], strict=True) if is_in]
            raise ImpossibleRowError(
                f"{int(strange.sum())} of the new rows (the first is row {first}) are in cells as no row of the pool "
                f"is ({show(held)}), so the shares say nothing of their weight. Weigh rows that are in one cell of "
                "every margin.",
                sample=None,
                rows=np.flatnonzero(strange)[:10],
            )
        weights = np.asarray(weights, np.float64) * np.exp(log_factors)
        return weights if frame is None else frame.series(weights, "weight")

    def check_biases(self, columns: Any = None, **options: Any) -> BiasCheck:
        """Test whether the samples agree with their biases where they overlap; the shares have no part in it."""
        if len(self._anchor.masses) > 1 and options.get("method") == "ks-bootstrap":
            raise MismatchError(
                "method='ks-bootstrap' fits all samples anew, and these are in groups that only the shares join. Use "
                "'score' or 'ks'.",
                expected=("score", "ks"),
                got=("ks-bootstrap",),
            )
        return super().check_biases(columns, **options)

    def bounds(self, delta: float = 0.05) -> NoReturn:
        """Refuse: the theory is of samples that overlap alone joins."""
        raise VardiError(
            "The finite-sample bounds are for weights that follow from the samples alone, and these meet known shares "
            "besides. Debias without shares to see them."
        )

    @cached_property
    def _influence(self) -> Influence:
        anchor = self._anchor
        return AnchoredInfluence(
            self._rows,
            self.solution.u,
            self._row_weights,
            *self._drawn(),
            groups=anchor.groups,
            pattern=anchor.pattern,
            regressors=anchor.basis.values,
        )

    def _drawn(self) -> tuple[Any, Floats | None]:
        kept = slice(None) if self._kept is None else self._kept
        return self._pool.source[kept], None if self._pool.counts is None else self._pool.counts[kept]

    def _masses(self) -> Floats:
        mass = self._row_weights if self._rows.counts is None else self._row_weights * self._rows.counts
        return mass / mass.sum()

    def _require_one_group(self, positive: NDArray[np.bool_], groups: Integers) -> None:
        """Refuse new rows that samples of several groups could have drawn: the pool has none to weigh them by."""
        allowed = np.column_stack(
            [positive[:, groups == label].any(axis=1) for label in range(len(self._anchor.masses))]
        )
        between = np.flatnonzero(allowed.sum(axis=1) > 1)
        if len(between):
            raise ImpossibleRowError(
                f"{len(between)} of the new rows (the first is row {between[0]}) could have been drawn by samples of "
                "several groups, of which no row of the pool could: nothing says how these weigh there. Leave them "
                "out, or narrow the biases to what was drawn.",
                sample=None,
                rows=between[:10],
            )


def within_groups(
    trust: Trust, influence: Influence, solution: Solution, groups: Integers, names: tuple[Name, ...]
) -> Trust:
    """Return what errors rest on where only the samples of a group are compared: the rows that bridge the weakest."""
    above = np.flatnonzero(solution.cut > 0)
    inside = groups == (groups[above[0]] if len(above) else -2)
    if inside.sum() < 2:  # every group is one sample, which needs no bridge
        return replace(trust, bridging=np.inf, cut=((), ()))
    side, other = inside & (solution.cut > 0), inside & ~(solution.cut > 0)
    gram, indicator = influence.sums.gram, side.astype(np.float64)
    towards = gram(indicator) if callable(gram) else gram @ indicator
    cut = (
        tuple(name for name, is_in in zip(names, side, strict=True) if is_in),
        tuple(name for name, is_in in zip(names, other, strict=True) if is_in),
    )
    return replace(trust, bridging=float(towards[other].sum()), cut=cut)

"""Means and free energies in states, with the errors of both and of quantities derived from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

import numpy as np

from vardi._types import Floats, Integers
from vardi.mbar._weights import StateWeights, covariance_over, differences, errors_of_differences, times

Results: TypeAlias = dict[str, Floats]
Combination: TypeAlias = Callable[[Floats, Floats], Floats]
"""A linear function of means and free energies."""


class StateAnswers:
    """Means of observables in states, and the states' free energies, with errors from influence values or refits.

    Parameters
    ----------
    rows : StateWeights
        The rows.
    A : ndarray of shape (I, n) or None
        Observables.
    u : ndarray of shape (L, n)
        Potentials of states.
    pairs : ndarray of int of shape (2, S) or None
        State and observable of each mean.
    bootstrap : callable or None
        Returns a statistic of refits, if errors are to be their spread.
    weights_known : bool
        Whether errors are computed as if free energies were known.

    Attributes
    ----------
    mu, f : ndarray of shape (S,), ndarray of shape (L,)
        The means, and the free energies.
    """

    def __init__(
        self,
        rows: StateWeights,
        A: Floats | None,
        u: Floats,
        pairs: Integers | None,
        bootstrap: Callable[[Callable[[Floats], Floats]], Floats] | None,
        *,
        weights_known: bool,
    ) -> None:
        self._rows, self._bootstrap, self._weights_known = rows, bootstrap, weights_known
        self.f, self.w = self._rows.under(u)
        none = np.zeros((2, 0), int)
        states, observables = none if pairs is None else pairs
        self.states = np.arange(len(u)) if pairs is None else states
        self.A = np.zeros((0, u.shape[1])) if A is None else A[observables]
        self.under = self.w[states]
        self.mu = times(self.under, self.A).sum(axis=1)

    def _refit(self, w: Floats) -> Floats:
        """Return means and free energies, up to a constant, with the weights of the rows multiplied by w."""
        total = self.w @ w
        mean = (times(self.under, self.A) @ w) / (self.under @ w)
        return np.concatenate([mean, self.f - np.log(total)])

    @cached_property
    def refits(self) -> list[Floats] | None:
        """Means, and free energies up to a constant, in each refit: of shapes (B, S) and (B, L)."""
        return None if self._bootstrap is None else np.split(self._bootstrap(self._refit), [len(self.mu)], axis=1)

    def covariance(self, combine: Combination = lambda mu, f: mu) -> Floats:
        """Return the covariance of the means, or of another combination."""
        if self.refits is None:
            moved = times(self.under, self.A - self.mu[:, None])
            return self._covariance(combine(moved, -self.w))
        return covariance_over(combine(*self.refits))

    def _covariance(self, Y: Floats) -> Floats:
        return self._rows.covariance(Y.T, weights_known=self._weights_known)

    def errors(self) -> Floats:
        """Return standard errors of the means."""
        return np.sqrt(np.maximum(np.diag(self.covariance()), 0.0))

    def between(self, combine: Combination, differences_as: str, errors_as: str = "") -> Results:
        """Return differences of a combination between states and, if they have a key, their standard errors."""
        found = {differences_as: differences(combine(self.mu, self.f))}
        return found | {errors_as: errors_of_differences(self.covariance(combine))} if errors_as else found

    @property
    def least(self) -> Floats:
        """The smallest value of each observable."""
        return np.asarray(self.A.min(axis=1, initial=np.inf))

    def theta(self, *, scaled: bool) -> Floats:
        """Return the covariance of means beyond their least value and of log normalisers, as pymbar lays it out.

        Parameters
        ----------
        scaled : bool
            Whether both parts are multiplied by the means beyond their least value; otherwise they are of logs.
        """
        beyond = (self.mu - self.least)[:, None]
        of_means, of_states = times(self.under, self.A - self.least[:, None]), self.w[self.states]
        parts = (of_means, beyond * of_states) if scaled else (of_means / beyond, of_states)
        return self._covariance(np.vstack(parts))

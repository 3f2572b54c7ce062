"""Means and free energies in states, with the errors of both and of quantities derived from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from vardi._types import Floats, Integers
from vardi.mbar._weights import StateWeights, covariance_over, errors_of_differences, times


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
    refits : tuple of ndarray, or None
        Both in each refit, of shapes (B, S) and (B, L); free energies are up to a constant.
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
        self._rows, self._weights_known = rows, weights_known
        self.f, self.w = self._rows.under(u)
        none = np.zeros((2, 0), int)
        states, observables = none if pairs is None else pairs
        self.states = np.arange(len(u)) if pairs is None else states
        self.A = np.zeros((0, u.shape[1])) if A is None else A[observables]
        self.under = self.w[states]
        self.mu = times(self.under, self.A).sum(axis=1)
        self.refits = None if bootstrap is None else np.split(bootstrap(self._refit), [len(self.mu)], axis=1)

    def _refit(self, w: Floats) -> Floats:
        """Return means and free energies, up to a constant, with the weights of the rows multiplied by w."""
        total = self.w @ w
        mean = (times(self.under, self.A) @ w) / (self.under @ w)
        return np.concatenate([mean, self.f - np.log(total)])

    @cached_property
    def moved(self) -> Floats:
        """The influence of the rows on the means, of shape (S, n)."""
        return times(self.under, self.A - self.mu[:, None])

    def _covariance(self, Y: Floats) -> Floats:
        return self._rows.covariance(Y.T, weights_known=self._weights_known)

    @cached_property
    def covariance(self) -> Floats:
        """The covariance of the means."""
        return self._covariance(self.moved) if self.refits is None else covariance_over(self.refits[0])

    @property
    def errors(self) -> Floats:
        """Standard errors of the means."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    @property
    def errors_of_differences(self) -> Floats:
        """Standard errors of differences of the means."""
        return errors_of_differences(self.covariance)

    @property
    def errors_of_f(self) -> Floats:
        """Standard errors of differences of free energies."""
        covariance = self._covariance(self.w) if self.refits is None else covariance_over(self.refits[1])
        return errors_of_differences(covariance)

    @property
    def errors_of_entropies(self) -> Floats:
        """Standard errors of differences of entropies, u - f, if the means are those of the potentials."""
        if self.refits is None:
            return errors_of_differences(self._covariance(self.moved + self.w))
        return errors_of_differences(covariance_over(self.refits[0] - self.refits[1]))

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
        if scaled:
            return self._covariance(np.vstack([of_means, beyond * of_states]))
        return self._covariance(np.vstack([of_means / beyond, of_states]))

r"""Rows under states: their weights there, and the errors of estimates that compare states.

Row i weighs under state k, sampled or not,

.. math:: W_{ik} = \frac{e^{f_k - u_k(z_i)}}{\sum_l N_l e^{f_l - u_l(z_i)}},\qquad \sum_i W_{ik} = 1,

which needs no common reference population. An estimate moves by :math:`\sum_i Y_i` with the rows: for
a free energy :math:`Y = -W_k`, for the mean of A in state k :math:`Y = W_k (A - \bar A)`. Contrasts have

.. math:: \mathrm{Cov} = Y'Y - \frac{tt'}{n} + a'H^+a,\qquad a = N W'Y - N\frac{t'}{n},\qquad t = \sum_i Y_i,

with H the Hessian of the fit in counts: MBAR's covariance (Shirts and Chodera 2008) without a pseudoinverse of order n.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy import sparse

from vardi._fit.sample import DebiasedSample
from vardi._rows.measure import weighed
from vardi._types import Floats, Integers


class StateWeights:
    """The rows of a fit under its states, and under others: what `MBAR` computes with.

    Attributes
    ----------
    fit : DebiasedSample
        A fit whose biases are exp(-u).
    u_kn : ndarray of shape (K, n)
        The reduced potentials.
    N_k : ndarray of int of shape (K,)
        Rows of each state.
    n_bootstraps : int
        How many refits there are, if errors are to be their spread.
    """

    fit: DebiasedSample
    u_kn: Floats
    N_k: Integers
    _debias: Callable[[Floats], DebiasedSample]  # with the logs of biases: another fit of the same rows
    _is_dependent: bool
    n_bootstraps: int
    _seed: int

    @cached_property
    def f_k(self) -> Floats:
        """The free energies, that of the first state being 0."""
        log_omegas = np.array(list(self.fit.log_omegas.values()))
        return np.asarray(log_omegas[0] - log_omegas)

    @cached_property
    def _log_mixture(self) -> Floats:
        """Log of sum_l N_l e^{f_l - u_l} of each row: the distribution of all rows together."""
        rows, u = self.fit.solved.rows_in_memory, self.fit.solved.solution.u
        scale = np.log(self.N_k.sum()) + next(iter(self.fit.log_omegas.values()))  # e^{f_l} N_l is this times e^{u_l}
        return np.asarray(rows.spread(rows.settled(u).log_row_mass(u)) + scale)

    @cached_property
    def _gram(self) -> Floats:
        """W'W, of shape (K, K), which for sampled states comes from the fit's own gram."""
        shared = self.fit.solved.tangent.hessian.gram
        if shared.is_formed and self.N_k.all():
            return np.asarray(shared.array() / self.N_k / self.N_k[:, None])
        return self.W_nk.T @ self.W_nk

    @cached_property
    def Log_W_nk(self) -> Floats:  # noqa: N802 pymbar's name
        """Log weights of the rows under each state, of shape (n, K)."""
        f = self._own[0]
        finite = np.where(np.isfinite(f), f, 0.0)  # a state that forbids every row
        return np.asarray((finite[:, None] - self.u_kn - self._log_mixture).T)

    @property
    def W_nk(self) -> Floats:  # noqa: N802 pymbar's name
        r"""Weights of the rows under each state, :math:`W_{nk}` of shape (n, K): each column sums to 1."""
        return self._own[1].T

    @cached_property
    def _own(self) -> tuple[Floats, Floats]:
        return self._weighed(self.u_kn)

    def _under(self, u_ln: Floats) -> tuple[Floats, Floats]:
        """Return free energies (L,) of states of potentials (L, n), and the weights of the rows there, (L, n)."""
        return self._own if u_ln is self.u_kn else self._weighed(u_ln)

    def _weighed(self, u_ln: Floats) -> tuple[Floats, Floats]:
        w = -u_ln - self._log_mixture
        top = w.max(axis=1, keepdims=True)
        w -= np.where(np.isfinite(top), top, 0.0)
        np.exp(w, out=w)
        total = w.sum(axis=1, keepdims=True)
        w /= np.where(total > 0.0, total, 1.0)  # all weights are 0 in a state that forbids every row
        with np.errstate(divide="ignore"):
            return -(np.log(total) + top)[:, 0], w

    def _theta(self, *, weights_known: bool = False) -> Floats:
        """Return the covariance of the log normalisers, relative to the distribution of all rows together."""
        if self._is_dependent and not weights_known:
            return self._covariance(self.W_nk)
        centred = self._gram - 1.0 / len(self.fit)
        return self._in_mbars_form(centred, self.N_k[:, None] * centred, weights_known=weights_known)

    def _covariance(self, Y: Floats | sparse.csr_array, *, weights_known: bool = False) -> Floats:
        """Return the covariance of estimates with influence Y, dense or sparse of shape (n, m), for contrasts only.

        Columns that sum to 0 are contrasts, and so are differences of columns with the same sum. With
        ``weights_known`` the free energies are taken as known.
        """
        n, t = len(self.fit), np.asarray(Y.sum(axis=0))
        a = self.N_k[:, None] * (np.asarray((Y.T @ self.W_nk).T) - t / n)
        if self._is_dependent and not weights_known:
            tangent = self.fit.solved.tangent
            b = tangent.hessian.solve(n * a)
            return tangent.moved_by(weighed(n * dense(Y) - t), np.zeros(len(t)), b).covariance()
        return self._in_mbars_form(dense(Y.T @ Y) - np.outer(t, t) / n, a, weights_known=weights_known)

    def _in_mbars_form(self, squares: Floats, a: Floats, *, weights_known: bool) -> Floats:
        return squares if weights_known else np.asarray(squares + a.T @ self.fit.solved.tangent.hessian.solve(a))

    def _bootstrap(self, statistic: Callable[[Floats], Floats], n: int, seed: int) -> Floats:
        """Return a statistic of resampled rows, given as a function of their weights relative to those of this fit.

        The population of these refits is the distribution of all rows together, in which weights are near 1 whatever
        the potentials; the weight of a row under state k is proportional to that weight times W.
        """
        return refits(self._debias(self.Log_W_nk), statistic, n, seed)


def refits(
    fit: DebiasedSample, statistic: Callable[[Floats], Floats] | list[str] | list[Floats], n: int, seed: int
) -> Floats:
    """Return a statistic in each refit that has a solution."""
    drawn = fit.bootstrap(statistic, n=n, seed=seed)
    return drawn.values[np.isfinite(drawn.log_omegas).any(axis=1)]


def dense(values: Floats | sparse.csr_array) -> Floats:
    """Return numbers as an array that holds the zeros, too."""
    return values if isinstance(values, np.ndarray) else values.toarray()


def times(weights: Floats, values: Floats) -> Floats:
    """Return weights times values; 0 where the weight is 0, even if a forbidden row has an infinite potential."""
    with np.errstate(invalid="ignore"):
        return np.where(weights > 0.0, weights * values, 0.0)


def errors_of_differences(covariance: Floats, rounding: float = 64 * np.finfo(float).eps) -> Floats:
    """Return the standard error of each difference of two estimates.

    It is 0 where the variance is only rounding error, relative to the variances of the two.
    """
    variance = np.diag(covariance)
    both = variance[:, None] + variance
    squares = both - 2.0 * covariance
    return np.sqrt(np.where(squares > rounding * both, squares, 0.0))


def differences(values: Floats) -> Floats:
    """Return values[j] - values[i] for all pairs."""
    with np.errstate(invalid="ignore"):  # inf - inf, for a state that forbids every row
        return np.asarray(values - values[:, None])


def covariance_over(refits: Floats) -> Floats:
    """Return the covariance of estimates over refits, of shape (B, m)."""
    with np.errstate(invalid="ignore"):  # inf - inf, for a state that forbids every row
        return np.atleast_2d(np.cov(refits.T))


Results: TypeAlias = dict[str, Floats]
Combination: TypeAlias = Callable[[Floats, Floats], Floats]
"""A linear function of means and free energies."""


class StateAnswers:
    """Means of observables in states, and the states' free energies, with errors from influence values or refits.

    Parameters
    ----------
    rows : StateWeights
        The rows.
    method : str
        How errors are computed: one of `METHODS`.
    u : ndarray of shape (L, n)
        Potentials of states.
    A : ndarray of shape (S, n) or None
        The observable of each mean.
    in_states : ndarray of int of shape (S,) or None
        The state of each mean; all by default.

    Attributes
    ----------
    mu, f : ndarray of shape (S,), ndarray of shape (L,)
        The means, and the free energies.
    """

    def __init__(
        self, rows: StateWeights, method: str, u: Floats, A: Floats | None, in_states: Integers | None
    ) -> None:
        self._rows, self._method = rows, method
        self.f, self.w = rows._under(u)
        self.states = np.arange(len(u)) if in_states is None else in_states
        self.A = np.zeros((0, u.shape[1])) if A is None else A
        self.under = self.w[self.states[: len(self.A)]]  # no observable, no mean
        self.mu = times(self.under, self.A).sum(axis=1)

    def _refit(self, w: Floats) -> Floats:
        """Return means and free energies, up to a constant, with the weights of the rows multiplied by w."""
        total = self.w @ w
        mean = (times(self.under, self.A) @ w) / (self.under @ w)
        return np.concatenate([mean, self.f - np.log(total)])

    @cached_property
    def refits(self) -> list[Floats] | None:
        """Means, and free energies up to a constant, in each refit: of shapes (B, S) and (B, L)."""
        if self._method != "bootstrap":
            return None
        drawn = self._rows._bootstrap(self._refit, self._rows.n_bootstraps, self._rows._seed)
        return np.split(drawn, [len(self.mu)], axis=1)

    def covariance(self, combine: Combination = lambda mu, f: mu) -> Floats:
        """Return the covariance of the means, or of another combination."""
        if self.refits is None:
            moved = times(self.under, self.A - self.mu[:, None])
            return self._covariance(combine(moved, -self.w))
        return covariance_over(combine(*self.refits))

    def _covariance(self, Y: Floats) -> Floats:
        return self._rows._covariance(Y.T, weights_known=self._method == "approximate")

    def means(self, with_errors: bool) -> Results:
        """Return the means and, if they are asked for, their standard errors."""
        results = {"mu": self.mu}
        return results | {"sigma": np.sqrt(np.maximum(np.diag(self.covariance()), 0.0))} if with_errors else results

    def between(self, combine: Combination, differences_as: str, errors_as: str = "") -> Results:
        """Return differences of a combination between states and, if they have a key, their standard errors."""
        results = {differences_as: differences(combine(self.mu, self.f))}
        return results | {errors_as: errors_of_differences(self.covariance(combine))} if errors_as else results

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

"""Free energies and expectations of thermodynamic states, under pymbar's names."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

from vardi._estimate.reliability import warn_of_few_bridging
from vardi._fit.debias import debias_matrix
from vardi._types import Floats, Integers
from vardi.mbar._arguments import (
    ParameterError,
    as_bootstraps,
    as_seed,
    as_sizes,
    as_source,
    by_row,
    by_state,
    require_potentials,
    uncertainty,
)
from vardi.mbar._states import (
    Results,
    StateAnswers,
    StateWeights,
    covariance_over,
    differences,
    errors_of_differences,
)


class StateOverlap(TypedDict):
    """What pymbar calls the overlap of states."""

    scalar: float
    eigenvalues: Floats
    matrix: Floats


class MBAR(StateWeights):
    r"""The multistate Bennett acceptance ratio: free energies of states from samples of several of them.

    A state of reduced potential :math:`u_k` is a bias :math:`\omega_k = e^{-u_k}`, so its free energy is minus the log
    of its normaliser, and :math:`f_k` solves

    .. math:: e^{-f_k} = \sum_n \frac{e^{-u_k(x_n)}}{\sum_l N_l e^{f_l - u_l(x_n)}}.

    Methods, arguments and keys of results are those of ``pymbar.MBAR`` 4, so that a script runs with its import
    changed. Results agree with pymbar's except where pymbar's differ from its documentation: ``covariances`` are
    covariances of the estimates themselves, ``compute_covariance_of_sums`` counts each pair once, and errors of
    perturbed free energies by bootstrap are those of differences. Where samples do not overlap enough to be compared it
    raises :class:`~vardi.errors.NotIdentifiableError`.

    Parameters
    ----------
    u_kn : array of shape (K, n)
        Reduced potential of each row (column of the array) in each state, ``inf`` where a state forbids it. Rows padded
        by sample, of shape (K, L, N_max), are accepted, too.
    N_k : array of int of shape (K,)
        How many rows were drawn in each state; 0 for a state that was not simulated.
    maximum_iterations, relative_tolerance, verbose, initial_f_k, solver_protocol, initialize, bootstrap_solver_protocol
        Options of pymbar's solvers, which change nothing here: Newton's method solves the equations to a relative error
        of 1e-10, with a certificate. They are accepted so that scripts run unchanged.
    x_kindices : array of int of shape (n,), optional
        The state that each row was drawn in; by default rows are ordered by state.
    n_bootstraps : int
        Refits for ``uncertainty_method="bootstrap"``, made when they are first asked for: the Bayesian bootstrap, in
        which every row stays, so that samples which can be compared remain so.
    rseed : int, optional
        Seed of the refits.
    series, clusters
        How rows depend on one another, as for :func:`vardi.debias_matrix`: with ``series=True`` rows are frames in
        their order in time, and no frame has to be thrown away for its autocorrelation.

    Attributes
    ----------
    fit : DebiasedSample
        The fit behind all results. Its population is the flat state :math:`u = 0`: that of an umbrella
        simulation whose ``u_kn`` holds the biases alone, otherwise a reference that drops out of every difference.
    f_k : ndarray of shape (K,)
        Free energies, that of the first state being 0.
    N_k : ndarray of int
        Rows of each state.
    states_with_samples, K_nonzero : ndarray of int, int
        The states that have rows, and how many these are.
    u_kn : ndarray of shape (K, n)
        The reduced potentials.
    x_kindices : ndarray of int
        The state that each row was drawn in.

    Examples
    --------
    >>> import vardi
    >>> design = vardi.datasets.harmonic_oscillators(states=3, rows_per_state=500, seed=0)
    >>> mbar = vardi.mbar.MBAR(-design.omega.T, [500, 500, 500])
    >>> answers = mbar.compute_free_energy_differences()
    >>> answers["Delta_f"][0].round(3), answers["dDelta_f"][0].round(3)
    (array([0.   , 0.23 , 0.404]), array([0.   , 0.035, 0.064]))
    """

    def __init__(
        self,
        u_kn: ArrayLike,
        N_k: ArrayLike,
        maximum_iterations: int = 10000,
        relative_tolerance: float = 1e-7,
        verbose: bool = False,
        initial_f_k: ArrayLike | None = None,
        solver_protocol: object = None,
        initialize: str = "zeros",
        x_kindices: ArrayLike | None = None,
        n_bootstraps: int | None = 0,
        bootstrap_solver_protocol: object = None,
        rseed: int | None = None,
        *,
        series: ArrayLike | bool | None = None,
        clusters: ArrayLike | None = None,
    ) -> None:
        self.N_k: Integers = as_sizes(N_k)
        self.u_kn: Floats = by_state(u_kn, self.N_k)
        self.K, self.N = self.u_kn.shape
        if len(self.N_k) != self.K:
            raise ParameterError(
                f"u_kn has {self.K} states, but N_k counts the rows of {len(self.N_k)}. Give 0 rows for a state that "
                "was not simulated."
            )
        require_potentials(self.u_kn)
        self.x_kindices: Integers = as_source(x_kindices, self.N_k)
        self.states_with_samples: Integers = np.flatnonzero(self.N_k)
        self.K_nonzero = len(self.states_with_samples)
        self.n_bootstraps = as_bootstraps(n_bootstraps)
        self._seed = as_seed(rseed)
        series = None if series is False else series
        self._is_dependent = series is not None or clusters is not None
        self._debias = partial(debias_matrix, source=self.x_kindices, log=True, series=series, clusters=clusters)
        self.fit = self._debias(np.negative(self.u_kn.T, order="C"))

    def __repr__(self) -> str:
        return f"MBAR({self.N} rows of {self.K_nonzero} states, {self.K} states in all)"

    def weights(self) -> Floats:
        """Return ``W_nk``."""
        return self.W_nk

    @cached_property
    def f_k_boots(self) -> Floats:
        """Free energies of each refit, of shape (n_bootstraps, K), that of the first state being 0."""
        uncertainty("bootstrap", self.n_bootstraps)
        log_totals = self._bootstrap(lambda w: np.log(w @ self.W_nk), self.n_bootstraps, self._seed)
        return np.asarray(self.f_k - log_totals + log_totals[:, [0]])

    def compute_effective_sample_number(self, verbose: bool = False) -> Floats:
        r"""Return Kish's number of rows that estimates in each state rest on, :math:`1 / \sum_n W_{nk}^2`."""
        return np.asarray(1.0 / (self.W_nk**2).sum(axis=0))

    def compute_overlap(self) -> StateOverlap:
        r"""Return the overlap matrix, :math:`O_{ij} = N_j \sum_n W_{ni} W_{nj}`, and its eigenvalues.

        Returns
        -------
        dict
            ``matrix``: the probability that a row of state i is found in state j; ``eigenvalues``, from large to small;
            ``scalar``, 1 minus the second of them, which is 0 where the states fall apart.
        """
        root = np.sqrt(self.N_k)
        same = root[:, None] * self._gram * root  # has the eigenvalues of N gram
        eigenvalues = np.linalg.eigvalsh(same)[::-1].astype(np.float64)
        second = eigenvalues[1] if self.K > 1 else 0.0
        return {"scalar": 1.0 - second, "eigenvalues": eigenvalues, "matrix": self.N_k * self._gram}

    def compute_free_energy_differences(
        self,
        compute_uncertainty: bool = True,
        uncertainty_method: str | None = None,
        warning_cutoff: float = 1e-10,
        return_theta: bool = False,
    ) -> Results:
        r"""Return the difference of free energies of each pair of states.

        Parameters
        ----------
        compute_uncertainty : bool
            Whether errors are given.
        uncertainty_method : {"svd-ew", "svd", "approximate", "bootstrap"}, optional
            MBAR's asymptotic covariance, for which pymbar has the first two names, computed here without a
            decomposition; the same as if free energies were known, which is too small; or the spread of refits.
        warning_cutoff : float
            Ignored: no variance is negative.
        return_theta : bool
            Whether the covariance of the log normalisers is given, relative to the distribution of all rows together.

        Returns
        -------
        dict
            ``Delta_f[i, j]``, which is :math:`f_j - f_i`; ``dDelta_f``, its standard error; ``Theta`` if it is asked
            for.
        """
        method = uncertainty(uncertainty_method, self.n_bootstraps)
        results: Results = {"Delta_f": differences(self.f_k)}
        analytical = compute_uncertainty and method != "bootstrap"
        if analytical or return_theta:
            theta = self._theta(weights_known=method == "approximate")
        if compute_uncertainty:
            warn_of_few_bridging(self.fit.bridge, "The errors of free energies rest")
            results["dDelta_f"] = errors_of_differences(theta if analytical else covariance_over(self.f_k_boots))
        return results | ({"Theta": theta} if return_theta else {})

    def compute_perturbed_free_energies(
        self,
        u_ln: ArrayLike,
        compute_uncertainty: bool = True,
        uncertainty_method: str | None = None,
        warning_cutoff: float = 1e-10,
    ) -> Results:
        """Return differences of free energies among other states, that no row was drawn in.

        Parameters
        ----------
        u_ln : array of shape (L, n)
            Reduced potential of each row in each of these states.
        compute_uncertainty, uncertainty_method, warning_cutoff
            As for :meth:`compute_free_energy_differences`.

        Returns
        -------
        dict
            ``Delta_f`` and ``dDelta_f``, of shape (L, L).
        """
        answers = self._inner(uncertainty_method, u_ln)
        return answers.between(lambda mu, f: f, "Delta_f", "dDelta_f" if compute_uncertainty else "")

    def compute_expectations(
        self,
        A_n: ArrayLike,
        u_kn: ArrayLike | None = None,
        output: str = "averages",
        state_dependent: bool = False,
        compute_uncertainty: bool = True,
        uncertainty_method: str | None = None,
        warning_cutoff: float = 1e-10,
        return_theta: bool = False,
    ) -> Results:
        r"""Return the mean of an observable in each state, :math:`\bar A_k = \sum_n W_{nk} A(x_n)`.

        Parameters
        ----------
        A_n : array of shape (n,), or of shape (K, n) where it depends on the state
            The observable of each row.
        u_kn : array of shape (L, n), optional
            Reduced potentials of the states to evaluate; by default those of the fit.
        output : {"averages", "differences"}
            Means, or their differences between states.
        state_dependent : bool
            Whether ``A_n`` has a row for each state.
        compute_uncertainty, uncertainty_method, warning_cutoff
            As for :meth:`compute_free_energy_differences`.
        return_theta : bool
            Whether to return the covariance behind ``sigma``, as pymbar lays it out.

        Returns
        -------
        dict
            ``mu`` and ``sigma``, of shape (L,) or, as differences j minus i, (L, L); ``Theta`` if it is asked for.
        """
        if output not in ("averages", "differences"):
            raise ParameterError(f"output is {output!r}. Give 'averages' or 'differences'.")
        u_ln = self._potentials(u_kn)
        A = by_state(A_n, self.N_k, "A_n") if state_dependent else by_row(A_n, self.N_k, "A_n")[None, :]
        if state_dependent and len(A) != len(u_ln):
            raise ParameterError(
                f"A_n has {len(A)} rows, but there are {len(u_ln)} states. Give one for each state, or "
                "state_dependent=False."
            )
        answers = self._inner(uncertainty_method, u_ln, np.broadcast_to(A, u_ln.shape))
        if output == "differences":
            results = answers.between(lambda mu, f: mu, "mu", "sigma" if compute_uncertainty else "")
        else:
            results = answers.means(compute_uncertainty)
        return results | ({"Theta": answers.theta(scaled=True)} if return_theta else {})

    def compute_multiple_expectations(
        self,
        A_in: ArrayLike,
        u_n: ArrayLike,
        compute_uncertainty: bool = True,
        compute_covariance: bool = False,
        uncertainty_method: str | None = None,
        warning_cutoff: float = 1e-10,
        return_theta: bool = False,
    ) -> Results:
        """Return the means of several observables in one state.

        Parameters
        ----------
        A_in : array of shape (I, n)
            The observables of each row.
        u_n : array of shape (n,)
            Reduced potential of each row in that state.
        compute_uncertainty, compute_covariance : bool
            Whether errors, and covariances, are given.
        uncertainty_method, warning_cutoff, return_theta
            As for :meth:`compute_expectations`.

        Returns
        -------
        dict
            ``mu`` and ``sigma``, of shape (I,); ``covariances`` of the means, of shape (I, I); ``Theta``.
        """
        A = np.array([by_row(one, self.N_k, "A_in") for one in np.asarray(A_in)])
        answers = self._inner(uncertainty_method, by_row(u_n, self.N_k, "u_n"), A, np.zeros(len(A), int))
        results = answers.means(compute_uncertainty)
        results |= {"covariances": answers.covariance()} if compute_covariance else {}
        return results | ({"Theta": answers.theta(scaled=True)} if return_theta else {})

    def compute_expectations_inner(
        self,
        A_n: ArrayLike,
        u_ln: ArrayLike,
        state_map: ArrayLike,
        uncertainty_method: str | None = None,
        warning_cutoff: float = 1e-10,
        return_theta: bool = False,
    ) -> Results:
        """Return means of observables in given states, and the free energies of these states.

        Parameters
        ----------
        A_n : array of shape (I, n)
            Observables of each row.
        u_ln : array of shape (L, n)
            Reduced potentials of states.
        state_map : array of int of shape (2, S) or (S,)
            The state of each mean, and beneath it the observable; or states alone, for their free energies.
        uncertainty_method, warning_cutoff
            As for :meth:`compute_expectations`.
        return_theta : bool
            Whether the covariance is given, of the logs of means (beyond ``Amin``) and of the log normalisers.

        Returns
        -------
        dict
            ``observables``, ``f``, ``Theta`` and ``Amin``; with a bootstrap ``bootstrapped_observables`` and
            ``bootstrapped_f``.
        """
        pairs, u = np.asarray(state_map), self._potentials(u_ln)
        if pairs.ndim == 1:
            answers = self._inner(uncertainty_method, u[pairs])
        else:
            answers = self._inner(uncertainty_method, u, by_state(A_n, self.N_k, "A_n")[pairs[1]], pairs[0])
        results: Results = {"f": answers.f[answers.states]}
        if len(answers.mu):
            results["observables"] = answers.mu
        if return_theta:
            results |= {"Theta": answers.theta(scaled=False), "Amin": answers.least}
        if return_theta and answers.refits is not None:
            results["bootstrapped_observables"], f = answers.refits
            results["bootstrapped_f"] = f[:, answers.states]
        return results

    def compute_entropy_and_enthalpy(
        self,
        u_kn: ArrayLike | None = None,
        uncertainty_method: str | None = None,
        verbose: bool = False,
        warning_cutoff: float = 1e-10,
    ) -> Results:
        r"""Return differences of free energies as those of potentials and entropies, :math:`f = \bar u - s`.

        Parameters
        ----------
        u_kn : array of shape (L, n), optional
            Reduced potentials of the states to evaluate; by default those of the fit.
        uncertainty_method, verbose, warning_cutoff
            As for :meth:`compute_free_energy_differences`.

        Returns
        -------
        dict
            ``Delta_f``, ``Delta_u``, ``Delta_s``, which are j minus i, and their errors ``dDelta_f``, ``dDelta_u``,
            ``dDelta_s``.
        """
        u = self._potentials(u_kn)
        answers = self._inner(uncertainty_method, u, u)
        free_energies = answers.between(lambda mu, f: f, "Delta_f", "dDelta_f")
        potentials = answers.between(lambda mu, f: mu, "Delta_u", "dDelta_u")
        return free_energies | potentials | answers.between(lambda mu, f: mu - f, "Delta_s", "dDelta_s")

    def compute_covariance_of_sums(self, d_ij: ArrayLike, K: int, a: ArrayLike) -> Floats:
        r"""Return the errors of weighted sums of differences, :math:`\sum_k a_k (f_{i + kK} - f_{j + kK})`.

        The variance of a contrast c is :math:`-\frac12 c'Vc`, with V the variances of all differences.

        Parameters
        ----------
        d_ij : array of shape (len(a) K, len(a) K)
            Standard errors of all differences.
        K : int
            How many i and j there are.
        a : array
            The weights.

        Returns
        -------
        ndarray of shape (K, K)
            The standard error of each sum.
        """
        a = np.asarray(a, float)
        variance = np.square(np.asarray(d_ij, float)[: len(a) * K, : len(a) * K]).reshape(len(a), K, len(a), K)
        sums = np.einsum("k,l,kilj->ij", a, a, variance)
        diagonal = np.diag(sums)
        return np.sqrt(np.maximum((sums + sums.T - diagonal[:, None] - diagonal) / 2.0, 0.0))

    def _potentials(self, u: ArrayLike | None) -> Floats:
        """Return potentials of states, of shape (L, n), given in that shape, for one state, or padded by sample."""
        if u is None or u is self.u_kn:
            return self.u_kn
        u = np.asarray(u, np.float64)
        padded = u.ndim == 2 and u.shape[1] != self.N
        potentials = by_row(u, self.N_k, "u_kn")[None, :] if padded else by_state(u, self.N_k)
        require_potentials(potentials)
        return potentials

    def _inner(
        self, method: str | None, u: ArrayLike, A: Floats | None = None, states: Integers | None = None
    ) -> StateAnswers:
        return StateAnswers(self, uncertainty(method, self.n_bootstraps), self._potentials(u), A, states)

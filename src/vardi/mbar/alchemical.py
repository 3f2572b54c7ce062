"""Free energies of alchemical states, with the conventions of alchemlyb's estimators."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from vardi._types import Floats, Integers
from vardi.errors import MismatchError
from vardi.mbar.multistate import MBAR

if TYPE_CHECKING:
    import pandas as pd


def _result(name: str, says: str) -> property:
    """Return a property that holds a result of MBAR as a frame; None before ``fit``, or if it was not asked for."""

    def result(self: AlchemicalEstimator) -> pd.DataFrame | None:
        return getattr(self, "_found", {}).get(name)

    return property(result, doc=says)


@dataclass(eq=False, repr=False)
class AlchemicalEstimator(BaseEstimator):  # type: ignore[misc]
    r"""Free energy differences of alchemical states: alchemlyb's ``MBAR`` on vardi.

    .. math:: \Delta f_{ij} = f_j - f_i,\qquad f_k = -\log\Omega_k,\qquad \omega_k = e^{-u_k}

    It can be used wherever alchemlyb takes its own estimator: in its plots, units and convergence functions.

    Parameters
    ----------
    maximum_iterations, relative_tolerance, initial_f_k, method, verbose
        Options of pymbar's solvers, which change nothing here: Newton's method finds its own start.
    n_bootstraps : int
        Refits whose spread gives the errors; with 0 the errors are analytical.
    series : bool
        Whether rows are frames in time, in the order of the first level of the index, so that errors account for
        their autocorrelation: then rows need not be subsampled.

    Attributes
    ----------
    delta_f_, d_delta_f_ : pandas.DataFrame
        Free energy difference of each pair of states (column minus row) in kT, and its standard error.
    delta_h_, d_delta_h_, delta_sT_, d_delta_sT_ : pandas.DataFrame or None
        The same for enthalpies and for entropies times temperature, if ``fit`` was asked for them.
    theta_ : pandas.DataFrame
        Covariance of the log normalisers, relative to the distribution of all rows together.
    states_ : list
        The states: columns of ``u_nk``.
    overlap_matrix : ndarray
        The probability that a row of state i is found in state j.
    mbar_ : MBAR
        The states themselves, with ``mbar_.fit`` behind them.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import vardi
    >>> rng = np.random.default_rng(0)
    >>> lambdas = [0.0, 0.5, 1.0]
    >>> states = np.repeat(lambdas, 400)
    >>> x = rng.normal(0.0, 1.0 / np.sqrt(1.0 + states))  # springs that stiffen with lambda
    >>> index = pd.MultiIndex.from_arrays([np.tile(np.arange(400.0), 3), states], names=["time", "fep-lambda"])
    >>> u_nk = pd.DataFrame({at: 0.5 * (1.0 + at) * x**2 for at in lambdas}, index=index)
    >>> estimator = vardi.mbar.AlchemicalEstimator().fit(u_nk)
    >>> estimator.delta_f_.loc[0.0, 1.0].round(3), estimator.d_delta_f_.loc[0.0, 1.0].round(3)  # log(2) / 2 = 0.347
    (np.float64(0.332), np.float64(0.013))
    """

    maximum_iterations: int = 10000
    relative_tolerance: float = 1e-7
    initial_f_k: ArrayLike = "BAR"
    method: str = "robust"
    n_bootstraps: int = 0
    verbose: bool = False
    series: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.initial_f_k, str) and self.initial_f_k != "BAR":
            raise MismatchError(
                f"initial_f_k is {self.initial_f_k!r}. Only `BAR` is supported as string input to `initial_f_k`: leave "
                "it out, since the solver finds its own start."
            )

    def fit(self, u_nk: pd.DataFrame, compute_entropy_enthalpy: bool = False) -> AlchemicalEstimator:
        """Fit the free energies of the states in the columns of a frame.

        Parameters
        ----------
        u_nk : pandas.DataFrame
            Reduced potential of each row in each state (column). The index has the time of each row, and then the
            state that it was drawn in.
        compute_entropy_enthalpy : bool
            Whether to compute enthalpies and entropies, too.
        """
        source, N_k = _states_of(u_nk)
        time = u_nk.index.get_level_values(0).to_numpy() if self.series else None
        u_kn = u_nk.to_numpy(np.float64).T
        self.mbar_ = MBAR(u_kn, N_k, x_kindices=source, n_bootstraps=self.n_bootstraps, series=time)
        self._states_ = u_nk.columns.tolist()
        method = "bootstrap" if self.n_bootstraps else None
        results = self.mbar_.compute_free_energy_differences(uncertainty_method=method, return_theta=True)
        if compute_entropy_enthalpy:
            results |= self.mbar_.compute_entropy_and_enthalpy(uncertainty_method=method)
        self._found = {name: self._frame(values, u_nk.attrs) for name, values in results.items()}
        return self

    def _frame(self, values: Floats, attrs: Mapping[Hashable, object]) -> pd.DataFrame:
        """Return numbers for pairs of states as a frame that keeps the unit attributes."""
        import pandas as pd

        frame = pd.DataFrame(values, columns=self._states_, index=self._states_)
        frame.attrs = dict(attrs)
        return frame

    delta_f_ = _result("Delta_f", "Free energy differences in kT.")
    d_delta_f_ = _result("dDelta_f", "Their standard errors.")
    delta_h_ = _result("Delta_u", "Differences of enthalpies in kT.")
    d_delta_h_ = _result("dDelta_u", "Their standard errors.")
    delta_sT_ = _result("Delta_s", "Differences of entropies times temperature in kT.")  # noqa: N815 alchemlyb's name
    d_delta_sT_ = _result("dDelta_s", "Their standard errors.")  # noqa: N815 alchemlyb's name
    theta_ = _result("Theta", "Covariance of the log normalisers, relative to the distribution of all rows together.")

    @property
    def states_(self) -> list[Hashable] | None:
        """The states: columns of ``u_nk``. It cannot be set, as in alchemlyb."""
        return getattr(self, "_states_", None)

    @property
    def overlap_matrix(self) -> Floats:
        """The probability that a row of state i is found in state j."""
        return np.asarray(self.mbar_.compute_overlap()["matrix"])


def _states_of(u_nk: pd.DataFrame) -> tuple[Integers, Integers]:
    """Return the column of the state that each row was drawn in, and how many rows each column has."""
    if getattr(getattr(u_nk, "index", None), "nlevels", 1) < 2:
        raise MismatchError(
            "u_nk has no index of time and state. Give a frame as alchemlyb's parsers make it: levels of the index "
            "after the first are the state that a row was drawn in, columns the states that its potential is given in."
        )
    codes, drawn = u_nk.index.droplevel(0).factorize()
    place = {state: k for k, state in enumerate(u_nk.columns.tolist())}
    missing = [state for state in drawn.tolist() if state not in place]
    if missing:
        raise MismatchError(
            f"Rows of u_nk were drawn in state {missing[0]}, but no column has the potential in it. Add that column, "
            "or leave out its rows."
        )
    source = np.array([place[state] for state in drawn.tolist()])[codes]
    return source, np.bincount(source, minlength=len(place))

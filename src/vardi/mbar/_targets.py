"""What a surface describes: rows under a state of a simulation, or the population of any fit."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy import sparse

from vardi._fit.sample import DebiasedSample
from vardi._types import Floats
from vardi.errors import MismatchError
from vardi.mbar._surfaces import Functions
from vardi.mbar._weights import StateWeights, dense


class LawOfRows(Protocol):
    """A law of the rows under which functions have means."""

    def means(self, functions: Functions) -> Floats: ...
    def log_covariance(self, functions: Functions) -> Floats: ...
    def refits(self, functions: Functions, n: int, seed: int) -> Floats: ...


class InState:
    """Rows of a simulation under a state of reduced potential u_n.

    Parameters
    ----------
    rows : StateWeights
        The rows.
    u_n : ndarray of shape (n,)
        Their potential in that state.
    """

    def __init__(self, rows: StateWeights, u_n: Floats) -> None:
        self._rows = rows
        self._w = rows.under(u_n[None, :])[1][0]

    def means(self, functions: Functions) -> Floats:
        """Return the mean of each function."""
        return np.asarray(_numbers(functions).T @ self._w)

    def log_covariance(self, functions: Functions) -> Floats:
        """Return the covariance of the logs of the means, valid for contrasts only."""
        scale = sparse.diags_array(1.0 / self.means(functions))
        return self._rows.covariance(sparse.diags_array(self._w) @ _numbers(functions) @ scale)

    def refits(self, functions: Functions, n: int, seed: int) -> Floats:
        """Return the means in each refit, up to a common factor."""
        numbers = _numbers(functions)
        return self._rows.bootstrap(lambda w: np.asarray(numbers.T @ (w * self._w)), n, seed)


class InPopulation:
    """The population of a fit, whatever holds its rows.

    Parameters
    ----------
    fit : DebiasedSample
        The fit.
    """

    def __init__(self, fit: DebiasedSample) -> None:
        self._fit = fit

    def means(self, functions: Functions) -> Floats:
        """Return the mean of each function."""
        solved = self._fit.solved
        return np.asarray(solved.tangent.measure.mean(solved.data.matrix(_as_given(functions))))

    def log_covariance(self, functions: Functions) -> Floats:
        """Return the covariance of the logs of the means."""
        solved = self._fit.solved
        means, influence = solved.tangent.influence(solved.data.matrix(_as_given(functions)))
        return np.asarray(influence.covariance() / np.outer(means, means))

    def refits(self, functions: Functions, n: int, seed: int) -> Floats:
        """Return the means in each refit."""
        given = _as_given(functions)
        drawn = self._fit.bootstrap(given if isinstance(given, list) else list(given.T), n=n, seed=seed)
        return drawn.values[np.isfinite(drawn.log_omegas).any(axis=1)]


def _as_given(functions: Functions) -> Floats | list[str]:
    """Return functions as a fit takes them: expressions, or numbers in an array that holds the zeros, too."""
    return functions if isinstance(functions, list) else dense(functions)


def _numbers(functions: Functions) -> Floats | sparse.csr_array:
    if isinstance(functions, list):
        raise MismatchError(
            "x_n is an expression of columns, but the rows of a simulation are given by their potentials alone. Give "
            "the coordinate of each row as numbers."
        )
    return functions

r"""The bias of a sample with design weights that no other sample has: their regression on columns.

A unit with features c is drawn with a chance :math:`\pi` that may depend on more than c, and its weight is
:math:`w = 1 / \pi`. The sample has the distribution :math:`\pi\,dP / E_P\pi`, so that within the sample

.. math::

    E_s[w \mid c] = \frac{E_P[\pi \cdot 1/\pi \mid c]}{E_P[\pi \mid c]} = \frac{1}{E_P[\pi \mid c]},

and the distribution of c in the sample has the bias :math:`\omega(c) = E_P[\pi \mid c] = 1 / E_s[w \mid c]`: one over a
plain regression of the weight, not a regression of its inverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vardi._types import Floats
from vardi.biases._constants import column_named
from vardi.biases._expressions.nodes import to_text
from vardi.biases._fitted import LEAST_ROWS, Encoding, FittedBias, FittedValues, Read, cross_fitted, named, written
from vardi.biases._values import as_numbers
from vardi.errors import InvalidBiasError, MissingValuesError


@dataclass(frozen=True, repr=False)
class SmoothedBias(FittedBias):
    """A bias that is one over the regression of a weight on columns; `smoothed` makes it.

    Attributes
    ----------
    weight : str
        The column of weights, which the rows of its own sample have.
    names : tuple of str
        The columns that it is regressed on, which all rows have.
    regressor, folds, random_state : estimator or None, int, int
        How it is regressed.
    """

    weight: str
    names: tuple[str, ...]
    regressor: Any = field(default=None, compare=False)
    folds: int = 5
    random_state: int = 0

    def __post_init__(self) -> None:
        if not self.names:
            raise InvalidBiasError(f"{self} has no column. Name what the weight is to be regressed on.", sample="")
        if self.weight in self.names:
            raise InvalidBiasError(
                f"{self} regresses the weight on itself, which the other samples lack. Name columns that all samples "
                f"have; where all have {self.weight!r}, the bias is '1 / {to_text(column_named(self.weight))}'.",
                sample="",
            )
        self._require_folds()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads of the rows of every sample."""
        return self.names

    def __str__(self) -> str:
        return written("smoothed", (self.weight, *self.names))

    __repr__ = FittedBias.__repr__

    def fitted(self, read: Read, own: NDArray[np.bool_], weights: NDArray[Any], sample: str) -> FittedValues:
        """Regress the weights of the sample's own rows, each predicted by models that have not seen it.

        Parameters
        ----------
        read : callable
            Returns a column of all rows of the pool, by its name.
        own : ndarray of bool
            Which of these are rows of the sample.
        weights : ndarray
            The weights of the sample's rows.
        sample : str
            Its name, for messages.
        """
        checked = self._checked(weights, sample)
        encoding = Encoding.of(self.names, read, own, "The weight is regressed on")
        X, y, folds = encoding(read), np.full(len(own), np.nan), np.full(len(own), -1)
        y[own] = checked
        folds[own] = np.random.default_rng(self.random_state).permutation(np.arange(len(checked)) % self.folds)
        models, values = cross_fitted(
            lambda rows: self._model(X[rows], y[rows]), lambda models, X: self.by(models, X, sample), X, folds
        )
        return FittedValues(values, self, encoding, models, sample)

    def _checked(self, weights: NDArray[Any], sample: str) -> NDArray[np.float64]:
        numbers = as_numbers(weights)
        if numbers is None:
            raise InvalidBiasError(
                f"The weights {self.weight!r} of {sample!r} are {weights.dtype}, not numbers.", sample=sample
            )
        y = numbers.astype(np.float64)
        missing = int(np.isnan(y).sum())
        if missing:
            raise MissingValuesError(
                f"The weights {self.weight!r} of {sample!r} are missing in {missing} of its rows, so it is unknown "
                "how likely these were to be drawn. Fill them in, or remove these rows.",
                columns={self.weight: missing},
            )
        bad = np.flatnonzero(~((y > 0) & (y < np.inf)))
        if len(bad):
            raise InvalidBiasError(
                f"The weight {self.weight!r} of row {bad[0]} of {sample!r} is {y[bad[0]]:g}. A design weight is one "
                "over the chance of being drawn: a number above zero.",
                sample=sample,
                rows=bad[:10],
            )
        if len(y) < LEAST_ROWS * self.folds:
            raise InvalidBiasError(
                f"{sample!r} has {len(y)} rows, too few for {self.folds} folds of a regression. Give fewer folds.",
                sample=sample,
            )
        return y

    def _model(self, X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
        from sklearn.base import clone
        from sklearn.ensemble import HistGradientBoostingRegressor

        model = (
            HistGradientBoostingRegressor(loss="gamma", max_iter=50, random_state=self.random_state)
            if self.regressor is None
            else clone(self.regressor)
        )
        return model.fit(X, y)

    def by(self, models: Sequence[Any], X: Floats, sample: str) -> Floats:
        """Return one over the mean weight that some models predict."""
        found: Floats = np.mean([np.asarray(model.predict(X), np.float64) for model in models], axis=0)
        bad = np.flatnonzero(~((found > 0) & (found < np.inf)))
        if len(bad):
            raise InvalidBiasError(
                f"The regression of the weight {self.weight!r} of {sample!r} predicts {found[bad[0]]:g}, but a mean "
                "weight is above zero. Leave regressor out, or give one with a log link.",
                sample=sample,
            )
        return 1.0 / found


def smoothed(
    weight: str, columns: str | Sequence[str], regressor: Any = None, folds: int = 5, random_state: int = 0
) -> SmoothedBias:
    r"""Return the bias of a sample with design weights that the other samples lack.

    A bias is evaluated on the rows of all samples, so ``"1 / pw"`` needs ``pw`` on all of them. Where only the
    sample's own rows have it, the bias is taken as a function of columns that all have:

    .. math:: \omega(c) = E_P[\pi \mid c] = 1 / E_s[w \mid c],

    one over the mean weight of the sample's rows with features c. For the rows with features c the sample holds a share
    :math:`E_P[\pi \mid c]` of the population; and since the sample's distribution is :math:`\pi\,dP` up to a constant,
    :math:`E_s[1/\pi \mid c] = E_P[\pi/\pi \mid c] / E_P[\pi \mid c]`. It is exact where the other samples' biases are
    functions of c too. The mean is a regression, fitted in folds: rows of the sample get the prediction of models that
    have not seen them, other rows the mean over the models. Errors of estimates do not include that of the regression.

    Parameters
    ----------
    weight : str
        The column of weights, one over the chance of being drawn.
    columns : str or sequence of str
        Columns of numbers or text that all samples have; a text that does not occur in the sample's own rows is
        treated as different from all that do.
    regressor : scikit-learn regressor, optional
        Gradient boosting with a log link (gamma deviance) by default. It is cloned for each fold.
    folds : int
        How many.
    random_state : int
        Of folds and regressor.

    Examples
    --------
    >>> import vardi
    >>> vardi.smoothed("pw", ["age", "region"])
    where('smoothed(pw, age, region)')
    """
    column_named(weight)
    return SmoothedBias(weight, named(columns), regressor, folds, random_state)

r"""The bias of a sample that brings design weights of its own, which no other sample has: their regression on columns.

A unit with features c is drawn with a chance :math:`\pi` that may depend on more than c, and its weight is
:math:`w = 1 / \pi`. The sample has the law :math:`\pi\,dP / E_P\pi`, so that within the sample

.. math::

    E_s[w \mid c] = \frac{E_P[\pi \cdot 1/\pi \mid c]}{E_P[\pi \mid c]} = \frac{1}{E_P[\pi \mid c]},

and the law of c in the sample has the bias :math:`\omega(c) = E_P[\pi \mid c] = 1 / E_s[w \mid c]`: one over a plain
regression of the weight, and not a regression of one over the weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vardi.biases._constants import column_named
from vardi.biases._expressions.nodes import to_text
from vardi.biases._kinds import Bias, ValuesBias
from vardi.biases._values import as_numbers, is_missing
from vardi.errors import InvalidBiasError, MissingValuesError

Read = Callable[[str], NDArray[Any]]
"""A column of some rows, by its name."""

LEAST_ROWS = 2  # of a fold


@dataclass(frozen=True, repr=False)
class SmoothedBias(Bias):
    """A bias that is one over the regression of a weight on columns; `smoothed` makes it.

    Attributes
    ----------
    weight : str
        The column of weights, which the rows of its own sample have.
    names : tuple of str
        The columns that it is regressed on, which all rows have.
    regressor, folds, random_state : estimator or None, int, int
        How.
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
                f"{self} regresses the weight on itself, and the other samples lack it. Name columns that all samples "
                f"have; where all have {self.weight!r}, the bias is '1 / {to_text(column_named(self.weight))}'.",
                sample="",
            )
        if not isinstance(self.folds, int) or isinstance(self.folds, bool) or self.folds < 2:
            raise InvalidBiasError(f"folds is {self.folds!r}. Give a whole number, 2 or more.", sample="")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads of the rows of every sample."""
        return self.names

    def __str__(self) -> str:
        return f"smoothed({', '.join(to_text(column_named(name)) for name in (self.weight, *self.names))})"

    def __repr__(self) -> str:
        return f"where({str(self)!r})"

    def fitted(self, read: Read, own: NDArray[np.bool_], weights: NDArray[Any], sample: str) -> SmoothedValues:
        """Regress the weights of the sample's own rows, each predicted by models that have not seen it.

        Parameters
        ----------
        read : callable
            A column of all rows of the pool, by its name.
        own : ndarray of bool
            Which of these are rows of the sample.
        weights : ndarray
            The weights of those.
        sample : str
            Its name, for messages.
        """
        y = self._checked(weights, sample)
        encoding = Encoding.of(self.names, read, own)
        X = encoding(read)
        folds = np.random.default_rng(self.random_state).permutation(np.arange(len(y)) % self.folds)
        inside = X[own]
        models = [self._model(inside[folds != fold], y[folds != fold]) for fold in range(self.folds)]
        values = np.empty(len(X))
        values[~own] = self._means(models, X[~own], sample)
        mine = np.empty(len(y))
        for fold, model in enumerate(models):
            mine[folds == fold] = self._means([model], inside[folds == fold], sample)
        values[own] = mine
        return SmoothedValues(1.0 / values, self, encoding, tuple(models), sample)

    def _checked(self, weights: NDArray[Any], sample: str) -> NDArray[np.float64]:
        numbers = as_numbers(weights)
        if numbers is None:
            raise InvalidBiasError(
                f"The weights {self.weight!r} of {sample!r} are {weights.dtype}, and not numbers.", sample=sample
            )
        y = numbers.astype(np.float64)
        missing = int(np.isnan(y).sum())
        if missing:
            raise MissingValuesError(
                f"The weights {self.weight!r} of {sample!r} are missing in {missing} of its rows, so that nothing "
                "tells how likely these were drawn. Fill them in, or take these rows out.",
                columns={self.weight: missing},
            )
        bad = np.flatnonzero(~((y > 0) & (y < np.inf)))
        if len(bad):
            raise InvalidBiasError(
                f"The weight {self.weight!r} of row {bad[0]} of {sample!r} is {y[bad[0]]:g}. A design weight is one "
                "over the chance to be drawn: a number above zero.",
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

    def _means(self, models: Sequence[Any], X: NDArray[np.float64], sample: str) -> NDArray[np.float64]:
        if not len(X):
            return np.empty(0)
        found: NDArray[np.float64] = np.mean([np.asarray(model.predict(X), np.float64) for model in models], axis=0)
        bad = np.flatnonzero(~((found > 0) & (found < np.inf)))
        if len(bad):
            raise InvalidBiasError(
                f"The regression of the weight {self.weight!r} of {sample!r} predicts {found[bad[0]]:g}, and a mean "
                "weight is above zero. Leave regressor out, or give one with a log link.",
                sample=sample,
            )
        return found


@dataclass(frozen=True, eq=False, repr=False)
class SmoothedValues(ValuesBias):
    """A smoothed bias with its values on the pool, and the models that give them on other rows."""

    declared: SmoothedBias
    encoding: Encoding
    models: tuple[Any, ...]
    sample: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads of the rows of every sample."""
        return self.declared.columns

    def on(self, read: Read) -> NDArray[np.float64]:
        """Return the bias on other rows, by the mean of the models."""
        return 1.0 / self.declared._means(self.models, self.encoding(read), self.sample)

    def __str__(self) -> str:
        return str(self.declared)

    __repr__ = __str__


@dataclass(frozen=True)
class Encoding:
    """Columns as numbers: those of numbers as they are, others as a column for each value that the sample has."""

    values: dict[str, tuple[str, ...] | None]

    @classmethod
    def of(cls, names: Sequence[str], read: Read, own: NDArray[np.bool_]) -> Encoding:
        """Look at which values the rows of a sample have."""
        columns = {name: read(name) for name in names}
        return cls(
            {
                name: None if as_numbers(column) is not None else tuple(sorted({str(value) for value in column[own]}))
                for name, column in columns.items()
            }
        )

    def __call__(self, read: Read) -> NDArray[np.float64]:
        """Return columns of some rows as a matrix, or refuse missing values."""
        parts: list[NDArray[np.float64]] = []
        for name, levels in self.values.items():
            column = read(name)
            missing = sum(map(is_missing, column.tolist())) if column.dtype.kind in "fOM" else 0
            if missing:
                raise MissingValuesError(
                    f"The weight is regressed on {name!r}, which is missing in {missing} rows. Fill it in, take these "
                    "rows out, or leave this column out of the regression.",
                    columns={name: missing},
                )
            if levels is None:
                numbers = as_numbers(column)
                if numbers is None:
                    raise InvalidBiasError(f"The column {name!r} holds {column.dtype}, and not numbers.", sample="")
                parts.append(numbers.astype(np.float64))
            else:
                texts = np.array([str(value) for value in column.tolist()], dtype=object)
                parts += [(texts == level).astype(np.float64) for level in levels]
        return np.column_stack(parts)


def smoothed(
    weight: str, columns: str | Sequence[str], regressor: Any = None, folds: int = 5, random_state: int = 0
) -> SmoothedBias:
    r"""Return the bias of a sample that brings design weights which the other samples lack.

    A bias is asked for the rows of all samples, so that ``"1 / pw"`` needs ``pw`` on all of them. Where only the
    sample's own rows have it, the bias is taken as a function of columns that all have:

    .. math:: \omega(c) = E_P[\pi \mid c] = 1 / E_s[w \mid c],

    one over the mean weight of the sample's rows with features c. For the rows with features c the sample holds a share
    :math:`E_P[\pi \mid c]` of the population; and since the sample's law is :math:`\pi\,dP` up to a constant,
    :math:`E_s[1/\pi \mid c] = E_P[\pi/\pi \mid c] / E_P[\pi \mid c]`. It is exact where the other samples' biases are
    functions of c too. The mean is a regression, fitted in folds: rows of the sample get the prediction of models that
    have not seen them, other rows the mean over the models. Errors of estimates do not include that of the regression.

    Parameters
    ----------
    weight : str
        The column of weights, one over the chance to be drawn.
    columns : str or sequence of str
        Columns of numbers or texts that all samples have; a text of the sample's own rows that is not among those is
        taken as none of them.
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
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    for name in (weight, *names):
        column_named(name)
    return SmoothedBias(weight, names, regressor, folds, random_state)

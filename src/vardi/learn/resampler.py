r"""Draw rows by their debiased weight: for learners that take no weights.

Row i is drawn with probability :math:`\pi_i`, so the drawn rows are what an unbiased sample could have been.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from vardi._sums import Floats, Integers
from vardi.errors import MismatchError
from vardi.learn._joined import debias_rows, take

Method: TypeAlias = Literal["multinomial", "systematic"]


class DebiasedResampler(BaseEstimator):  # type: ignore[misc]
    r"""Draw an unbiased sample from K biased ones, in the conventions of imbalanced-learn.

    Parameters
    ----------
    biases : mapping from name to bias, or list of biases
        As for :func:`vardi.debias`. They read the columns of X (``x0``, ``x1``, ... of an array) and the target. None
        is one sample without bias.
    shares : mapping, optional
        Known shares of the population, as for :func:`vardi.debias`.
    size : int, float or None
        Rows to draw; a float is a share of the rows there are. None draws as many as there are, or without replacement
        as many as can be. More rows than the effective size :math:`1 / \sum_i \pi_i^2` repeat what is known: they
        steady the draw, and add no information.
    replace : bool
        Whether a row may be drawn more than once. If not, row i is drawn with probability ``size`` :math:`\pi_i`, which
        bounds the size by :math:`1 / \max_i \pi_i`: nothing beyond it would be unbiased.
    method : {"multinomial", "systematic"}
        Independent draws, or one random offset :math:`U` over the cumulated probabilities, at
        :math:`(j + U) / \mathrm{size}`: then row i comes :math:`\lfloor \mathrm{size}\,\pi_i \rfloor` or
        :math:`\lceil \mathrm{size}\,\pi_i \rceil` times, in the order of the rows, and the draw adds little noise.
        Without replacement both are systematic, "multinomial" over the rows in random order.
    target : str, optional
        Name by which the biases read y. By default that of the series, else ``"y"``.
    random_state : int, RandomState, Generator or None
        For the same draw again.

    Attributes
    ----------
    sample_indices_ : ndarray of int
        Positions of the drawn rows.
    debiased_ : DebiasedSample
        The fit: normalisers, diagnostics, errors.
    weights_ : array or series
        Weight of each row given, with mean 1.

    Notes
    -----
    In a pipeline of imbalanced-learn ``source`` arrives by metadata routing only: switch it on, import ``imblearn``
    before ``vardi.learn``, and ask for it with ``set_fit_request(source=True)`` and
    ``set_fit_resample_request(source=True)``. ``DebiasedEstimator(..., resample=True)`` does the same without.

    Examples
    --------
    An agency that sells houses of at most 22 only, and a small national survey:

    >>> import numpy as np
    >>> import pandas as pd
    >>> import vardi
    >>> from vardi.learn.resampler import DebiasedResampler
    >>> design = vardi.datasets.house_prices(seed=0)
    >>> rows = pd.concat(design.samples.values())
    >>> source = np.repeat(list(design.samples), [len(sample) for sample in design.samples.values()])
    >>> resampler = DebiasedResampler(biases=design.biases, method="systematic", random_state=0)
    >>> X, y = resampler.fit_resample(rows[["RM", "LSTAT"]], rows["MEDV"], source=source)
    >>> print(f"mean price {rows['MEDV'].mean():.1f} in the pool, {y.mean():.1f} in the draw")
    mean price 19.1 in the pool, 23.4 in the draw
    >>> bool((y == rows["MEDV"].iloc[resampler.sample_indices_]).all())
    True
    """

    def __init__(
        self,
        *,
        biases: Any = None,
        shares: Any = None,
        size: float | None = None,
        replace: bool = True,
        method: Method = "multinomial",
        target: str | None = None,
        random_state: Any = None,
    ) -> None:
        self.biases = biases
        self.shares = shares
        self.size = size
        self.replace = replace
        self.method = method
        self.target = target
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, source: Any = None) -> Self:
        """Compute the weights; parameters as for :meth:`fit_resample`."""
        self.debiased_ = debias_rows(X, y, source, self.biases, self.target, self.shares)
        self.weights_ = self.debiased_.weights
        validate_data(self, X, skip_check_array=True)
        return self

    def fit_resample(self, X: Any, y: Any = None, source: Any = None) -> tuple[Any, Any]:
        """Compute the weights and draw rows.

        Parameters
        ----------
        X : array, sparse array or frame
            The rows of all samples.
        y : array, series or frame, optional
            Their targets.
        source : array of labels, or str
            The sample of each row, or the column of X that says so. None where there is one sample only.

        Returns
        -------
        X_resampled, y_resampled
            The drawn rows, in the library and with the index labels of those given. Always two: y is None if it was.
        """
        self.fit(X, y, source)
        probabilities = np.asarray(self.debiased_.probabilities)
        rng = as_generator(self.random_state)
        self.sample_indices_ = draw(probabilities, self.size, rng, replace=self.replace, method=self.method)
        return take(X, self.sample_indices_), None if y is None else take(y, self.sample_indices_)


def draw(probabilities: Floats, size: Any, rng: Any, *, replace: bool = True, method: Method = "multinomial") -> Any:
    """Return positions drawn by probability; size and method are those of :class:`DebiasedResampler`.

    Examples
    --------
    >>> import numpy as np
    >>> from vardi.learn.resampler import draw
    >>> draw(np.array([0.5, 0.3, 0.2]), 10, np.random.default_rng(0), method="systematic")
    array([0, 0, 0, 0, 0, 1, 1, 1, 2, 2])
    """
    if method not in get_args(Method):
        raise MismatchError(
            f"The method is {method!r}. Give 'multinomial' or 'systematic'.", expected=get_args(Method), got=(method,)
        )
    most = math.floor(1.0 / probabilities.max() + 1e-9)
    size = _rows_to_draw(size, len(probabilities), len(probabilities) if replace else most)
    if replace and method == "multinomial":
        return rng.choice(len(probabilities), size=size, p=probabilities)
    if replace:
        return _systematic(probabilities, size, rng)
    if size > most:
        raise MismatchError(
            f"{size} rows cannot be drawn without replacement: the row of largest weight would have to come more than "
            f"once for the draw to be unbiased. Draw at most {most} rows, or with replacement.",
            expected=(most,),
            got=(size,),
        )
    order = rng.permutation(len(probabilities)) if method == "multinomial" else np.arange(len(probabilities))
    while True:  # rounding of the cumulated probabilities may, very rarely, hit a row of probability 1 / size twice
        drawn = _systematic(probabilities[order], size, rng)
        if (np.diff(drawn) > 0).all():
            return order[drawn]


def _systematic(probabilities: Floats, size: int, rng: Any) -> Integers:
    ends = np.cumsum(probabilities)
    points = (np.arange(size) + rng.random()) / size
    return np.searchsorted(ends / ends[-1], np.minimum(points, np.nextafter(1.0, 0.0)), side="right")


def _rows_to_draw(size: Any, n: int, default: int) -> int:
    if size is None:
        return default
    whole = isinstance(size, Integral) and not isinstance(size, bool)
    share = isinstance(size, Real) and not isinstance(size, Integral) and math.isfinite(size)
    rows = int(size) if whole else round(float(size) * n) if share else 0
    if rows < 1:
        raise MismatchError(
            f"size is {size!r}, which is no number of rows to draw. Give an integer (rows), a float (share of the {n} "
            "rows there are) that comes to one row or more, or None.",
            expected=("rows", "share", None),
            got=(size,),
        )
    return rows


def as_generator(random_state: Any) -> Any:
    """Return what scikit-learn or NumPy draws with."""
    return random_state if isinstance(random_state, np.random.Generator) else check_random_state(random_state)

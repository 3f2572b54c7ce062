r"""Draw rows by their debiased weight: for learners that take no weights.

Row i is drawn with probability :math:`\pi_i`, so the drawn rows are what an unbiased sample could have been.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from vardi._estimate.draws import Method, Random, draw
from vardi._estimate.weight_routing import Rows
from vardi._inputs.given import Biases, Known, Labels
from vardi._types import Floats
from vardi.learn.xy_pool import debias_rows, take, with_targets

X_ = TypeVar("X_", bound=Rows)
Seed: TypeAlias = int | Random | None
"""What scikit-learn calls a random state, or a generator of NumPy."""


@dataclass(eq=False, repr=False)
class DebiasedResampler(BaseEstimator):  # type: ignore[misc]
    r"""Draw an unbiased sample from K biased ones, in the conventions of imbalanced-learn.

    Parameters
    ----------
    biases : mapping from name to bias, or list of biases
        As for :func:`vardi.debias`. They read the columns of X (``x0``, ``x1``, ... of an array) and the target. None
        is one sample without bias.
    known : mapping, optional
        What is known of the population, as for :func:`vardi.debias`.
    size : int, float or None
        Rows to draw; a float is a share of the rows. None draws as many as there are, or without replacement as
        many as possible. More rows than the effective size :math:`1 / \sum_i \pi_i^2` repeat what is known: they
        stabilise the draw, but add no information.
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
        For a reproducible draw.

    Attributes
    ----------
    sample_indices_ : ndarray of int
        Positions of the drawn rows.

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

    _: KW_ONLY
    biases: Biases | None = None
    known: Known | None = None
    size: float | None = None
    replace: bool = True
    method: Method = "multinomial"
    target: str | None = None
    random_state: Seed = None

    def fit(self, X: Rows, y: Rows | None = None, source: Labels | None = None) -> Self:
        """Check that the rows can be debiased; parameters as for :meth:`fit_resample`."""
        self._chances(X, y, source)
        return self

    def _chances(self, X: Rows, y: Rows | None, source: Labels | None) -> Floats:
        """Return the chance of each row to be drawn."""
        fit, _ = with_targets(debias_rows(X, y, source, self.biases, self.target, self.known), y)
        validate_data(self, X, skip_check_array=True)
        weights = np.asarray(fit.weights)
        return weights / weights.sum()

    def fit_resample(self, X: X_, y: Rows | None = None, source: Labels | None = None) -> tuple[X_, Any]:
        """Compute the weights and draw rows.

        Parameters
        ----------
        X : array, sparse array or frame
            The rows of all samples.
        y : array, series or frame, optional
            Their targets. Samples without any (all missing) still help the weights of the others, which are drawn.
        source : array of labels, or str
            The sample of each row, or the column of X that names it. None if there is only one sample.

        Returns
        -------
        X_resampled, y_resampled
            The drawn rows, in the library and with the index labels of those given. Always two: y is None if it was.
        """
        chances, rng = self._chances(X, y, source), as_generator(self.random_state)
        self.sample_indices_ = draw(chances, self.size, rng, replace=self.replace, method=self.method)
        return take(X, self.sample_indices_), take(y, self.sample_indices_)


def as_generator(random_state: Seed) -> Random:
    """Return a random generator of NumPy or of scikit-learn."""
    return random_state if isinstance(random_state, np.random.Generator) else check_random_state(random_state)

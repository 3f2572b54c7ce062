"""A Gaussian mixture of the population: scikit-learn's, with a weight for each row."""

from __future__ import annotations

import math
from typing import Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn import mixture
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.mixture._gaussian_mixture import _compute_precision_cholesky, _estimate_gaussian_covariances_full
from sklearn.utils import Tags
from sklearn.utils.validation import _num_samples, validate_data

from vardi._inputs.given import Table
from vardi._types import Floats, Integers
from vardi.errors import InvalidCountsError, MismatchError, VardiError, number_of_rows

__all__ = ["GaussianMixture"]

Size: TypeAlias = Literal["kish", "rows"] | float


class GaussianMixture(mixture.GaussianMixture):  # type: ignore[misc]
    r"""Gaussian mixture fitted by EM to weighted rows: the clusters of the population, not of the pool.

    scikit-learn's :class:`~sklearn.mixture.GaussianMixture`, with its parameters and its attributes; without weights it
    gives the same numbers. With weights :math:`w_i`, such as ``fit.weights``, it maximises the debiased log-likelihood

    .. math:: \ell(\theta) = \sum_i w_i \log p_\theta(x_i) \Big/ \sum_i w_i,\qquad
              p_\theta = \sum_{m=1}^M \alpha_m\,\mathcal{N}(\mu_m, \Sigma_m),

    an estimate of :math:`E_P \log p_\theta(X)`. The E step is the usual one, the M step weighs each row:

    .. math::

        r_{im} &= \alpha_m\,\mathcal{N}(x_i; \mu_m, \Sigma_m) \big/ p_\theta(x_i),\qquad
        N_m = \sum_i w_i r_{im},\qquad \alpha_m = N_m \Big/ \sum_l N_l, \\
        \mu_m &= \frac{1}{N_m} \sum_i w_i r_{im}\,x_i,\qquad
        \Sigma_m = \frac{1}{N_m} \sum_i w_i r_{im}\,(x_i - \mu_m)(x_i - \mu_m)' + \varepsilon I,

    with :math:`\varepsilon` = ``reg_covar``; "tied" averages the :math:`\Sigma_m` by :math:`N_m`, "diag" keeps their
    diagonals, "spherical" the mean of each diagonal. The starts are weighted too: k-means and k-means++ with the
    weights, rows drawn in proportion to them ("random_from_data"), responsibilities drawn at random and multiplied by
    them ("random").

    Only ratios of weights matter. A row of weight 0 has no influence, and a row of weight 2 counts as the row twice:
    equal rows are made one, with the sum of their weights, before anything is drawn at random, so that this holds for
    every start with the same ``random_state``.

    Parameters
    ----------
    n_components : int
        Number M of Gaussians.
    covariance_type : {"full", "tied", "diag", "spherical"}
        Shape of the covariances.
    tol : float
        EM stops where :math:`\ell` gains less than this in a step.
    reg_covar : float
        Added to the diagonal of the covariances.
    max_iter : int
        Steps of EM.
    n_init : int
        Starts, of which the one with the greatest :math:`\ell` is kept.
    init_params : {"kmeans", "k-means++", "random", "random_from_data"}
        How to start.
    weights_init, means_init, precisions_init : array-like, optional
        Shares, centres and inverse covariances to start from.
    random_state : int, RandomState or None
        For the starts, and for ``sample``.
    warm_start : bool
        Whether ``fit`` goes on from where it last stopped.
    verbose, verbose_interval : int
        What EM prints, and after how many steps.

    Attributes
    ----------
    weights_ : ndarray of shape (M,)
        The shares :math:`\alpha_m` of the components (not the weights of the rows).
    means_ : ndarray of shape (M, d)
        The centres :math:`\mu_m`.
    covariances_, precisions_, precisions_cholesky_ : ndarray
        The covariances, their inverses, and the Cholesky factors of these.
    converged_ : bool
        Whether the best start converged.
    n_iter_ : int
        Its steps.
    lower_bound_, lower_bounds_ : float, list of float
        Its :math:`\ell` at the end, and after each step.
    n_features_in_, feature_names_in_
        The features seen in ``fit``.

    Examples
    --------
    Two clusters at (-1.5, -2) and (1.5, 2) that were sampled mostly between them, where they meet:

    >>> import numpy as np
    >>> import vardi
    >>> from vardi.learn.mixture import GaussianMixture
    >>> design = vardi.datasets.two_gaussians(seed=2)
    >>> X = np.concatenate(list(design.samples.values()))
    >>> fit = vardi.debias(design.samples, design.biases)
    >>> plain = GaussianMixture(2, n_init=3, random_state=0).fit(X)
    >>> debiased = GaussianMixture(2, n_init=3, random_state=0).fit(X, sample_weight=fit.weights)
    >>> np.sort(plain.means_, axis=0).round(1)
    array([[-0.5, -2. ],
           [ 0.5,  2.1]])
    >>> np.sort(debiased.means_, axis=0).round(1)
    array([[-1.8, -1.9],
           [ 1.4,  2.2]])
    """

    def fit(self, X: Table, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the mixture to weighted rows by EM.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n,), optional
            Weight of each row, such as ``fit.weights``; all equal by default.

        Returns
        -------
        GaussianMixture
            Itself, fitted.
        """
        self.fit_predict(X, y, sample_weight)
        return self

    def fit_predict(self, X: Table, y: object = None, sample_weight: ArrayLike | None = None) -> Integers:
        """Fit the mixture to weighted rows, and return the likeliest component of every row.

        Parameters are those of :meth:`fit`; rows of weight 0 get a component too.
        """
        self._validate_params()
        rows = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        weights = _checked(sample_weight, len(rows))
        at_least = max(2, self.n_components)
        distinct, w = _distinct(rows, weights, at_least)
        if len(distinct) < min(at_least, len(rows)):
            raise VardiError(
                f"Of {len(rows)} rows {len(distinct)} have a weight above 0, but {self.n_components} components need "
                f"{at_least} or more. Ask for fewer components, or give more rows a weight."
            )
        self._w = w.astype(distinct.dtype)
        try:
            super().fit_predict(distinct)
        finally:
            del self._w
        validate_data(self, X, skip_check_array=True)  # records the feature names, which the distinct rows lack
        return np.asarray(self._estimate_weighted_log_prob(rows).argmax(axis=1))

    def score(self, X: Table, y: object = None, sample_weight: ArrayLike | None = None) -> float:
        r"""Return the mean log-likelihood over weighted rows, :math:`\sum_i w_i \log p(x_i) / \sum_i w_i`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n,), optional
            Weight of each row; all equal by default.
        """
        log_p = self.score_samples(X)
        w = _checked(sample_weight, len(log_p))
        return float(np.average(log_p[w > 0], weights=w[w > 0]))

    def bic(self, X: Table, sample_weight: ArrayLike | None = None, *, size: Size = "kish") -> float:
        r"""Return the Bayesian information criterion on the debiased likelihood; lower is better.

        .. math:: \mathrm{BIC} = -2\,n\,\ell + q \log n,

        with :math:`\ell` the debiased mean log-likelihood (:meth:`score`), q the number of free parameters and n the
        ``size``. Weighted rows carry less information than as many plain ones: the variance of a weighted mean is about
        that of :math:`n_\mathrm{eff} = (\sum_i w_i)^2 / \sum_i w_i^2` rows (Kish), and :math:`\ell` flatters the model
        accordingly on the rows it was fitted to, :math:`q / n_\mathrm{eff}` instead of :math:`q / n`. Counting all rows
        would weigh the likelihood too much against the penalty, and choose too many components. Without weights n is
        the number of rows, and this is scikit-learn's.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.
        sample_weight : array-like of shape (n,), optional
            Weight of each row; all equal by default.
        size : {"kish", "rows"} or float
            The n of the formula: Kish's effective number, the number of rows with weight, or a number of your own. For
            weights that are counts of rows give their sum.

        Examples
        --------
        >>> import numpy as np
        >>> import vardi
        >>> from vardi.learn.mixture import GaussianMixture
        >>> design = vardi.datasets.two_gaussians(seed=2)
        >>> X = np.concatenate(list(design.samples.values()))
        >>> w = vardi.debias(design.samples, design.biases).weights
        >>> fits = [GaussianMixture(m, n_init=3, random_state=0).fit(X, sample_weight=w) for m in (1, 2, 3)]
        >>> [round(fit.bic(X, w)) for fit in fits]  # the 360 rows are worth 62 plain ones; there are 2 clusters
        [484, 471, 483]
        >>> [round(fit.bic(X, w, size="rows")) for fit in fits]
        [2741, 2556, 2511]
        """
        n = _size(size, sample_weight, _num_samples(X))
        return -2 * n * self.score(X, sample_weight=sample_weight) + self._n_parameters() * math.log(n)

    def aic(self, X: Table, sample_weight: ArrayLike | None = None, *, size: Size = "kish") -> float:
        r"""Return Akaike's information criterion on the debiased likelihood, :math:`-2 n \ell + 2 q`; lower is better.

        Parameters, and the choice of n, are those of :meth:`bic`.
        """
        n = _size(size, sample_weight, _num_samples(X))
        return -2 * n * self.score(X, sample_weight=sample_weight) + 2 * self._n_parameters()

    # What scikit-learn's EM calls: each step with the weights of the distinct rows.

    def _initialize_parameters(self, X: Floats, random_state: np.random.RandomState, xp: object = None) -> None:
        inits = (self.weights_init, self.means_init, self.precisions_init)
        if any(value is None for value in inits):
            self._maximise(X, self._start(X, random_state))
        if self.weights_init is not None:
            self.weights_ = self.weights_init
        if self.means_init is not None:
            self.means_ = self.means_init
        if self.precisions_init is not None:
            precisions, kind = self.precisions_init, self.covariance_type
            self.covariances_ = np.linalg.inv(precisions) if kind in ("full", "tied") else 1 / precisions
            self.precisions_cholesky_ = _compute_precision_cholesky(self.covariances_, kind)

    def _start(self, X: Floats, random_state: np.random.RandomState) -> Floats:
        """Return the first weighted responsibilities."""
        n, M, w = len(X), self.n_components, self._w
        if self.init_params == "random":
            r = random_state.uniform(size=(n, M)).astype(X.dtype)
            return np.asarray(w[:, None] * r / r.sum(axis=1, keepdims=True))
        R = np.zeros((n, M), X.dtype)
        if self.init_params == "kmeans":
            clusters = KMeans(M, n_init=1, random_state=random_state).fit(X, sample_weight=w).labels_
            R[np.arange(n), clusters] = w
            return R
        if self.init_params == "k-means++":
            _, chosen = kmeans_plusplus(X, M, sample_weight=w, random_state=random_state)
        else:
            p = None if (w == w[0]).all() else w.astype(np.float64) / w.sum(dtype=np.float64)
            chosen = random_state.choice(n, size=M, replace=False, p=p)
        R[chosen, np.arange(M)] = 1  # each centre starts at a row, all with the same share
        return R

    def _e_step(self, X: Floats, xp: object = None) -> tuple[np.floating, Floats]:
        log_p, log_r = self._estimate_log_prob_resp(X)
        return np.average(log_p, weights=self._w), log_r

    def _m_step(self, X: Floats, log_resp: Floats, xp: object = None) -> None:
        self._maximise(X, self._w[:, None] * np.exp(log_resp))

    def _maximise(self, X: Floats, R: Floats) -> None:
        """Set the parameters that maximise the likelihood given R = w r."""
        N = R.sum(axis=0) + 10 * np.finfo(R.dtype).eps  # no division by zero for an empty component
        self.weights_ = N / N.sum()
        self.means_ = R.T @ X / N[:, None]
        self.covariances_ = self._covariances(X, R, N)
        self.precisions_cholesky_ = _compute_precision_cholesky(self.covariances_, self.covariance_type)

    def _covariances(self, X: Floats, R: Floats, N: Floats) -> Floats:
        """Return the Sigma_m, from deviations: differences of squares would cancel."""
        kind, means = self.covariance_type, self.means_
        if kind in ("full", "tied"):
            full = _estimate_gaussian_covariances_full(R, X, N, means, self.reg_covar)
            return np.asarray(full if kind == "full" else np.average(full, axis=0, weights=N))
        sums = np.stack([r @ (X - mean) ** 2 for r, mean in zip(R.T, means, strict=True)])
        diagonals = sums / N[:, None] + self.reg_covar
        return np.asarray(diagonals if kind == "diag" else diagonals.mean(axis=1))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.array_api_support = False
        return tags


def _distinct(X: Floats, w: Floats, at_least: int) -> tuple[Floats, Floats]:
    """Return the distinct rows that have weight, with their weights, of mean 1.

    They are sorted, so that the order in which they came does not matter; if all have the same weight they keep that
    order, so that without weights the random draws are scikit-learn's.
    """
    rows, weights = X[w > 0], np.ldexp(w[w > 0], -np.frexp(w.max())[1])  # no sum overflows, and nothing is rounded
    _, first, place = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    if len(first) >= at_least:
        sums = np.bincount(place.ravel(), weights)
        kept = np.argsort(first) if (sums == sums[0]).all() else np.arange(len(first))
        rows, weights = rows[first[kept]], sums[kept]
    return rows, weights * (len(weights) / weights.sum())


def _checked(sample_weight: ArrayLike | None, n: int) -> Floats:
    """Return the weights of n rows as an array, all 1 by default, or refuse invalid ones."""
    if sample_weight is None:
        return np.ones(n)
    try:
        w = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError):
        kind = np.asarray(sample_weight).dtype
        raise MismatchError(
            f"sample_weight holds {kind}, but weights are numbers. Give one number for each row, such as fit.weights."
        ) from None
    if w.shape != (n,):
        raise MismatchError(
            f"sample_weight has shape {w.shape}, but X has {number_of_rows(n)}. Give one weight for each row of X, in "
            "the same order."
        )
    wrong = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if len(wrong):
        raise InvalidCountsError(
            f"sample_weight is negative, missing or infinite in {number_of_rows(len(wrong))} (the first is row "
            f"{wrong[0]}, with {w[wrong[0]]}), and such weights are invalid. Give finite weights that are not "
            "negative; 0 leaves a row out.",
            rows=wrong[:10],
        )
    if not w.any():
        raise VardiError(
            f"All {n} values of sample_weight are zero, so there is nothing to learn from. Give some "
            "rows a weight above zero."
        )
    return w


def _size(size: Size, sample_weight: ArrayLike | None, n: int) -> float:
    """Return the number of rows that the information criteria count."""
    w = _checked(sample_weight, n)
    if size == "kish":
        w = w / w.max()
        return float(w.sum() ** 2 / (w @ w))
    if size == "rows":
        return float(np.count_nonzero(w))
    if isinstance(size, int | float | np.number) and math.isfinite(size) and size > 0:
        return float(size)
    raise VardiError(f"size is {size!r}. Give 'kish', 'rows', or a number of rows above 0.")

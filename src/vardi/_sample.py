"""DebiasedSample: one sample that speaks for the population, and what follows from its weights."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logsumexp

from vardi import _goodness, _theory
from vardi._arrays import as_array, as_numbers
from vardi._bootstrap import Bootstrap, Progress, bootstrap
from vardi._cdf import DebiasedCdf
from vardi._diagnostics import Diagnostics, diagnose
from vardi._estimates import Estimate, Estimates, not_finite
from vardi._frames import Frame, as_frame, concat
from vardi._goodness import BiasCheck
from vardi._identify import Verdict, judge
from vardi._influence import Influence
from vardi._memory import require_memory
from vardi._newton import Solution
from vardi._output import require_writable, whole_file
from vardi._pool import Name, Pool, in_order, is_missing
from vardi._resampling import Kind
from vardi._rows import Checks, Rows
from vardi._sensitivity import GAMMAS, Mean, Question, Sensitivity
from vardi._sensitivity import Kind as ErrorKind
from vardi._shares import Anchor, SharesCheck
from vardi._sums import Floats, Integers
from vardi._theory import Bounds
from vardi._trust import Trust, require_trust, warn_of_single_rows
from vardi.biases import where
from vardi.errors import ImpossibleRowError, InvalidBiasError, MismatchError, TooLargeError, number_of_rows

TILTS = 2**28  # numbers, one for each row and bias, up to which they are all held at once


class DebiasedSample:
    r"""The pool with a weight for each row: what :func:`vardi.debias` returns.

    Attributes
    ----------
    names : tuple
        The samples in the user's order, then the states that no sample was drawn from.
    solution : Solution
        How the equations were solved, and how well.
    """

    _anchor: Anchor | None = None  # what known shares hold it by
    _parameters: Any = None  # what fits the parameters of biases to other counts of the rows

    def __init__(
        self, pool: Pool, rows: Rows, solution: Solution, weights: Floats, kept: NDArray[np.bool_] | None
    ) -> None:
        self._pool, self._kept = pool, kept
        self._rows: Any = rows
        self._row_weights = weights
        self.solution = solution
        self.names = pool.names

    def __len__(self) -> int:
        return len(self._pool)

    @property
    def sizes(self) -> dict[Name, float]:
        """How many (counted) rows of each sample the fit rests on; 0 for a state that was not sampled."""
        return dict(zip(self.names, (int(n) if n == int(n) else n for n in self._rows.sizes.tolist()), strict=True))

    @property
    def shares(self) -> SharesCheck | None:
        """Known shares beside what the samples say of them; None where no shares were given."""
        return None

    @property
    def parameters(self) -> dict[Name, dict[str, Estimate]]:
        """The parameters of each bias that has some, with their errors; empty where all biases are known."""
        return {}

    @cached_property
    def weights(self) -> Any:
        r"""The weight of each row, :math:`1 / \sum_l \lambda_l \omega_l(z_i) / \Omega_l`, with mean 1 over the pool.

        In pool order and in the user's library; a pandas Series has the user's index. To be given to a learner as
        ``sample_weight`` (times ``counts``, where rows stand for several). Rows that were left out have weight 0.
        """
        return self._pool.series(self._weights, "weight")

    @cached_property
    def probabilities(self) -> Any:
        """The probability of each row in the debiased sample: weight times count, with sum 1."""
        return self._pool.series(self._probabilities, "probability")

    @property
    def log_omegas(self) -> dict[Name, float]:
        r"""The log of each normaliser, :math:`\log\Omega_k = \log E_P\,\omega_k`."""
        return dict(zip(self.names, self._log_omegas.tolist(), strict=True))

    @cached_property
    def _log_omegas(self) -> Floats:
        sizes, u = self._rows.sizes, self.solution.u
        if sizes.all():
            return np.log(sizes / sizes.sum()) - u
        # Omega_k = sum_i pi_i omega_k(z_i) holds for every k, sampled or not
        return self._rows.log_means(u) - np.log(sizes.sum())

    @property
    def omegas(self) -> dict[Name, float]:
        r"""Each normaliser, :math:`\Omega_k = E_P\,\omega_k`: the mean of the bias over the population."""
        with np.errstate(over="ignore"):  # beyond e^709 only the log has a number
            return {name: float(np.exp(value)) for name, value in self.log_omegas.items()}

    @property
    def w(self) -> dict[Name, float]:
        r"""The normalisers in the paper's scale, :math:`\max_k W_k / \lambda_k = 1`, of the sampled biases."""
        sampled = self._rows.sizes > 0
        u = self.solution.u[sampled]
        w = self._rows.sizes[sampled] / self._rows.sizes.sum() * np.exp(u.min() - u)
        return dict(
            zip((name for name, is_in in zip(self.names, sampled, strict=True) if is_in), w.tolist(), strict=True)
        )

    def expectation(self, values: Any, level: float = 0.95) -> Estimate:
        r"""Return the mean of something over the population, :math:`E_P f = \sum_i \pi_i f(z_i)`, with its error.

        Parameters
        ----------
        values : str or array
            A column, an expression of columns (``"price > 30"`` is a share), or a value for each row of the pool.
        level : float
            Coverage of the interval.

        Returns
        -------
        Estimate
            Its error includes that of the normalisers. Differences and ratios of estimates carry theirs along.

        Examples
        --------
        >>> import vardi
        >>> design = vardi.datasets.house_prices(seed=0)
        >>> fit = vardi.debias(design.samples, design.biases)
        >>> print(fit.expectation("MEDV"))
        23.22 ± 0.97 (95%: 21.31 to 25.12)
        >>> print(fit.expectation("MEDV * (RM > 6)") / fit.expectation("RM > 6"))  # of houses with many rooms
        25.8 ± 1.2 (95%: 23.5 to 28.1)
        """
        return self._estimates(self._values(values)[:, None], level)[0]

    def expectations(self, matrix: Any, level: float = 0.95) -> Estimates:
        """Return the means of several functions over the population, with their covariance.

        Parameters
        ----------
        matrix : array of shape (n, m), column, expression, or list of these two
            The functions.
        level : float
            Coverage of each interval.
        """
        if isinstance(matrix, str):
            matrix = [matrix]
        if isinstance(matrix, list | tuple) and any(isinstance(part, str) for part in matrix):
            values = np.column_stack([self._values(part) for part in matrix])
        else:
            array = as_array(in_order(matrix, self._pool.frames, "The frame of values"), "The matrix of values")
            values = self._numbers(array)
            if values.ndim != 2 or len(values) != len(self) or not values.shape[1]:
                raise MismatchError(
                    f"The values have shape {values.shape}, but the pool has {len(self)} rows. Give a matrix with "
                    "a row for each, or a list of columns.",
                    expected=(len(self),),
                    got=values.shape,
                )
            values = self._in_fit(values)
        return self._estimates(values, level)

    def _estimates(self, values: Floats, level: float) -> Estimates:
        require_trust(self, stacklevel=4)
        estimates = self._influence.estimates(values, level, trusted=self.trust.errors_hold)
        if estimates.influence is not None and self.trust.errors_hold:
            warn_of_single_rows(self, estimates.influence)
        return estimates

    def cdf(self, column: Any) -> DebiasedCdf:
        """Return the debiased distribution function of a column, an expression, or a value for each row."""
        require_trust(self)
        return DebiasedCdf(self._influence, self._values(column), trusted=self.trust.errors_hold)

    def normalisers(self, level: float = 0.95) -> dict[Name, Estimate]:
        r"""Return each :math:`\Omega_k` with its error; intervals are made on the log scale."""
        return {name: estimate.exp() for name, estimate in self.log_normalisers(level).items()}

    def log_normalisers(self, level: float = 0.95) -> dict[Name, Estimate]:
        r"""Return each :math:`\log\Omega_k` with its error, relative to the population.

        The difference of two is (minus) a physicist's difference of free energies, and carries its error along.

        Examples
        --------
        >>> import warnings
        >>> import vardi
        >>> design = vardi.datasets.harmonic_oscillators(states=3, rows_per_state=500, seed=0)
        >>> fit = vardi.debias_matrix(design.omega, design.source, log=True)
        >>> with warnings.catch_warnings(action="ignore"):  # the flat reference is far from every state: never mind
        ...     log_omegas = fit.log_normalisers()
        >>> print(log_omegas["1"] - log_omegas["0"])
        -0.230 ± 0.035 (95%: -0.299 to -0.161)
        """
        require_trust(self)
        log_omegas = self._log_omegas
        _, phi = self._influence.of_weighted(self._tilts(log_omegas))
        covariance = self._influence.covariance(phi, trusted=self.trust.errors_hold)
        estimates = Estimates(log_omegas, covariance, level, influence=phi, strata=self._influence.strata)
        return dict(zip(self.names, estimates, strict=True))

    def log_omega_covariance(self) -> Floats:
        r"""Return the covariance of the log normalisers, relative to the population.

        The variance of :math:`\log\Omega_k - \log\Omega_l` is ``C[k, k] + C[l, l] - 2 * C[k, l]``: the squared error
        that MBAR gives for a difference of free energies.
        """
        require_trust(self, tail=False)
        tilts = self._tilts(self._log_omegas)
        return self._influence.model_covariance(tilts - self._influence.weights[:, None])

    def weight_shares(self) -> dict[Name, float]:
        """Return the share of the weight that the rows of each sample carry."""
        mass = self._row_weights if self._rows.counts is None else self._row_weights * self._rows.counts
        shares = np.bincount(self._rows.source, mass, minlength=len(self.names)) / mass.sum()
        return dict(zip(self.names, shares.tolist(), strict=True))

    def effective_rows(self) -> float:
        r"""Return Kish's effective number of rows, :math:`1 / \sum_i \pi_i^2` (for rows that are counted once)."""
        counts = np.ones(len(self._rows)) if self._rows.counts is None else self._rows.counts
        return float((counts @ self._row_weights) ** 2 / (counts @ self._row_weights**2))

    def weigh(self, rows: Any) -> Any:
        r"""Return the weight of rows that need not be of the pool: it is a function of the row.

        Parameters
        ----------
        rows : array or frame
            New rows with the columns that the biases read; for a fit of a matrix, a matrix of (log) biases.

        Returns
        -------
        array or series
            :math:`1 / \sum_l \lambda_l \omega_l(z) / \Omega_l`, in the library of the rows.

        Examples
        --------
        >>> import numpy as np
        >>> import vardi
        >>> pool = {"plain": np.array([1.0, 2.0, 4.0]), "seen": np.array([2.0, 4.0, 4.0, 8.0])}
        >>> fit = vardi.debias(pool, {"plain": 1, "seen": "x"})
        >>> fit.weigh(np.array([0.0, 1.0, 100.0])).round(3)
        array([2.333, 1.599, 0.05 ])
        """
        sampled = np.flatnonzero(self._rows.sizes > 0).tolist()  # the others have no part in the weight
        names = [self.names[k] for k in sampled]
        if self._pool.biases:
            frame = as_frame(rows)
            columns, log = frame.evaluate([self._pool.biases[k] for k in sampled]), False
        else:
            matrix = self._matrix(rows)
            frame, columns, log = None, [matrix[:, k] for k in sampled], self._rows.log
        Checks(names, log, whole="the new rows").columns(columns)
        values = np.column_stack([np.asarray(column, np.float64) for column in columns])
        with np.errstate(divide="ignore"):
            log_mass = logsumexp((values if log else np.log(values)) + self.solution.u[sampled], axis=1)
        uncovered = np.flatnonzero(log_mass == -np.inf)
        if len(uncovered):
            raise ImpossibleRowError(
                f"No sampled bias covers {len(uncovered)} of the new rows (the first is row {uncovered[0]}), so "
                "nothing is known of their weight. The debiased sample speaks for the part of the population that "
                "some sample could have drawn.",
                sample=None,
                rows=uncovered[:10],
            )
        weights = np.exp(-log_mass)
        return weights if frame is None else frame.series(weights, "weight")

    def sample(self, n: int, seed: int | np.random.Generator | None = None, *, replace: bool = True) -> Any:
        """Draw rows from the debiased sample: what a sample without bias could have been.

        Parameters
        ----------
        n : int
            How many rows.
        seed : int or Generator, optional
            For the same draw again.
        replace : bool
            Whether a row may be drawn more than once. Without replacement rows are drawn one after the other, so that
            large weights come less often than their share; :class:`vardi.DebiasedResampler` has draws that keep it.

        Returns
        -------
        array or frame
            The rows, in the user's library; for a fit of a matrix their positions.
        """
        drawn = self._positions(n, seed, replace=replace)
        return drawn if not self._pool.frames else concat(self._pool.frames).take(drawn)

    def _positions(self, n: int, seed: int | np.random.Generator | None, *, replace: bool) -> Integers:
        """Return the positions of rows drawn by weight."""
        if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 0:
            raise MismatchError(f"{n!r} rows cannot be drawn. Give a whole number.", expected=("int",), got=(n,))
        drawable = int(np.count_nonzero(self._probabilities))
        if not replace and n > drawable:
            raise MismatchError(
                f"{n} rows cannot be drawn without replacement from {drawable}. Draw fewer, or with replacement.",
                expected=(drawable,),
                got=(n,),
            )
        require_memory(16 * int(n), f"A draw of {n:,} rows", "Draw fewer at a time.")
        return np.random.default_rng(seed).choice(len(self), size=n, replace=replace, p=self._probabilities)

    def torch_sampler(self, n: float | None = None, seed: int | None = None, *, method: str = "multinomial") -> Any:
        """Return a ``torch.utils.data.Sampler`` that draws positions of rows by weight; see ``vardi.learn.batches``."""
        return import_module("vardi.learn.batches").torch_sampler(self, n, seed, method=method)

    def torch_weights(self, dtype: Any = None) -> Any:
        """Return the weights as a tensor with mean 1, in pool order; see ``vardi.learn.batches``."""
        return import_module("vardi.learn.batches").torch_weights(self, dtype)

    @cached_property
    def trust(self) -> Trust:
        """How far standard errors can be trusted: overlap over the weakest cut, and the tail of the weights."""
        return Trust.of(self._influence, self.solution, self.names)

    def identify(self) -> Verdict:
        """Tell through which rows the samples are compared; kappa is measured by the debiased weights."""
        mass = self._row_weights if self._rows.counts is None else self._row_weights * self._rows.counts
        return judge(self._rows, self.names, mass / mass.sum())

    def diagnostics(self, columns: Sequence[str] | None = None) -> Diagnostics:
        """Return effective sizes, overlap, who carries the weight, means before and after, what to collect next.

        Parameters
        ----------
        columns : sequence of str, optional
            Columns or expressions to look at; all numeric columns without missing values by default.
        """
        columns = [columns] if isinstance(columns, str) else columns
        return diagnose(self, self.numeric_columns if columns is None else columns)

    def bootstrap(
        self,
        statistic: Any = None,
        n: int = 1000,
        seed: int | np.random.Generator | None = 0,
        *,
        kind: Kind = "bayesian",
        groups: Any = None,
        level: float = 0.95,
        jobs: int | None = None,
        progress: Progress | None = None,
    ) -> Bootstrap:
        """Refit the normalisers to resampled rows, and give the spread of a statistic over the refits.

        Parameters
        ----------
        statistic : str, array, list of these, callable or None
            A column, an expression or a value for each row, of which the debiased mean is taken; several of these; or
            a function of the weights (pool order, times how often each row was drawn, mean 1). None gives the log
            normalisers alone.
        n, seed, kind, groups, level, jobs, progress
            As for :func:`vardi._bootstrap.bootstrap`: draws; their seed; ``"bayesian"`` (every row stays) or
            ``"rows"``; clusters or blocks of dependent rows; coverage; threads; a callback.

        Examples
        --------
        >>> import vardi
        >>> design = vardi.datasets.house_prices(seed=0)
        >>> fit = vardi.debias(design.samples, design.biases)
        >>> print(fit.bootstrap("MEDV", n=200))
        Bayesian bootstrap: 200 refits, none failed
        MEDV  23.2 ± 1.0 (95%: 21.2 to 25.2)
        """
        return bootstrap(self, statistic, n, seed, kind=kind, groups=groups, level=level, jobs=jobs, progress=progress)

    def check_biases(self, columns: Any = None, **options: Any) -> BiasCheck:
        """Test whether the samples agree with their declared biases where they overlap.

        Parameters
        ----------
        columns : str, sequence of str, or mapping from name to values, optional
            Columns or expressions to compare the samples in; the numeric columns that the biases read by default.
        **options
            ``method`` ("score", "ks", "ks-bootstrap"), ``features`` ("poly2", "cells"), ``seed`` and ``draws``.

        Examples
        --------
        >>> import vardi
        >>> design = vardi.datasets.length_bias(seed=0)
        >>> fit = vardi.debias(design.samples, design.biases)
        >>> bool(fit.check_biases().pvalue > 0.05)
        True
        >>> wrong = vardi.debias(design.samples, {**design.biases, "square": "x"})  # drawn by the square of x
        >>> bool(wrong.check_biases().pvalue < 0.01)
        True
        """
        require_trust(self)
        if columns is None:
            read = {name for bias in self._pool.biases for name in bias.columns}
            columns = [name for name in self.numeric_columns if name in read] or self.numeric_columns
        named = (
            columns
            if isinstance(columns, Mapping)
            else dict.fromkeys([columns] if isinstance(columns, str) else columns)
        )
        values = {name: self._values(name if value is None else value) for name, value in named.items()}
        return _goodness.check_biases(self._influence, self.names, values, **options)

    def sensitivity(
        self,
        values: Any,
        gammas: float | Sequence[float] = GAMMAS,
        *,
        samples: Any = None,
        kind: ErrorKind = "free",
        threshold: float | None = None,
    ) -> Sensitivity:
        r"""Return how far a mean moves when biases are wrong by up to a factor :math:`\Gamma`.

        The true bias is then within :math:`[\omega_l / \Gamma, \Gamma \omega_l]`, in each row as it likes, and zero
        where :math:`\omega_l` is; a constant factor drops out. So it may also depend on what no column holds, up to
        that factor. No method can tell the factor from these data: it is yours to judge.

        Parameters
        ----------
        values : str or array
            As for ``expectation``. For a model's coefficient see :func:`vardi.learn.coefficient_sensitivity`.
        gammas : float or increasing sequence of float
            The factors, from 1 on.
        samples : sequence of names, optional
            The samples whose biases may be wrong; by default all, those declared everywhere included.
        kind : {"free", "common"}
            Whether each bias errs on its own, or all by the same factor in the same row.
        threshold : float, optional
            A value at which the conclusion would change; its tipping point is then part of the answer.

        Returns
        -------
        Sensitivity
            Its range is exact for one sample, and for common errors of all; else it is attained by a search with
            refits, and the worst case may lie a little beyond. Above two million numbers (rows times samples) it is
            linear.

        Examples
        --------
        >>> import vardi
        >>> design = vardi.datasets.house_prices(seed=0)
        >>> fit = vardi.debias(design.samples, design.biases)
        >>> print(fit.sensitivity("MEDV", threshold=20))
        mean of MEDV: 23.22 ± 0.97 (95%: 21.31 to 25.12), if the biases of 'agency',
        'national' are wrong by up to this factor:
        factor  lowest  highest  linear from  linear to
             1   23.22    23.22        23.22      23.22
           1.1   22.37    24.08        22.37      24.07
          1.25   21.26    25.28        21.23      25.21
           1.5   19.75    27.07        19.60      26.83
             2   17.67    30.08        17.04      29.40
             3   15.42    34.75        13.43      33.01
        Attained: some biases within the factor give these ends, and the worst ones may
        lie a little beyond.
        One standard error (0.97) is reached at 1.115.
        20 is reached at 1.453.
        """
        question = Question.of(self, gammas, samples, kind, threshold)
        numbers = self._values(values)
        estimate = self._estimates(numbers[:, None], 0.95)[0]
        return question.answer(Mean(numbers), estimate, f"mean of {values if isinstance(values, str) else 'values'}")

    def bounds(self, delta: float = 0.05) -> Bounds:
        """Return the paper's finite-sample constants for this fit, and a certificate that is of use.

        Parameters
        ----------
        delta : float
            Probability with which a bound may fail.
        """
        return _theory.bounds(self._influence, self.names, delta)

    @cached_property
    def numeric_columns(self) -> tuple[str, ...]:
        """The numeric columns of the pool without missing values, those that the biases read first."""
        whole = self._pool.whole()
        if whole is None:
            return ()
        numeric = [name for name in whole.columns if whole.column(name).dtype.kind in "fiu"]
        read = {name for bias in self._pool.biases for name in bias.columns}
        return tuple(sorted((name for name in numeric if name not in self._gaps), key=lambda name: name not in read))

    @cached_property
    def _gaps(self) -> dict[str, int]:
        """How many values are missing or infinite in each numeric column that has such, and in those that are empty."""
        whole = self._pool.whole()
        missing = {} if whole is None else {name: _missing_in(whole.column(name)) for name in whole.columns}
        return {name: count for name, count in missing.items() if count}

    def summary(self) -> str:
        """Return what a person wants to know first, in one screen."""
        from vardi._summary import summarize, to_text

        return to_text(summarize(self))

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str | None = None,
        variables: Any = None,
        date: str = "",
        overwrite: bool = False,
    ) -> Path:
        """Write the report: one HTML file that opens offline, prints well and reads on a phone.

        Parameters
        ----------
        path : str or path
            Where to; the file appears whole or not at all.
        title : str, optional
            Its heading.
        variables : list of str, or mapping from name to values, optional
            Columns and expressions to report; by default numeric columns and the categories of text columns, up to a
            number that the report tells.
        date : str
            Printed as it is; none by default, so that the same fit gives the same file.
        overwrite : bool
            Whether a file that is there may be replaced.

        Returns
        -------
        Path
            The file.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> import vardi
        >>> design = vardi.datasets.house_prices(seed=0)
        >>> fit = vardi.debias(design.samples, design.biases)
        >>> with TemporaryDirectory() as folder:
        ...     fit.report(Path(folder) / "houses.html", title="House prices").name
        'houses.html'
        """
        from vardi import report

        target = require_writable(path, overwrite=overwrite)
        html = report.to_html(report.compute(self, title=title, variables=variables, date=date))
        with whole_file(target, overwrite=overwrite) as temporary:
            temporary.write_text(html, encoding="utf-8")
        return target

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        samples = int((self._rows.sizes > 0).sum())
        return f"DebiasedSample({number_of_rows(len(self))} of {samples} sample{'' if samples == 1 else 's'})"

    def _repr_html_(self) -> str:
        from vardi._summary import summarize, to_html

        return to_html(summarize(self))

    @cached_property
    def _influence(self) -> Influence:
        kept = slice(None) if self._kept is None else self._kept
        counts = None if self._pool.counts is None else self._pool.counts[kept]
        return Influence(self._rows, self.solution.u, self._row_weights, self._pool.source[kept], counts)

    def _tilts(self, log_omegas: Floats) -> Floats:
        """Return r_i omega_k(z_i) / Omega_k, the weight of row i under state k, for all rows and states."""
        numbers = len(self._influence.strata.source) * len(self.names)
        if numbers > TILTS:
            raise TooLargeError(
                f"This needs a number for each of {len(self._influence.strata.source):,} rows and {len(self.names):,} "
                f"biases, {8 * numbers / 2**30:,.0f} GB in all. fit.omegas has the normalisers without their errors; "
                "fit.expectation(values of one bias) has one with its error.",
                bytes=8 * numbers,
            )
        log_weights = np.log(self._row_weights)[:, None]
        finite = np.where(np.isfinite(log_omegas), log_omegas, 0.0)  # a state that covers no row has no tilt
        return self._influence.spread(np.exp(self._rows.log_omega() - finite + log_weights))

    def _in_fit(self, values: Floats, name: str | None = None) -> Floats:
        """Return values of the rows that the fit rests on, or refuse those that are not numbers."""
        values = values if self._kept is None else values[self._kept]
        bad = int(np.count_nonzero(~np.isfinite(values)))
        if bad:
            raise not_finite(bad, name)
        return values

    def _values(self, values: Any) -> Floats:
        """Return a column, an expression or an array as numbers, one for each row that the fit rests on."""
        if isinstance(values, str):
            pieces = [_evaluated(frame, values) for frame in self._pool.frames]
            if not pieces:
                raise MismatchError(
                    f"The fit knows biases only, and no column {values!r}. Give a value for each row.",
                    expected=("array",),
                    got=(values,),
                )
            array = np.concatenate(pieces)
        else:
            array = as_array(in_order(values, self._pool.frames, "The series of values"), "The series of values")
        array = self._numbers(array)
        if array.shape != (len(self),):
            raise MismatchError(
                f"The values have shape {array.shape}, but the pool has {len(self)} rows. Give one for each.",
                expected=(len(self),),
                got=array.shape,
            )
        return self._in_fit(array, values if isinstance(values, str) else None)

    @staticmethod
    def _numbers(array: NDArray[Any]) -> Floats:
        if array.dtype.kind not in "fiub":
            raise MismatchError(
                f"The values hold {array.dtype}, and only numbers have a mean. Give numbers, or a condition of them; a "
                "list of columns goes to expectations().",
                expected=("numbers",),
                got=(str(array.dtype),),
            )
        return array.astype(np.float64)

    @cached_property
    def _weights(self) -> Floats:
        weights = self._rows.spread(self._row_weights)
        if self._kept is None:
            return weights
        spread = np.zeros(len(self))
        spread[self._kept] = weights
        return spread

    @cached_property
    def _probabilities(self) -> Floats:
        mass = self._weights if self._pool.counts is None else self._weights * self._pool.counts
        return mass / mass.sum()

    def _matrix(self, rows: Any) -> Floats:
        """Return new rows of a matrix fit as an array; what a sparse one does not store is omega = 0."""
        if sparse.issparse(rows):
            stored = sparse.coo_array(rows)
            matrix = np.full(stored.shape, -np.inf if self._rows.log else 0.0)
            matrix[stored.row, stored.col] = stored.data
        else:
            array = as_array(rows, "The matrix of new rows")
            numbers = as_numbers(array)
            if numbers is None:
                raise InvalidBiasError(f"The new rows hold {array.dtype}, and biases are numbers.", sample="")
            matrix = numbers.astype(np.float64, copy=False)
        if matrix.ndim != 2 or matrix.shape[1] != len(self.names):
            raise MismatchError(
                f"The new rows have shape {matrix.shape}. Give a matrix of biases with {len(self.names)} columns, as "
                "in the fit.",
                expected=(len(self.names),),
                got=matrix.shape,
            )
        return matrix


def _missing_in(column: NDArray[Any]) -> int:
    """Return how many numbers of a column are missing or infinite; of other columns all values, or none."""
    if column.dtype.kind in "fiu":
        return int(np.count_nonzero(~np.isfinite(column)))
    empty = column.dtype.kind == "O" and all(not hasattr(value, "__len__") and is_missing(value) for value in column)
    return len(column) if empty else 0


def _evaluated(frame: Frame, text: str) -> NDArray[Any]:
    if text in frame.columns and frame.column(text).dtype.kind in "fiub":
        return frame.column(text)
    return frame.evaluate([where(text)])[0]

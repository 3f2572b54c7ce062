"""DebiasedSample: one sample that speaks for the population, and what follows from its weights."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from vardi._estimate import bias_test
from vardi._estimate.bias_check import BiasCheck, untested
from vardi._estimate.bootstrap import Bootstrap, Progress, bootstrap
from vardi._estimate.bounds import Bounds
from vardi._estimate.bridge import Bridge, bridge_of
from vardi._estimate.cdf import DebiasedCdf
from vardi._estimate.estimates import Estimate, Estimates
from vardi._estimate.known_check import KnownCheck
from vardi._estimate.likelihood_ratio import LikelihoodRatio
from vardi._estimate.reliability import Trust, warn_of_doubt, warn_of_few_bridging
from vardi._estimate.resampling import Kind
from vardi._estimate.sensitivity import GAMMAS, Mean, Question, Sensitivity
from vardi._estimate.sensitivity import Kind as ErrorKind
from vardi._facts.diagnostics import Diagnostics, diagnose
from vardi._facts.summary import summarize, to_html, to_text
from vardi._fit import parameters
from vardi._fit.known import check_known, joined
from vardi._fit.normalisers import log_normalisers
from vardi._fit.weighted import Weighted
from vardi._inputs.frames.functions import is_function, name_of
from vardi._inputs.given import Function, Functions, Labels
from vardi._inputs.old_names import shares_attribute
from vardi._inputs.pool import Name
from vardi._machine.atomic_write import require_writable, whole_file
from vardi._solve.identify import Verdict
from vardi._types import Floats
from vardi.biases import Bias
from vardi.errors import MismatchError, number_of_rows
from vardi.errors._texts import listed


class DebiasedSample(Weighted):
    r"""The pool with a weight for each row: what :func:`vardi.debias` returns.

    Attributes
    ----------
    names : tuple
        The samples in the user's order, then the states that no sample was drawn from.
    solution : Solution
        How the equations were solved, and how well.
    """

    @cached_property
    def known(self) -> KnownCheck | None:
        """What is known of the population beside what the samples say of it; None where nothing was given."""
        return check_known(self.held)

    @property
    def shares(self) -> NoReturn:
        """The former name of ``known``: an error says so."""
        raise shares_attribute()

    @cached_property
    def parameters(self) -> dict[Name, dict[str, Estimate]]:
        """The parameters of each bias that has some, with their errors; empty where all biases are known."""
        return parameters.estimates(self.held)

    @property
    def estimated_biases(self) -> dict[Name, Bias]:
        """The biases that have parameters, with these fixed at their estimates."""
        return parameters.fixed_biases(self.held)

    def expectation(self, values: Function, level: float = 0.95) -> Estimate:
        r"""Return the mean of something over the population, :math:`E_P f = \sum_i \pi_i f(z_i)`, with its error.

        Parameters
        ----------
        values : str, expression or array
            A column, an expression of columns (``"price > 30"`` is a share), one of Polars or narwhals, or a value for
            each row of the pool.
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
        23.22 ± 0.97 (95%: 21.27 to 25.17)
        >>> print(fit.expectation("MEDV * (RM > 6)") / fit.expectation("RM > 6"))  # of houses with many rooms
        25.8 ± 1.2 (95%: 23.4 to 28.2)
        """
        return self._estimates(self.held.functions(values), [values], level)[0]

    def expectations(self, matrix: Functions, level: float = 0.95) -> Estimates:
        """Return the means of several functions over the population, with their covariance.

        Parameters
        ----------
        matrix : array of shape (n, m), column, expression (text, Polars or narwhals), or list of these two
            The functions.
        level : float
            Coverage of each interval.
        """
        matrix = [matrix] if is_function(matrix) else matrix
        named = matrix if isinstance(matrix, list | tuple) and any(map(is_function, matrix)) else ()
        return self._estimates(self.held.matrix(matrix), named, level)

    def _estimates(self, functions: Any, named: Sequence[Any], level: float) -> Estimates:
        """Return means of functions, of which some are named, with a word where errors rest on few rows."""
        declared = [isinstance(one, str) and self.held.is_declared(one) for one in named]
        estimates = self.held.tangent.estimates(functions, level, declared)
        called = [f"the mean of {name_of(one)!r}" if is_function(one) else "the mean" for one in named]
        called = called or [f"mean {j}" for j in range(len(estimates))]
        warn_of_doubt(self.names, called, estimates.laws)
        return estimates

    def cdf(self, column: Function) -> DebiasedCdf:
        """Return the debiased distribution function of a column, an expression, or a value for each row."""
        return DebiasedCdf(self.held.tangent, self.held.steps(column))

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
        found = dict(zip(self.names, log_normalisers(self.held, level), strict=True))
        called = [f"the normaliser of {str(name)!r}" for name in found]
        warn_of_doubt(self.names, called, [estimate.law for estimate in found.values()])
        return found

    def log_omega_covariance(self) -> Floats:
        r"""Return the covariance of the log normalisers, relative to the population.

        The variance of :math:`\log\Omega_k - \log\Omega_l` is ``C[k, k] + C[l, l] - 2 * C[k, l]``: the squared error
        that MBAR gives for a difference of free energies. A warning says where few rows compare the samples.
        """
        warn_of_few_bridging(self.bridge, "The covariance rests")
        return self.held.log_omega_covariance()

    @cached_property
    def trust(self) -> Trust:
        """How far standard errors can be trusted: the worst over the log normalisers and the means of the summary."""
        return summarize(self).trust

    @cached_property
    def bridge(self) -> Bridge:
        """Where the samples are joined least firmly: the smallest cut of their overlap."""
        hessian, solution = self.held.tangent.hessian, self.solution
        return bridge_of(hessian.sums.gram, hessian.sampled, self.held.groups, solution.cut, self.names)

    def identify(self) -> Verdict:
        """Tell through which rows the samples are compared; kappa is measured by the debiased weights."""
        return self.bridge.within(joined(self.held))

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
        statistic: Functions | Callable[..., Any] | None = None,
        n: int = 1000,
        seed: int | np.random.Generator | None = 0,
        *,
        kind: Kind = "bayesian",
        groups: Labels | None = None,
        level: float = 0.95,
        jobs: int | None = None,
        progress: Progress | None = None,
        id: str | None = None,
    ) -> Bootstrap:
        """Refit the normalisers to resampled rows, and give the spread of a statistic over the refits.

        Parameters
        ----------
        statistic : str, expression, array, list of these, callable or None
            A column, an expression or a value for each row, of which the debiased mean is taken; several of these; or
            a function of the weights (pool order, times how often each row was drawn, mean 1). None gives the log
            normalisers alone.
        n, seed, kind, groups, level, jobs, progress
            As for :func:`vardi._estimate.bootstrap.bootstrap`: draws; their seed; ``"bayesian"`` (every row stays) or
            ``"rows"``; clusters or blocks of dependent rows; coverage; threads; a callback.
        id : str, optional
            In an engine, where whole groups of rows are drawn by one query in all: the column that identifies a row,
            where the engine has no row number of its own.

        Examples
        --------
        >>> import vardi
        >>> design = vardi.datasets.house_prices(seed=0)
        >>> fit = vardi.debias(design.samples, design.biases)
        >>> print(fit.bootstrap("MEDV", n=200))
        Bayesian bootstrap: 200 refits, none failed
        MEDV  23.2 ± 1.0 (95%: 21.2 to 25.2)
        """
        if isinstance(statistic, int | float | np.number):
            raise MismatchError(
                f"The statistic is the number {statistic}, whose spread is none. For {statistic} draws write "
                f"bootstrap(n={statistic}), or bootstrap('a column', n={statistic}).",
                expected=("column", "expression", "array", "function"),
                got=(statistic,),
            )
        options: dict[str, Any] = {"kind": kind, "groups": groups, "level": level, "jobs": jobs, "progress": progress}
        return bootstrap(self.held, statistic, n, seed, **options, identity=id)

    def check_biases(
        self,
        columns: str | Sequence[str] | Mapping[str, Function] | None = None,
        *,
        method: bias_test.Method = "score",
        features: bias_test.Features = "poly2",
        seed: int = 0,
        draws: int | None = None,
    ) -> BiasCheck:
        """Test whether the samples agree with their declared biases where they overlap.

        Parameters
        ----------
        columns : str, sequence of str, or mapping from name to values, optional
            Columns or expressions to compare the samples in; the numeric columns that the biases read by default.
        method : {"score", "ks", "ks-bootstrap"}
            A score test, or the largest distance of distribution functions, by labels drawn anew or by refits.
        features : {"poly2", "cells"}
            What the score test compares: x and its square, or five cells of x.
        seed, draws : int
            Of the draws of the last two methods.

        Examples
        --------
        >>> import vardi
        >>> design = vardi.datasets.length_bias(seed=0)
        >>> fit = vardi.debias(design.samples, design.biases)
        >>> bool(fit.check_biases().pvalue > 0.05)
        True
        """
        if columns is None:
            read = {name for bias in self.held.pool.biases for name in bias.columns}
            columns = [name for name in self.numeric_columns if name in read] or self.numeric_columns
            if not columns and self.held.mixed:
                said = listed(f"{name} is {where}" for name, where in self.held.mixed.items())
                return untested(f"{said}, and no other column is of numbers alone. Convert it to one kind.")
        named = (
            columns
            if isinstance(columns, Mapping)
            else dict.fromkeys([columns] if isinstance(columns, str) else columns)
        )
        asked = {name: name if value is None else value for name, value in named.items()}
        found = self.held.check_biases(asked, method=method, features=features, seed=seed, draws=draws)
        if method == "score" and not found.reason:
            warn_of_few_bridging(self.bridge, "The p-values rest", ', or draw the labels anew, as method="ks" does')
        return found

    def sensitivity(
        self,
        values: Function,
        gammas: float | Sequence[float] = GAMMAS,
        *,
        samples: Sequence[Name] | None = None,
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
        mean of MEDV: 23.22 ± 0.97 (95%: 21.27 to 25.17), if the biases of 'agency',
        'national' are wrong by up to this factor:
        factor  lowest  highest  linear from  linear to
             1   23.22    23.22        23.22      23.22
           1.1   22.37    24.08        22.37      24.07
        ...
        One standard error (0.97) is reached at 1.115.
        20 is reached at 1.453.
        """
        question = Question.of(self.held, gammas, samples, kind, threshold)
        functions = self.held.functions(values)
        estimate = self._estimates(functions, [values], 0.95)[0]
        what = name_of(values) if is_function(values) else "values"
        return question.answer(Mean(functions), estimate, f"mean of {what}")

    def bounds(self, delta: float = 0.05) -> Bounds:
        """Return the paper's finite-sample constants for this fit, and a certificate that is of use.

        Parameters
        ----------
        delta : float
            Probability with which a bound may fail.
        """
        return self.held.bounds(delta)

    def test_no_bias(self, name: Name) -> LikelihoodRatio:
        """Test whether the family of a sample is constant: whether the sample was drawn without (further) bias.

        For logistic selection the alternative is the exponential tilt in the same columns, which every logistic curve
        is like where it is nearly flat; the intercept means nothing there. The degrees of freedom are the slopes.

        Parameters
        ----------
        name : str
            Of the sample.
        """
        return parameters.test_no_bias(self.held, name)

    def test_parameters(self, name: Name, values: Mapping[str, float]) -> LikelihoodRatio:
        """Test declared values of parameters; those that are not declared are estimated anew.

        Parameters
        ----------
        name : str
            Of the sample.
        values : mapping from parameter to number
            One or several parameters of its bias.
        """
        return parameters.test_values(self.held, name, values)

    @property
    def numeric_columns(self) -> tuple[str, ...]:
        """The numeric columns of the pool without missing values, those that the biases read first."""
        return self.held.numeric_columns

    def summary(self) -> str:
        """Return what a person wants to know first, in one screen."""
        return to_text(summarize(self))

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str | None = None,
        variables: Sequence[str] | Mapping[str, Function] | None = None,
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

        """
        from vardi import report
        from vardi.report._render import require_html

        require_html(path)
        target = require_writable(path, overwrite=overwrite)
        html = report.to_html(report.compute(self, title=title, variables=variables, date=date))
        with whole_file(target, overwrite=overwrite) as temporary:
            temporary.write_text(html, encoding="utf-8")
        return target

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        samples = int((self.held.rows.sizes > 0).sum())
        return f"DebiasedSample({number_of_rows(len(self))} of {samples} sample{'' if samples == 1 else 's'})"

    def _repr_html_(self) -> str:
        return to_html(summarize(self))

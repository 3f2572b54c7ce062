"""DebiasedSample: one sample that represents the population, and what follows from its weights."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vardi._estimate.estimates import Estimate, EstimatesByName
from vardi._estimate.intervals import warn_of_doubt
from vardi._estimate.reliability import Bridge, Trust, bridge_of, warn_of_few_bridging
from vardi._estimate.sensitivity.result import GAMMAS
from vardi._estimate.tables import in_library
from vardi._files import require_writable, whole_file
from vardi._fit.capabilities import Part, refusal, refused
from vardi._fit.solved import Solved
from vardi._fit.weighted import WeightedSample, called
from vardi._inputs.given import Biases, Function, Functions, Labels, Samples
from vardi._inputs.pool import Name
from vardi._solve.identify import Verdict
from vardi._tables import Part as ShownPart
from vardi._tables import Shown
from vardi._types import Floats
from vardi.biases import Bias
from vardi.biases._kinds import columns_to_test
from vardi.biases._learned import LearnedCheck, checks_of
from vardi.errors import MismatchError, number_of_rows, suggest
from vardi.errors._texts import listed, show

if TYPE_CHECKING:  # what a fit itself does not need is loaded when it is asked for
    from vardi._estimate.bootstrap import Bootstrap
    from vardi._estimate.bounds import Bounds
    from vardi._estimate.check_results import BiasCheck, Features, KnownCheck
    from vardi._estimate.likelihood_ratio import LikelihoodRatio
    from vardi._estimate.refits import DrawKind, Progress
    from vardi._estimate.sensitivity.result import Kind as ErrorKind
    from vardi._estimate.sensitivity.result import Sensitivity
    from vardi._facts.account import Account
    from vardi._facts.diagnostics import Diagnostics
    from vardi._fit.debias import FrameInputs, MatrixInputs
    from vardi._fit.weigher import Weigher
    from vardi._rows.multipliers import ReplicateKind


class DebiasedSample(WeightedSample, Shown):
    r"""The pool with a weight for each row: what :func:`vardi.debias` returns.

    Attributes
    ----------
    names : tuple
        The samples in the user's order, then the states that no sample was drawn from.
    solution : Solution
        How the equations were solved, and how well.
    """

    def __init__(self, solved: Solved, inputs: FrameInputs | MatrixInputs) -> None:
        super().__init__(solved)
        self._inputs = inputs  # the arguments of the call that made it

    @cached_property
    def known(self) -> KnownCheck | None:
        """What is known of the population next to what the samples imply about it; None if nothing was given.

        With learned biases only the samples whose biases are known are compared: the test cannot account for learning.
        """
        from vardi._fit.parameters import check_known

        found = check_known(self.data.reference or self.solved)
        return None if found is None else in_library(found, self.data.library)

    @cached_property
    def parameters(self) -> dict[Name, EstimatesByName[str]]:
        """The parameters of each bias that has any, with their errors; empty if all biases are known."""
        from vardi._fit.parameters import estimates

        return {name: in_library(one, self.data.library) for name, one in estimates(self.solved).items()}

    @property
    def estimated_biases(self) -> dict[Name, Bias]:
        """The biases that have parameters, with these fixed at their estimates."""
        return {self.names[k]: self.solved.fixed_bias(k) for k in self.solved.joint.families}

    @property
    def learned(self) -> dict[Name, LearnedCheck]:
        """How each learned bias was learned, with a table of calibration; empty if none was."""
        return checks_of(self.names, self.solved.pool.biases)

    def normalisers(self, level: float = 0.95) -> EstimatesByName[Name]:
        r"""Return each :math:`\Omega_k` with its error; intervals are made on the log scale."""
        found = EstimatesByName((name, estimate.exp()) for name, estimate in self.log_normalisers(level).items())
        return in_library(found, self.data.library)

    def log_normalisers(self, level: float = 0.95) -> EstimatesByName[Name]:
        r"""Return each :math:`\log\Omega_k` with its error, relative to the population.

        The difference of two is, in physics, (minus) a difference of free energies, and carries its error along.

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
        found = EstimatesByName(zip(self.names, self.solved.log_normalisers(level), strict=True))
        what = [f"the normaliser of {str(name)!r}" for name in found]
        warn_of_doubt(self.names, what, [estimate.law for estimate in found.values()])
        return in_library(found, self.data.library)

    def log_ratio(self, name: Name, other: Name, level: float = 0.95) -> Estimate:
        r"""Return :math:`\log(\Omega_k / \Omega_l)` with its error: in physics, the free energy of l minus that of k.

        Where too few rows join the two, no error can be given, and the printed estimate says so.

        Parameters
        ----------
        name, other : names
            Two samples or states.
        level : float
            Coverage of the interval.

        Examples
        --------
        >>> import numpy as np
        >>> import vardi
        >>> rng = np.random.default_rng(0)
        >>> runs = {"left": rng.normal(-1.4, 1, 300), "right": rng.normal(1.4, 1, 300)}
        >>> fit = vardi.debias(runs, {"left": "exp(-1.4 * x)", "right": "exp(1.4 * x)"})
        >>> print(fit.log_ratio("right", "left"))
        0.06 ± 0.14 (95%: -0.22 to 0.35)
        """
        k, l = (self.place_of(one) for one in (name, other))
        found = self.solved.log_ratio(k, l, level)
        warn_of_doubt(self.names, [f"the log ratio of {str(name)!r} and {str(other)!r}"], [found.law])
        return found

    def place_of(self, name: Name) -> int:
        """Return the place of a sample or state in ``names``; raise if there is none of this name."""
        if name not in self.names:
            raise MismatchError(
                f"The fit has no bias {name!r}. Its biases are {show(self.names)}.{suggest(name, self.names)}"
            )
        return self.names.index(name)

    def log_omega_covariance(self) -> Floats:
        r"""Return the covariance of the log normalisers, relative to the population.

        The variance of :math:`\log\Omega_k - \log\Omega_l` is ``C[k, k] + C[l, l] - 2 * C[k, l]``: the squared error
        that MBAR gives for a difference of free energies. A warning says where few rows compare the samples.
        """
        covariance = self.solved.log_omega_covariance()  # which forms the gram that tells the bridge
        warn_of_few_bridging(self.bridge, "The covariance rests")
        return covariance

    @cached_property
    def bridge(self) -> Bridge:
        """The weakest link between the samples: the smallest cut of their overlap."""
        hessian = self.solved.tangent.hessian
        return bridge_of(hessian.gram, hessian.sampled, self.solved.groups, self.solution.cut, self.names)

    def identify(self) -> Verdict:
        """Return which rows connect the samples; kappa is measured with the debiased weights."""
        return self.bridge.within(self.solved.judge())

    @cached_property
    def trust(self) -> Trust:
        """How far standard errors can be trusted: the worst over the log normalisers and the means of the summary."""
        return self._account.trust

    @cached_property
    def _account(self) -> Account:
        """What summary, print and notebooks show, computed once."""
        from vardi._facts.summary import summarize

        return summarize(self)

    def diagnostics(self, columns: Sequence[str] | None = None) -> Diagnostics:
        """Return effective sizes, overlap, how the weight is spread, means before and after, what to collect next.

        Parameters
        ----------
        columns : sequence of str, optional
            Columns or expressions to look at; all numeric columns without missing values by default, also those that
            only some samples have recorded.
        """
        columns = [columns] if isinstance(columns, str) else columns
        from vardi._facts.diagnostics import diagnose

        columns = (*self.numeric_columns, *self.solved.numeric_of_some) if columns is None else columns
        return in_library(diagnose(self, columns), self.data.library)

    def bootstrap(
        self,
        statistic: Functions | Callable[..., Any] | None = None,
        n: int = 1000,
        seed: int | np.random.Generator | None = 0,
        *,
        kind: DrawKind = "bayesian",
        groups: Labels | None = None,
        level: float = 0.95,
        jobs: int | None = None,
        progress: Progress | None = None,
        id: str | None = None,
    ) -> Bootstrap:
        """Refit the normalisers to resampled rows, and return the spread of a statistic over the refits.

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
            In an engine, where whole groups of rows are drawn with a single query: the column that identifies a row,
            if the engine has no row number of its own.

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
                f"The statistic is the number {statistic}, which has no spread. For {statistic} draws write "
                f"bootstrap(n={statistic}), or bootstrap('a column', n={statistic})."
            )
        from vardi._estimate.bootstrap import bootstrap

        how: Any = {"kind": kind, "groups": groups, "level": level, "jobs": jobs, "progress": progress}
        return in_library(bootstrap(self.solved, statistic, n, seed, **how, identity=id), self.data.library)

    def replicate_weights(
        self,
        n: int = 500,
        seed: int | np.random.Generator | None = 0,
        *,
        kind: ReplicateKind = "bayesian",
        id: str | None = None,
        progress: Progress | None = None,
    ) -> Any:
        r"""Return the weights of n replicates, from which R, Stata or svy compute standard errors of anything.

        .. math::

            w_i^{(r)} \propto m_i^{(r)} e^{-x_i'\delta_r} / S_i,\qquad
            \delta_r = -J^{-1}\Big(\sum_i m_i^{(r)} q_i - n\Big),\qquad
            V = c \sum_r (\hat\theta_r - \hat\theta)^2.

        Each replicate counts the rows of a sample :math:`m^{(r)}` times, is refitted by one Newton step from the
        solution, and has mean 1 over the (counted) rows. What the step leaves out is of second order: with samples of
        40 and 80 rows errors of means were within 0.5% of those of full refits of the same draws, and within 3% with
        parameters or known values. c is 1/n; for a jackknife (n - 1)/n.

        Parameters
        ----------
        n : int
            How many replicates; for a jackknife how many groups.
        seed : int, Generator or None
            Multipliers hash the seed, the replicate and what identifies the row, never its values; so a replicate is
            the same whatever n is (except for a jackknife), in memory and in every engine.
        kind : {"bayesian", "rows", "jackknife"}
            Exponential multipliers of mean 1 (every row stays); Poisson counts (rows drawn with replacement); or
            rows put into n random groups, each left out in one replicate.
        id : str, optional
            The column that identifies a row. By default it is the row's position in its frame; engines other than
            Polars have no positions, and need the column.
        progress : callable, optional
            Called as ``progress(done, n)`` as replicates are done.

        Returns
        -------
        array or frame
            In memory n columns ``replicate_1``, ... in pool order and in the user's library. For lazy frames, the
            frames themselves with a column ``weight`` and these, which the engine computes as they are written.

        Examples
        --------
        >>> import numpy as np
        >>> import vardi
        >>> design = vardi.datasets.house_prices(seed=0)
        >>> fit = vardi.debias(design.samples, design.biases)
        >>> replicates = fit.replicate_weights(500)
        >>> price = np.concatenate([sample["MEDV"] for sample in design.samples.values()])
        >>> means = np.average(np.tile(price, (500, 1)), axis=1, weights=np.asarray(replicates).T)
        >>> float(np.sqrt(np.mean((means - fit.expectation("MEDV").value) ** 2)).round(2))
        0.96
        """
        from vardi._estimate.replicates import replicate_weights

        return replicate_weights(self.solved, n, kind, seed, identity=id, progress=progress)

    def check_biases(
        self,
        columns: str | Sequence[str] | Mapping[str, Function] | None = None,
        *,
        features: Features = "ranks",
    ) -> BiasCheck:
        """Test whether the samples agree with their declared biases where they overlap, by a score test.

        Truncated rows (:func:`vardi.window`) are one sample: the test is then whether their windows depend on their
        values beyond containing them (quasi-independence), by a conditional Kendall's tau over pairs of rows that would
        have been seen through each other's window.

        Parameters
        ----------
        columns : str, sequence of str, or mapping from name to values, optional
            Columns or expressions to compare the samples by; the numeric columns that the biases read by default.
        features : {"ranks", "poly2", "cells"}
            What the test compares: the debiased distribution function at x and its square, which keeps its level with
            heavy tails; x and its square; or five cells of x.

        Examples
        --------
        >>> import vardi
        >>> design = vardi.datasets.length_bias(seed=0)
        >>> fit = vardi.debias(design.samples, design.biases)
        >>> bool(fit.check_biases().pvalue > 0.05)
        True
        """
        from vardi._estimate.check_results import require_features, untested

        require_features(features)
        if columns is None:
            columns = columns_to_test(self.solved.pool.biases, self.numeric_columns) or self.numeric_columns
            if not columns and self.data.mixed:
                said = listed(f"{name} is {where}" for name, where in self.data.mixed.items())
                return untested(f"{said}, and no other column is numeric. Convert it to one type.")
        if not isinstance(columns, Iterable):
            raise MismatchError(
                f"The columns to compare samples by were given as {type(columns).__name__}. Name a column, or several "
                "in a list, or give a mapping from names to values."
            )
        names = [columns] if isinstance(columns, str) else columns
        named = names if isinstance(names, Mapping) else dict.fromkeys(names)
        asked = {name: name if value is None else value for name, value in named.items()}
        found = self.solved.check_biases(asked, features)
        if not found.reason:
            warn_of_few_bridging(self.bridge, "The p-values rest")
        return in_library(found, self.data.library)

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

        The true bias is then within :math:`[\omega_l / \Gamma, \Gamma \omega_l]`, freely in each row, and zero
        where :math:`\omega_l` is; a constant factor drops out. So it may also depend on what no column holds, up to
        that factor. No method can infer the factor from these data: that is for you to judge.

        Parameters
        ----------
        values : str or array
            As for ``expectation``. For a model's coefficient see :func:`vardi.learn.coefficient_sensitivity`.
        gammas : float or increasing sequence of float
            The factors, from 1 on.
        samples : sequence of names, optional
            The samples whose biases may be wrong; by default all, those declared everywhere included, or, with learned
            biases, those that were learned. Where only some samples have recorded the values, it is their bias as a
            whole.
        kind : {"free", "common"}
            Whether each bias errs on its own, or all by the same factor in the same row.
        threshold : float, optional
            A value at which the conclusion would change; its tipping point is then part of the answer.

        Returns
        -------
        Sensitivity
            Its range is exact for one sample, and for common errors of all; otherwise it is attained by a search with
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
        from vardi._estimate.sensitivity.question import Mean, Question

        what = f"mean of {called(values)}"
        fit: WeightedSample = self
        model = None
        if self.data.in_memory and self.solved.pool.frames:
            fit, model = self._assisted(values)
        samples = samples if model is None else model.may_be_wrong(samples)
        question, own = Question(fit.solved, gammas, samples, kind, threshold), None
        if model is None:
            functions = fit.data.functions(values)
            estimate = fit._means(functions, [values], 0.95)[0]
        else:
            functions, own, estimate = model.apart(0.95)
        return in_library(question.answer(Mean(functions), estimate, what, own), self.data.library)

    def bounds(self, delta: float = 0.05) -> Bounds:
        """Return the paper's finite-sample constants for this fit, and a certificate that is useful in practice.

        Parameters
        ----------
        delta : float
            Probability with which a bound may fail.
        """
        part: Part = "learned" if self.data.reference else "none" if self.solved.is_plain else "both"
        if no := refused("bounds", self.data.holder, part, "clusters" if self.solved.depends else "independent"):
            raise no.error()  # the theory is for known biases joined by overlap alone
        from vardi._estimate.bounds import bounds

        return bounds(self.solved.tangent, self.names, delta)

    def test_no_bias(self, name: Name) -> LikelihoodRatio:
        """Test whether the family of a sample is constant: whether the sample was drawn without (further) bias.

        For logistic selection the alternative is the exponential tilt in the same columns, which every logistic curve
        resembles where it is nearly flat; the intercept means nothing there. Each slope is a degree of freedom.

        Parameters
        ----------
        name : str
            The name of the sample.
        """
        from vardi._estimate.likelihood_ratio import no_bias
        from vardi._fit.parameters import likelihood

        return no_bias(*likelihood(self.solved, name), str(name))

    def test_parameters(self, name: Name, values: Mapping[str, float]) -> LikelihoodRatio:
        """Test declared values of parameters; those that are not declared are re-estimated.

        Parameters
        ----------
        name : str
            The name of the sample.
        values : mapping from parameter to number
            One or several parameters of its bias.
        """
        from vardi._estimate.likelihood_ratio import declared
        from vardi._fit.parameters import likelihood

        return declared(*likelihood(self.solved, name), values, str(name))

    def update(self, samples: Samples, biases: Biases | None = None) -> DebiasedSample:
        r"""Return the fit of these rows and further ones, solved from this solution on.

        It is the fit that :func:`vardi.debias` would give for all rows together, checked and certified like any other,
        in fewer passes over the rows: :math:`u_k = \log(n_k / n) - \log\Omega_k`, with the normalisers of this fit and
        the new sizes, is near its solution, and the normaliser of a new sample is first guessed by the old weights.
        Parameters of biases are sought anew, since their likelihood may have several minima.

        Parameters
        ----------
        samples : mapping from name to rows, or list of rows
            New rows of the same form as those of the fit; for a fit of one labelled frame also such a frame. They come
            after the rows of the same sample; for one labelled frame, or a matrix, after all rows. Of a matrix they
            have a column for each bias, as logs where the fit was given logs; of :class:`~vardi.Windows` they are
            the values.
        biases : mapping from name to bias, optional
            Of samples that the fit does not have yet. For a matrix the values on all rows, the new ones last; for
            windows the two ends.

        Returns
        -------
        DebiasedSample
            A new fit; this one stays what it is.

        Examples
        --------
        >>> import numpy as np
        >>> import vardi
        >>> plain, seen = np.array([1.0, 2.0, 4.0]), np.array([2.0, 4.0, 4.0, 8.0])
        >>> fit = vardi.debias({"plain": plain, "seen": seen}, {"plain": 1, "seen": "x"})
        >>> more = fit.update({"seen": np.array([1.0, 9.0])})
        >>> len(fit), len(more)
        (7, 9)
        >>> long = more.update({"long": np.array([4.0, 9.0])}, biases={"long": "x >= 3"})
        >>> long.sizes
        {'plain': 3, 'seen': 6, 'long': 2}
        """
        from vardi._fit.debias import fitted

        return fitted(self._inputs.updated(samples, biases, self.solved.pool), near=self.solved.near)

    def weigher(self) -> Weigher:
        """Return the fit without its rows: it weighs any others, knows its normalisers, and is small.

        It can be pickled and saved. Errors of means need the rows, and stay with the fit.

        Examples
        --------
        >>> import numpy as np
        >>> import vardi
        >>> pool = {"plain": np.array([1.0, 2.0, 4.0]), "seen": np.array([2.0, 4.0, 4.0, 8.0])}
        >>> weigher = vardi.debias(pool, {"plain": 1, "seen": "x"}).weigher()
        >>> weigher.weigh(np.array([0.0, 1.0, 100.0])).round(3)
        array([2.333, 1.599, 0.05 ])
        """
        from vardi._fit.weigher import NormaliserErrors

        weigher = self.solved.weigher
        if not weigher.biases:
            raise refusal("weights as a formula", "sparse")
        return replace(weigher, errors=NormaliserErrors.of(self.solved))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the fit, without its rows, to a file that :func:`vardi.load` reads: JSON that a person can read.

        It holds samples and sizes, biases as text, parameters, normalisers with their covariance, known values, and
        columns with their types; with a hash of itself and, for rows in memory, one of what was read of them.

        Parameters
        ----------
        path : str or path
            Where to; the file appears whole or not at all.
        overwrite : bool
            Whether an existing file may be replaced.

        Returns
        -------
        Path
            The file.
        """
        from vardi._fit.saved import hash_of_rows, save

        return save(self.weigher(), path, overwrite=overwrite, data=hash_of_rows(self.solved))

    @property
    def numeric_columns(self) -> tuple[str, ...]:
        """The numeric columns of the pool without missing values, those that the biases read first."""
        return self.data.numeric_columns

    def _parts(self) -> list[ShownPart]:
        from vardi._facts.summary import parts_of

        return parts_of(self._account)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str | None = None,
        variables: Sequence[str] | Mapping[str, Function] | None = None,
        date: str = "",
        study: str | os.PathLike[str] | None = None,
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
            number that the report states.
        date : str
            Printed as it is; none by default, so that the same fit gives the same file.
        study : str or path, optional
            The study file that the fit follows from: the report names it, with its hash, as what repeats the fit.
        overwrite : bool
            Whether an existing file may be replaced.

        Returns
        -------
        Path
            The file.

        """
        from vardi import report
        from vardi.report._render import require_html

        require_html(path)
        target = require_writable(path, overwrite=overwrite, remedy="Give overwrite=True, or another name.")
        html = report.to_html(report.compute(self, title=title, variables=variables, date=date, study=study))
        with whole_file(target, overwrite=overwrite) as temporary:
            temporary.write_text(html, encoding="utf-8")
        return target

    def __repr__(self) -> str:
        samples = int((self.solved.rows.sizes > 0).sum())
        return f"DebiasedSample({number_of_rows(len(self))} of {samples} sample{'' if samples == 1 else 's'})"

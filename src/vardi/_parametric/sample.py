"""ParametricSample: a debiased sample some of whose biases have parameters that were estimated with the normalisers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any, NoReturn

import numpy as np
from scipy.special import logsumexp

from vardi._estimates import Estimate, Estimates
from vardi._frames import as_frame
from vardi._goodness import BiasCheck
from vardi._newton import Solution, newton
from vardi._parametric.influence import ParametricCdf, ParametricInfluence
from vardi._parametric.models import users_log_omega
from vardi._parametric.ratio import LikelihoodRatio, declared, no_bias
from vardi._parametric.scoring import Scored, maximise
from vardi._parametric.setup import Setup
from vardi._pool import Name, cut, show
from vardi._rows import Checks, Rows
from vardi._sample import DebiasedSample
from vardi._sums import Floats
from vardi._trust import require_trust
from vardi.biases import Bias, ParametricBias
from vardi.errors import ImpossibleRowError, MismatchError, VardiError, suggest

DRAWN = 1e-4  # score of a refit, far below the spread of any draw


@dataclass(frozen=True)
class Refit:
    """A draw of a bootstrap, fitted anew."""

    weights: Floats
    log_omegas: Floats


@dataclass(frozen=True)
class Refits:
    """Fits normalisers and parameters to other counts of the same rows."""

    setup: Setup
    scored: Scored

    def refit(self, counts: Floats, *, tol: float) -> Refit | None:
        """Return weights and log normalisers for other counts; None where there is no fit."""
        likelihood = self.setup.likelihood.with_counts(counts)
        start = self.scored.point
        scored = maximise(likelihood, start.u, start.theta, tol=DRAWN, settled=1e-3)
        if not scored.converged:
            return None
        rows = self.setup.rows(scored.point.theta)
        rows = rows.with_rows(rows.matrix, rows.source, counts)
        u = np.full(len(rows.sizes), -np.inf)
        u[self.setup.sampled] = scored.point.u - likelihood.shift(scored.point.theta)
        solution = newton(rows, u, tol=tol)
        if not solution.converged:
            return None
        weights, shift = rows.weights(solution.u)
        return Refit(weights, rows.log_means(solution.u) - shift - np.log(rows.sizes.sum()))


class ParametricSample(DebiasedSample):
    r"""A debiased sample with biases that have parameters: what :func:`vardi.debias` returns for these.

    Normalisers and parameters maximise the profile likelihood (Gilbert, Lele and Vardi 1999), and every error includes
    that of both.

    Attributes
    ----------
    parameters : dict of name to dict of str to Estimate
        The parameters of each bias that has some.
    estimated_biases : dict of name to Bias
        These biases with their parameters fixed at the estimates.

    Examples
    --------
    >>> import numpy as np
    >>> import vardi
    >>> rng = np.random.default_rng(0)
    >>> drawn = rng.normal(size=20000)
    >>> panel = drawn[rng.random(20000) < 1 / (1 + np.exp(0.5 - 2 * drawn))][:1200]
    >>> samples = {"reference": rng.normal(size=400), "panel": panel}
    >>> fit = vardi.debias(samples, {"reference": 1, "panel": vardi.logistic("x")})
    >>> print(fit.parameters["panel"]["x"])
    2.01 ± 0.24 (95%: 1.54 to 2.49)
    >>> print(fit.test_no_bias("panel"))
    p = 3.8e-47 (likelihood ratio: chi-square 208, 1 degree of freedom)
    """

    def __init__(self, setup: Setup, rows: Rows, solution: Solution, weights: Floats, scored: Scored) -> None:
        super().__init__(setup.pool, rows, solution, weights, None if setup.kept.all() else setup.kept)
        self._setup, self._scored = setup, scored
        self._parameters = Refits(setup, scored)

    @cached_property
    def parameters(self) -> dict[Name, dict[str, Estimate]]:
        """The parameters of each bias that has some, with their errors."""
        likelihood, point = self._setup.likelihood, self._scored.point
        values = likelihood.scale @ point.theta
        covariance = self._influence.covariance(self._users_theta, trusted=self.trust.errors_hold)
        estimates = Estimates(values, covariance, influence=self._users_theta, strata=self._influence.strata)
        return {
            self._name(k): dict(
                zip(model.names, [estimates[j] for j in range(len(values))][likelihood.places[k]], strict=True)
            )
            for k, model in likelihood.models.items()
        }

    @property
    def estimated_biases(self) -> dict[Name, Bias]:
        """The biases that have parameters, with these fixed at their estimates."""
        users = self._setup.likelihood.users(self._scored.point.theta)
        return {self._name(k): self._bias(k).at(theta.tolist()) for k, theta in users.items()}

    def test_no_bias(self, name: Name) -> LikelihoodRatio:
        """Test whether the family of a sample is constant: whether the sample was drawn without (further) bias.

        For logistic selection the alternative is the exponential tilt in the same columns, which every logistic curve
        is like where it is nearly flat; the intercept means nothing there. The degrees of freedom are the slopes.

        Parameters
        ----------
        name : str
            Of the sample.
        """
        return no_bias(self._scored.point, self._position(name), str(name))

    def test_parameters(self, name: Name, values: Mapping[str, float]) -> LikelihoodRatio:
        """Test declared values of parameters; those that are not declared are estimated anew.

        Parameters
        ----------
        name : str
            Of the sample.
        values : mapping from parameter to number
            One or several parameters of its bias.
        """
        return declared(self._scored.point, self._position(name), values, str(name))

    def cdf(self, column: Any) -> ParametricCdf:
        """Return the debiased distribution function of a column, an expression, or a value for each row."""
        require_trust(self)
        return ParametricCdf(self._influence, self._values(column), trusted=self.trust.errors_hold)

    def log_normalisers(self, level: float = 0.95) -> dict[Name, Estimate]:
        r"""Return each :math:`\log\Omega_k` with its error, which includes that of the parameters."""
        require_trust(self)
        log_omegas = np.array(list(self.log_omegas.values()))
        phi = self._log_omega_influence(log_omegas)
        covariance = self._influence.covariance(phi, trusted=self.trust.errors_hold)
        estimates = Estimates(log_omegas, covariance, level, influence=phi, strata=self._influence.strata)
        return dict(zip(self.names, estimates, strict=True))

    def log_omega_covariance(self) -> Floats:
        """Return the covariance of the log normalisers, that of the parameters included."""
        require_trust(self, tail=False)
        return self._influence.strata.covariance(self._log_omega_influence(np.array(list(self.log_omegas.values()))))

    def weigh(self, rows: Any) -> Any:
        """Return the weight of rows that need not be of the pool, by the biases at the estimated parameters."""
        frame = as_frame(rows)
        sampled, users = self._setup.sampled, self._setup.likelihood.users(self._scored.point.theta)
        biases = [self._pool.biases[k] for k in sampled]
        factors = frame.evaluate([bias.known if isinstance(bias, ParametricBias) else bias for bias in biases])
        Checks([self.names[k] for k in sampled], False, whole="the new rows").columns(factors)
        with np.errstate(divide="ignore"):
            L = np.log(np.column_stack([np.asarray(factor, np.float64) for factor in factors]))
        for k, theta in users.items():
            L[:, k] += users_log_omega(self._bias(k), frame, theta, str(self._name(k)))
        log_mass = logsumexp(L + self.solution.u[sampled], axis=1)
        uncovered = np.flatnonzero(log_mass == -np.inf)
        if len(uncovered):
            raise ImpossibleRowError(
                f"No sampled bias covers {len(uncovered)} of the new rows (the first is row {uncovered[0]}), so "
                "nothing is known of their weight. The debiased sample speaks for the part of the population that "
                "some sample could have drawn.",
                sample=None,
                rows=uncovered[:10],
            )
        return frame.series(np.exp(-log_mass), "weight")

    def check_biases(self, columns: Any = None, **options: Any) -> BiasCheck:
        """Say that it cannot be tested: the law of the statistics is for biases that are known."""
        return BiasCheck(
            pvalue=np.nan,
            statistic=np.nan,
            df=None,
            method="score",
            columns=(),
            by_sample={},
            worst=None,
            untested={},
            reason=(
                "some of them have parameters that were fitted to these rows, and the law of the test is for biases "
                "that are known. Test a richer family by test_parameters, or fix the parameters with .at(...) at "
                "values from elsewhere."
            ),
        )

    def bounds(self, delta: float = 0.05) -> NoReturn:
        """Refuse: the theory is of biases that are known."""
        raise VardiError(
            "The finite-sample bounds are for biases that are known, and some of these have estimated parameters. Fix "
            "them with .at(...) to see the bounds as if they were."
        )

    def summary(self) -> str:
        """Return what a person wants to know first, in one screen."""
        lines = [super().summary(), "", f"{'parameter':<30}  {'estimate':>38}"]
        for name, parameters in self.parameters.items():
            lines += [
                f"{cut(f'{name}: {parameter}', 30):<30}  {estimate!s:>38}" for parameter, estimate in parameters.items()
            ]
        return "\n".join([*lines, self._solved()])

    def _repr_html_(self) -> str:
        body = "".join(
            f"<tr><th>{escape(f'{name}: {parameter}')}</th><td>{escape(str(estimate))}</td></tr>"
            for name, parameters in self.parameters.items()
            for parameter, estimate in parameters.items()
        )
        head = "<thead><tr><th>parameter</th><th>estimate</th></tr></thead>"
        return f"{super()._repr_html_()}<div><table>{head}<tbody>{body}</tbody></table><p>{self._solved()}</p></div>"

    def _solved(self) -> str:
        return f"The likelihood is at its maximum: its gradient is {self._scored.score:.0e} of its standard error."

    @cached_property
    def _influence(self) -> ParametricInfluence:
        kept = self._setup.kept
        counts = None if self._pool.counts is None else self._pool.counts[kept]
        return ParametricInfluence(
            self._rows, self.solution.u, self._row_weights, self._pool.source[kept], counts, point=self._scored.point
        )

    @cached_property
    def _users_theta(self) -> Floats:
        return self._influence.theta @ self._setup.likelihood.scale.T

    def _log_omega_influence(self, log_omegas: Floats) -> Floats:
        r"""Return the influence on log Omega: by the weights, and by the parameters with :math:`E_{P_k} t_k`."""
        _, phi = self._influence.of_weighted(self._tilts(log_omegas))
        likelihood, point = self._setup.likelihood, self._scored.point
        for k, model in likelihood.models.items():
            place = likelihood.places[k]
            t = model.users_gradient(point.theta[place])
            mean = (likelihood.counts * point.probabilities[:, k]) @ t / likelihood.sizes[k]
            phi[:, self._setup.sampled[k]] += self._users_theta[:, place] @ mean
        return phi

    def _name(self, k: int) -> Name:
        return self.names[int(self._setup.sampled[k])]

    def _bias(self, k: int) -> ParametricBias:
        bias = self._pool.biases[int(self._setup.sampled[k])]
        assert isinstance(bias, ParametricBias)
        return bias

    def _position(self, name: Name) -> int:
        known = {self._name(k): k for k in self._setup.likelihood.models}
        if name not in known:
            fact = (
                f"The bias of {str(name)!r} has no parameters" if name in self.names else f"There is no sample {name!r}"
            )
            raise MismatchError(
                f"{fact}. Those of {show(known)} have parameters.{suggest(name, known)}",
                expected=known,
                got=(name,),
            )
        return known[name]

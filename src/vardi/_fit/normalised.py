"""What a fit tells of its biases: their normalisers and parameters, what is known, and how well samples connect."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vardi._estimate.bridge import Bridge, bridge_of
from vardi._estimate.estimates import ROUNDING, Estimate
from vardi._estimate.intervals import Declared, Law, Student
from vardi._estimate.reliability import warn_of_doubt, warn_of_few_bridging
from vardi._estimate.tangent import Influence, estimates_with
from vardi._fit.averages import Averages
from vardi._fit.known import check_known, joined
from vardi._inputs.pool import Name
from vardi._solve.identify import Verdict
from vardi._types import Floats
from vardi.biases import Bias, ExpressionBias
from vardi.biases._learned import LearnedCheck, checks_of
from vardi.errors import MismatchError, suggest
from vardi.errors._texts import show

if TYPE_CHECKING:
    from vardi._estimate.known_check import KnownCheck


class Normalised(Averages):
    """Rows with weights, and the normalisers behind them; :class:`DebiasedSample` answers further questions."""

    @cached_property
    def known(self) -> KnownCheck | None:
        """What is known of the population next to what the samples imply about it; None if nothing was given.

        With learned biases only the samples whose biases are known are compared: the test cannot account for learning.
        """
        return check_known(self.held.reference or self.held)

    @cached_property
    def parameters(self) -> dict[Name, dict[str, Estimate]]:
        """The parameters of each bias that has any, with their errors; empty if all biases are known."""
        from vardi._fit.parameters import estimates

        return estimates(self.held)

    @property
    def estimated_biases(self) -> dict[Name, Bias]:
        """The biases that have parameters, with these fixed at their estimates."""
        from vardi._fit.parameters import fixed_biases

        return fixed_biases(self.held)

    @property
    def learned(self) -> dict[Name, LearnedCheck]:
        """How each learned bias was learned, with a table of calibration; empty if none was."""
        return checks_of(self.names, self.held.pool.biases)

    def normalisers(self, level: float = 0.95) -> dict[Name, Estimate]:
        r"""Return each :math:`\Omega_k` with its error; intervals are made on the log scale."""
        return {name: estimate.exp() for name, estimate in self.log_normalisers(level).items()}

    def log_normalisers(self, level: float = 0.95) -> dict[Name, Estimate]:
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
        found = dict(zip(self.names, log_normalisers(self.held, level), strict=True))
        called = [f"the normaliser of {str(name)!r}" for name in found]
        warn_of_doubt(self.names, called, [estimate.law for estimate in found.values()])
        return found

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
        found = log_ratio(self.held, k, l, level)
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
        covariance = self.held.log_omega_covariance()  # which forms the gram that tells the bridge
        warn_of_few_bridging(self.bridge, "The covariance rests")
        return covariance

    @cached_property
    def bridge(self) -> Bridge:
        """The weakest link between the samples: the smallest cut of their overlap."""
        hessian = self.held.tangent.hessian
        return bridge_of(hessian.sums.gram, hessian.sampled, self.held.groups, self.solution.cut, self.names)

    def identify(self) -> Verdict:
        """Return which rows connect the samples; kappa is measured with the debiased weights."""
        return self.bridge.within(joined(self.held))


def log_normalisers(held: Any, level: float) -> list[Estimate]:
    """Return the log of each normaliser; of a bias that reads no column it is declared, and so is one that is known."""
    influence = held.bias_influence()
    spread = influence.spread(joint=False)
    stderr, laws = spread.stderr, list[Law](influence.laws(spread))
    for k, error in enumerate(stderr.tolist()):
        if error <= ROUNDING:
            bias = held.pool.biases[k] if held.pool.biases else None
            is_constant = isinstance(bias, ExpressionBias) and not bias.columns
            fixed = is_constant or held.joint.coordinates.known
            laws[k], stderr[k] = Declared() if fixed else Student(held.tangent.n - 1.0), 0.0
    return list(estimates_with(held.log_omegas, influence, spread.covariance, stderr, laws, level))


def log_ratio(held: Any, k: int, l: int, level: float) -> Estimate:
    """Return log(Omega_k / Omega_l), with its error unless too few rows join the two."""
    value = float(held.log_omegas[k] - held.log_omegas[l])
    return Estimate.from_influence(value, _influence(held, k, l), level)


def _influence(held: Any, k: int, l: int) -> Influence:
    """Return the influence on a difference of log normalisers; for samples through u alone, whatever their scale."""
    contrast = np.zeros((len(held.names), 1))
    contrast[k] += 1.0
    contrast[l] -= 1.0
    if held.is_plain and k != l and held.rows.sizes[[k, l]].all():
        found: Influence = held.tangent.of_coordinates(-contrast, held.nothing(1))
        return found
    return held.bias_influence() @ contrast

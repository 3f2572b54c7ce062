"""Where a distribution function steps whose rows are in an engine: what DebiasedCdf asks, as queries."""

from __future__ import annotations

from functools import cached_property

from vardi._estimate.tangent import Tangent
from vardi._rows.contract import Floats
from vardi._rows.engine.distribution import MOST_STEPS, EngineDistribution
from vardi._rows.engine.distribution import Steps as Held
from vardi._rows.engine.functions import EngineFunction
from vardi._rows.engine.moments import EngineMoments
from vardi.errors import TooLargeError


class EngineSteps:
    """The steps of a function of the rows of an engine.

    Parameters
    ----------
    at : EngineMoments
        The rows at the solution.
    function : EngineFunction
        The function.
    """

    def __init__(self, at: EngineMoments, function: EngineFunction) -> None:
        self._of, self._name = EngineDistribution(at, function), function.name

    def __str__(self) -> str:
        return f"of {self._name} in its engine"

    @cached_property
    def _steps(self) -> Held:
        steps = self._of.steps
        if steps is None:
            raise TooLargeError(
                f"There are more than {MOST_STEPS:,} distinct values of {self._name!r}, which stay in their engine. "
                "Ask for F at the points you need, for quantiles, or for the band.",
                bytes=16 * MOST_STEPS,
            )
        return steps

    @property
    def x(self) -> Floats:
        """The distinct values, in order."""
        return self._steps.x

    @property
    def heights(self) -> Floats:
        """F at these."""
        return self._steps.heights

    def grid(self, most: int, tail: float) -> tuple[Floats, Floats]:
        """Return values evenly spaced among the distinct ones with F from ``tail`` to 1 - ``tail``, and F there."""
        grid = self._of.grid(most, tail)
        return grid.x, grid.heights

    def below(self, points: Floats) -> list[EngineFunction]:
        """Return whether the value of each row is at most each point."""
        return [self._of.indicator(t) for t in points.tolist()]

    def before_last(self, value: float) -> float:
        """Return a value, or the last one before the largest, where F is 1 and has no error."""
        return self._of.below(value)

    def inverse(self, q: float) -> float:
        """Return the smallest x with F(x) >= q."""
        return self._of.inverse(q)

    def covariance(self, grid: Floats, value: Floats, tangent: Tangent) -> Floats:
        """Return the covariance of F at a grid."""
        covariance, b = self._of.covariance(grid, value, tangent.jacobian.solve)
        beyond = b[tangent.measure.coordinates.epsilon]
        return covariance + beyond.T @ beyond / tangent.n**2

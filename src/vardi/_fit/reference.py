"""The samples with known biases in a fit with learned ones: solved on their own, and mapped to the rows of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vardi._estimate.bias_check import BiasCheck, Features, untested
from vardi._estimate.tangent import Influence, Tangent
from vardi._inputs import given
from vardi._rows.families import BiasFamily, Function, Linear, Logistic
from vardi._rows.measure import Measure
from vardi._rows.point import Model, Point, PointAmong
from vardi._types import Floats
from vardi.biases._learned import checks_of
from vardi.errors._texts import show

if TYPE_CHECKING:
    from vardi._fit.solved import Solved


def reference_of(solved: Solved, states: tuple[int, ...]) -> Solved:
    """Return the rows of the known samples, or of some of them, with the weights of a fit of the known samples alone.

    Parameters
    ----------
    solved : Solved
        A fit in which biases were learned.
    states : tuple of int
        The places of the known samples to use.
    """
    whole, alone = solved.whole, solved.whole.reference
    assert alone is not None
    own, names = alone.of(states), tuple(str(whole.names[k]) for k in states)
    measure = measure_of_reference(whole, alone, states, names)
    return whole.with_rows_of(states, TangentOfReference(own.tangent, measure, _shared_errors(whole, alone)))


def measure_of_reference(whole: Solved, alone: Solved, states: tuple[int, ...], names: tuple[str, ...]) -> Measure:
    """Return the rows of the pool with the weights of the known samples' own solution, 0 on other rows.

    The biases of the known samples are on all rows of the pool, and those of the others drop out of the solution, whose
    u is -inf there. So it is a point for the pool, with the known moments and the scales of features of its own.
    """
    pool, own = whole.tangent.measure, alone.joint.model
    families = {k: _on_pool(family, whole.joint.families[k]) for k, family in own.families.items()}
    known = replace(own.known, values=whole.prepared.values) if len(own.known.means) else own.known
    point = Point(Model(own.sizes, families, known), alone.point)
    through = PointAmong(point, alone.states, pool.n / float(own.sizes.sum()), rests_on_them=True)
    if states == alone.states:
        return Measure(pool.rows, through, pool, through, names, states)
    return Measure.among(pool, states, names, point, through)


def _on_pool(own: BiasFamily, whole: BiasFamily) -> BiasFamily:
    """Return a family as it was fitted to the known samples, on the rows of the pool."""
    if isinstance(own, Function) or isinstance(whole, Function):
        return whole
    assert isinstance(own, Linear | Logistic)
    assert isinstance(whole, Linear | Logistic)
    return own.on(whole.z * whole.deviation + whole.mean)


def _shared_errors(whole: Solved, alone: Solved) -> Floats:
    r"""Return :math:`R^+ D'C D_0 (R_0^+)'`, the covariance between the shifts of known values in two solutions.

    Each solution writes the known values as :math:`D'\tau + R\varepsilon` with its own combinations D, where
    :math:`\tau` has covariance C.
    """
    if not whole.joint.coordinates.uncertain:
        return np.zeros((0, 0))
    first, second = (np.linalg.pinv(one.joint.known.root) @ one.prepared.directions.T for one in (whole, alone))
    return np.asarray(first @ whole.prepared.known.covariance @ second.T)


def check_reference(solved: Solved, asked: Mapping[str, given.Function], features: Features) -> BiasCheck:
    """Test the declared biases of the known samples among themselves.

    Learned ones were fitted to the same rows, which a test of fixed biases cannot account for: it would reject correct
    ones hardly ever, or far too often. ``fit.learned`` judges them, by held-out rows.
    """
    reference = solved.reference
    assert reference is not None
    rows = reference_of(solved, reference.states)
    inside, learned = rows.tangent.measure.inside, tuple(checks_of(solved.names, solved.pool.biases))
    said = f"The bias of {show(learned)} was" if len(learned) == 1 else f"The biases of {show(learned)} were"
    note = f"{said} learned from these rows and has no p-value: fit.learned shows its calibration on held-out rows."
    note = note if len(learned) == 1 else note.replace("and has", "and have").replace("its", "their")
    if len(rows.states) == 1:
        return untested(f"{show(rows.tangent.measure.recorded_by)} is the only known sample. {note}")
    values = {name: rows.memory.values(value)[inside] for name, value in asked.items()}
    return replace(reference.check_columns(values, features), note=note)


class TangentOfReference(Tangent):
    """A map from functions on the rows of the pool to estimates by the known samples alone.

    Parameters
    ----------
    own : Tangent
        The solution of the known samples.
    measure : Measure
        Their rows among those of the pool.
    known : ndarray of shape (r of the pool, r of the reference)
        Covariance between the known values with an error in the two solutions, in standard deviations.
    """

    def __init__(self, own: Tangent, measure: Measure, known: Floats) -> None:
        super().__init__(measure, own.jacobian, own.hessian)
        self.known = known

    def moved_by(self, functions: Any, eta: Floats, b: Floats) -> Influence:
        """Return the influence of all rows of the pool, through the coordinates that both solutions have."""
        whole, own = self.measure.whole, self.measure.coordinates
        shared = np.zeros((len(whole.coordinates), b.shape[1]))
        shared[whole.coordinates.epsilon] = self.known @ b[own.epsilon]
        return Influence(whole, self.measure.influence(functions, eta, b), shared)

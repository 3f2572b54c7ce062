"""Likelihood-ratio tests of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy

from vardi._rows.families import Function
from vardi._rows.likelihood import JointRows
from vardi._solve.parameters import first_point
from vardi._solve.saddle import Iterate, descend
from vardi._types import Floats
from vardi.errors import MismatchError, UnidentifiedParametersError, suggest


@dataclass(frozen=True)
class LikelihoodRatio:
    """A likelihood-ratio test.

    Attributes
    ----------
    statistic : float
        Twice the log of the ratio of likelihoods, chi-square where the hypothesis holds.
    dof : int
        Its degrees of freedom.
    pvalue : float
        Small where the hypothesis does not hold.
    """

    statistic: float
    dof: int
    pvalue: float

    def __str__(self) -> str:
        degrees = "1 degree" if self.dof == 1 else f"{self.dof} degrees"
        return f"p = {self.pvalue:.2g} (likelihood ratio: chi-square {self.statistic:.4g}, {degrees} of freedom)"


def no_bias(joint: JointRows, v: Floats, k: int, sample: str) -> LikelihoodRatio:
    r"""Test whether the family of sample k is constant, at the maximum v of the likelihood of u and theta.

    At slope 0 every logistic curve is constant, whatever its intercept, so the ratio against all of them is not
    chi-square (Davies 1977). All of them leave slope 0 in the direction of the exponential tilt in the same columns, so
    that is the alternative, with one degree of freedom for each slope.
    """
    model, theta = joint.families[k], v[joint.coordinates.theta]
    if isinstance(model, Function):
        raise MismatchError(
            f"The bias of {sample!r} is an arbitrary function, so it is unknown for which parameters it is constant. "
            "Give these to test_parameters."
        )
    best = Iterate(joint, v, objective=True)
    if model.tilt is not model:
        first = [np.zeros(len(model.tilt.names)) if j == k else theta[joint.places[j]] for j in joint.families]
        joint, theta = joint.with_tilts([k]), np.concatenate(first)
        best = _maximum(joint, first_point(joint.few, theta), np.eye(len(theta)), sample)
    place = joint.places[k]
    theta = best.v[joint.coordinates.theta].copy()
    theta[place] = 0.0
    basis = np.delete(np.eye(len(theta)), np.arange(place.start, place.stop), axis=1)
    return _ratio(best, theta, basis, sample, place.stop - place.start)


def declared(joint: JointRows, v: Floats, k: int, values: Mapping[str, float], sample: str) -> LikelihoodRatio:
    """Test declared values of some or all parameters of sample k, on the user's scale."""
    model, place = joint.families[k], joint.places[k]
    _require_names(values, model.names, sample)
    fixed = [model.names.index(name) for name in values]
    numbers = np.array([float(values[name]) for name in values])
    slopes = {j: number for j, number in zip(fixed, numbers, strict=True) if j > 0}
    if model.tilt is not model and len(slopes) == len(model.names) - 1 and not any(slopes.values()):
        raise MismatchError(
            f"With all slopes 0 the bias of {sample!r} is constant and its intercept means nothing, so this is not a "
            "hypothesis about parameters. Use test_no_bias, which handles this case."
        )
    constraint = model.scale[fixed]  # rows of the map from theta to the user's parameters
    inside = np.linalg.svd(constraint)[2][len(fixed) :].T  # directions in which these do not change
    theta = v[joint.coordinates.theta].copy()
    basis = np.zeros((len(theta), len(theta) - len(fixed)))
    others = np.delete(np.arange(len(theta)), np.arange(place.start, place.stop))
    basis[others, np.arange(len(others))] = 1.0
    basis[place, len(others) :] = inside
    theta[place] += np.linalg.pinv(constraint) @ (numbers - constraint @ theta[place])
    return _ratio(Iterate(joint, v, objective=True), theta, basis, sample, len(fixed))


def _require_names(values: Mapping[str, float], names: tuple[str, ...], sample: str) -> None:
    stranger = next((name for name in values if name not in names), None)
    if stranger is not None or not values:
        fact = f"The bias of {sample!r} has no parameter {stranger!r}." if values else "There is nothing to test."
        raise MismatchError(
            f"{fact} Its parameters are {', '.join(map(repr, names))}.{suggest(stranger, names)} Give declared values "
            "by name."
        )
    if not all(np.isfinite(float(value)) for value in values.values()):
        raise MismatchError(f"The declared values {dict(values)} are not all finite. Give numbers.")


def _maximum(joint: JointRows, v: Floats, basis: Floats, sample: str) -> Iterate:
    few = joint.few
    inner = descend(few, v, basis=np.empty((joint.coordinates.parameters, 0)), tol=0.1, settled=0.1)
    walk = descend(few, inner.v, basis=basis)
    if few is not joint:
        walk = descend(joint, walk.v if walk.converged else v, basis=basis)
    if not walk.converged:
        raise UnidentifiedParametersError(
            f"With the parameters of {sample!r} as declared, the others diverge, so their likelihood has no "
            "maximum to compare with. Declare more of them.",
            sample=sample,
        )
    return walk.at


def _ratio(best: Iterate, theta: Floats, basis: Floats, sample: str, dof: int) -> LikelihoodRatio:
    """Return the test of parameters that are restricted to others, moved along a basis only."""
    v = best.v.copy()
    v[best.rows.coordinates.theta] = theta
    restricted = _maximum(best.rows, v, basis, sample)
    statistic = max(2.0 * (restricted.objective - best.objective), 0.0)
    return LikelihoodRatio(statistic, dof, float(scipy.special.chdtrc(dof, statistic)))

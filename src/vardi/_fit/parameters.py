"""The parameters of biases: their estimates, and likelihood-ratio tests of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from vardi._estimate.estimates import Estimate, estimates_of
from vardi._estimate.likelihood_ratio import LikelihoodRatio, declared, no_bias
from vardi._fit.capabilities import refusal
from vardi._inputs.pool import Name
from vardi._rows.joint import JointRows
from vardi._types import Floats
from vardi.biases import Bias, ParametricBias
from vardi.errors import MismatchError, VardiError, suggest
from vardi.errors._texts import show

if TYPE_CHECKING:
    from vardi._fit.solved import Solved


def estimates(solved: Solved) -> dict[Name, dict[str, Estimate]]:
    """Return the parameters of each bias that has any, on the user's scale."""
    joint = solved.joint
    if not joint.families:
        return {}
    at = joint.coordinates
    scale = users_scale(joint)
    directions = np.zeros((len(at), at.parameters))
    directions[at.theta] = scale.T
    influence = solved.tangent.of_coordinates(directions)
    found = estimates_of(scale @ solved.theta, influence)
    return {
        solved.names[k]: {
            name: found[j] for name, j in zip(model.names, range(*joint.places[k].indices(at.parameters)), strict=True)
        }
        for k, model in joint.families.items()
    }


def users_scale(joint: JointRows) -> Floats:
    """Return the matrix that turns theta into the user's parameters, for all samples together."""
    scale = np.zeros((joint.coordinates.parameters, joint.coordinates.parameters))
    for k, model in joint.families.items():
        scale[joint.places[k], joint.places[k]] = model.scale
    return scale


def fixed_biases(solved: Solved) -> dict[Name, Bias]:
    """Return the biases that have parameters, with these fixed at their estimates."""
    joint = solved.joint
    fixed: dict[Name, Bias] = {}
    for k, model in joint.families.items():
        bias = solved.pool.biases[k]
        assert isinstance(bias, ParametricBias)
        fixed[solved.names[k]] = bias.at((model.scale @ solved.theta[joint.places[k]]).tolist())
    return fixed


def test_no_bias(solved: Solved, name: Name) -> LikelihoodRatio:
    """Test whether the family of a sample is constant."""
    k = _position(solved, name)
    joint, v = _likelihood(solved)
    return no_bias(joint, v, k, str(name))


def test_values(solved: Solved, name: Name, values: Mapping[str, float]) -> LikelihoodRatio:
    """Test declared values of parameters."""
    k = _position(solved, name)
    joint, v = _likelihood(solved)
    return declared(joint, v, k, values, str(name))


def _likelihood(solved: Solved) -> tuple[JointRows, Floats]:
    """Return the rows without known values, which the likelihood ignores, and the maximum of their likelihood."""
    joint = solved.joint.without_known()
    if solved.depends:
        raise refusal("tests of parameters", "rows in memory", "parameters", "clusters")
    if not solved.prepared.known:
        return joint, solved.point
    if solved.alone is None:
        raise VardiError(
            "Only the known values determine the parameters, not the samples, so there is no likelihood ratio for "
            "them. Look at fit.parameters: an estimate over its error is nearly normal."
        )
    return joint, solved.alone[: len(joint.coordinates)]


def _position(solved: Solved, name: Name) -> int:
    known = {solved.names[k]: k for k in solved.joint.families}
    if name not in known:
        fact = (
            f"The bias of {str(name)!r} has no parameters" if name in solved.names else f"There is no sample {name!r}"
        )
        those = f"Those of {show(known)} have parameters." if known else "No bias has parameters."
        raise MismatchError(f"{fact}. {those}{suggest(name, known)}")
    return known[name]

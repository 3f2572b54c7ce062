"""The parameters of biases: their estimates, and what likelihood-ratio tests of them need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import block_diag

from vardi._estimate.estimates import Estimate, estimates_of
from vardi._fit.capabilities import refusal
from vardi._inputs.pool import Name
from vardi._rows.joint import JointRows
from vardi._types import Floats
from vardi.biases import Bias
from vardi.errors import MismatchError, VardiError, suggest
from vardi.errors._texts import show

if TYPE_CHECKING:
    from vardi._fit.solved import Solved


def estimates(solved: Solved) -> dict[Name, dict[str, Estimate]]:
    """Return the parameters of each bias that has any, on the user's scale."""
    joint = solved.joint
    if not joint.families:
        return {}
    directions = np.zeros((len(joint.coordinates), joint.coordinates.parameters))
    directions[joint.coordinates.theta] = block_diag(*(model.scale for model in joint.families.values())).T
    values = np.concatenate([solved.users_theta(k) for k in joint.families])
    found = iter(estimates_of(values, solved.tangent.of_coordinates(directions)))
    return {solved.names[k]: {name: next(found) for name in model.names} for k, model in joint.families.items()}


def fixed_biases(solved: Solved) -> dict[Name, Bias]:
    """Return the biases that have parameters, with these fixed at their estimates."""
    return {solved.names[k]: solved.fixed_bias(k) for k in solved.joint.families}


def likelihood(solved: Solved, name: Name) -> tuple[JointRows, Floats, int]:
    """Return what tests of a sample's parameters need.

    These are the rows without known values, which the likelihood ignores, the maximum of their likelihood, and the
    place of the sample.
    """
    known = {solved.names[k]: k for k in solved.joint.families}
    if name not in known:
        fact = (
            f"The bias of {str(name)!r} has no parameters" if name in solved.names else f"There is no sample {name!r}"
        )
        those = f"Those of {show(known)} have parameters." if known else "No bias has parameters."
        raise MismatchError(f"{fact}. {those}{suggest(name, known)}")
    if solved.depends:
        raise refusal("tests of parameters", "rows in memory", "parameters", "clusters")
    joint = solved.joint.without_known()
    if not solved.prepared.known:
        return joint, solved.point, known[name]
    if solved.alone is None:
        raise VardiError(
            "Only the known values determine the parameters, not the samples, so there is no likelihood ratio for "
            "them. Look at fit.parameters: an estimate over its error is nearly normal."
        )
    return joint, solved.alone[: len(joint.coordinates)], known[name]

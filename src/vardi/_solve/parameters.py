"""Where the search for parameters starts, and whether its end is an estimate or the reason why there is none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vardi._inputs.pool import Name
from vardi._rows.families import Logistic
from vardi._rows.grouping import mean_log_start, stratified
from vardi._rows.likelihood import Joint, JointRows
from vardi._rows.point import Point
from vardi._solve.identify import Verdict
from vardi._solve.saddle import FAR, Iterate, Walk, descend
from vardi._types import Floats
from vardi.errors import UnidentifiedParametersError, WeakParametersWarning
from vardi.errors._texts import show
from vardi.errors._warn import warn

LEFT = 1e-6  # share of the information on a direction that other parameters leave; below this it is not determined
SEPARATED = 0.5  # rows, in total, that could have come from another sample
STEEP = 5.0  # slope of a logistic curve, for a column of standard deviation 1, that amounts to a threshold
VAGUE = 2.0  # standard error of a logistic curve's intercept above which its shape is unknown
TRIAL = 25  # steps from each start before they are compared
STARTS = 3000  # rows that starts are compared on


def search(joint: Joint, most: int = 100) -> Walk:
    """Minimise in u and theta from several starts on a subsample of the rows, then from the best of them on all."""
    joint = joint.without_known()
    K = len(joint.sizes)
    rows = stratified(joint.source, K, STARTS / len(joint), 200)
    part = joint if len(rows) >= len(joint) else joint.subset(rows)
    tried = [descend(part, v, tol=0.03, settled=0.1, most=TRIAL) for v in starts(part)]
    best = min(tried, key=lambda walk: walk.at.objective)
    v = best.v.copy()
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.log(joint.sizes / joint.sizes.sum()) - np.log(part.sizes / part.sizes.sum())
    v[:K] = np.where(joint.sizes > 0, v[:K] + shift, -np.inf)
    return descend(joint, v, most=most)


def starts(joint: Joint) -> Sequence[Floats]:
    """Return starting points; for logistic curves, from the tilts that they resemble."""
    families = joint.families
    curves = {k: model for k, model in families.items() if isinstance(model, Logistic)}
    choices: dict[int, Sequence[Floats]] = {k: model.starts() for k, model in families.items()}
    if curves:
        tilted = joint.with_tilts(curves)
        first = np.concatenate([model.starts()[0] for model in tilted.families.values()])
        found = descend(tilted, first_point(tilted, first), tol=0.1, settled=0.5)
        theta = found.v[tilted.coordinates.theta]
        for k, curve in curves.items():
            choices[k] = curve.starts_from(theta[tilted.places[k]])
    most = max(len(choice) for choice in choices.values())
    thetas = [np.concatenate([choice[j % len(choice)] for choice in choices.values()]) for j in range(most)]
    return [first_point(joint, theta) for theta in thetas]


def first_point(joint: Joint, theta: Floats) -> Floats:
    """Return a first point for a given theta: u from the mean log omega of each sample over its own rows."""
    own = joint.base.logs[np.arange(len(joint)), joint.source]
    for k, model in joint.families.items():
        mine = joint.source == k
        own[mine] += model.log_omega(theta[joint.places[k]])[mine]
    u = mean_log_start(own, joint.source, joint.counts, joint.sizes) - np.log(joint.sizes.sum())
    return np.concatenate([u, theta, np.zeros(joint.coordinates.known + joint.coordinates.uncertain)])


def weakness(here: Iterate) -> tuple[float, Floats]:
    """Return which direction of theta the samples determine least, and how well.

    The first is the share of the information on it that is left when normalisers and other parameters are also unknown;
    the direction, of shape (p,), is in units of each parameter's precision if it were the only unknown.
    """
    at, J = here.coordinates, here.matrix(expected=True)
    theta = np.arange(at.theta.start, at.theta.stop)
    information = np.diag(here.sums.information)[theta]
    alone = information - np.diag(here.sums.gram)[theta]
    untold = alone <= 1e-12 * information  # a difference that is only rounding
    if untold.any() and not at.known:
        return 0.0, untold.astype(np.float64)
    scale = here.scale**2
    others = np.setdiff1d(here.free, theta)
    H, B = J[np.ix_(others, others)], J[np.ix_(others, theta)]
    root = np.sqrt(np.maximum(np.abs(np.diag(H)), 1e-300) if not at.known else scale[others])
    values, vectors = np.linalg.eigh(H / (root[:, None] * root))
    kept = np.abs(values) > 1e-13 * np.abs(values).max(initial=0.0)
    through = vectors[:, kept].T @ (B / root[:, None])
    left = J[np.ix_(theta, theta)] - through.T @ (through / values[kept, None])
    alone = alone if not at.known else scale[theta]
    values, vectors = np.linalg.eigh(left / np.sqrt(alone[:, None] * alone))
    return float(values[0]), vectors[:, 0]


def require_identified(here: Iterate, names: Sequence[Name]) -> None:
    """Refuse parameters that the rows do not determine."""
    if not here.coordinates.known and _apart(here) < SEPARATED:
        raise _separated(here.rows, names)
    left, direction = weakness(here)
    far = bool(np.abs(here.v[here.coordinates.theta][here.rows.model.scaled]).max(initial=0.0) > FAR / 2)
    if left < LEFT or far:
        raise _not_told(here, left, direction, names)


def _apart(here: Iterate) -> float:
    """Return how many rows, in total, could have come from another sample."""
    point = Point(here.rows.model, here.v)
    others = here.rows.holder.total(lambda block: block.sum(1.0 - block.of_own(point.at(block).p)))
    return float(others[0])


def _separated(joint: JointRows, names: Sequence[Name]) -> UnidentifiedParametersError:
    samples = [names[k] for k in joint.families]
    return UnidentifiedParametersError(
        f"The columns that the biases of {show(samples)} read separate the samples: with ever larger parameters every "
        "row is certain to belong to its own sample, so no finite parameters fit best. The samples do not overlap in "
        "these columns. Add rows where they do, or let the bias read fewer columns.",
        sample=str(samples[0]) if len(samples) == 1 else "",
        parameters=[name for model in joint.families.values() for name in model.names],
        groups=[names],
    )


def _not_told(here: Iterate, share: float, direction: Floats, names: Sequence[Name]) -> UnidentifiedParametersError:
    joint, heavy = here.rows, np.abs(direction) > 0.3 * np.abs(direction).max()
    by_sample = {
        k: [model.names[j] for j in np.flatnonzero(heavy[joint.places[k]])] for k, model in joint.families.items()
    }
    by_sample = {k: found for k, found in by_sample.items() if found}
    said = "; ".join(f"{', '.join(map(repr, found))} of {str(names[k])!r}" for k, found in by_sample.items())
    several = sum(map(len, by_sample.values())) > 1
    they = "they cannot be distinguished from one another, or" if several else "it cannot be distinguished"
    left = f"a share of {share:.0e} of the information is left" if share > 1e-12 else "no information is left"
    known = " and the known values" if here.coordinates.known else ""
    fact = f"The samples{known} do not determine {said}: {they} from the normaliser ({left})."
    k = next(iter(by_sample))
    return UnidentifiedParametersError(
        f"{fact} {_remedy(here, k)}",
        sample=str(names[k]) if len(by_sample) == 1 else "",
        parameters=[name for found in by_sample.values() for name in found],
        groups=[names],
    )


def _remedy(here: Iterate, k: int) -> str:
    model, theta = here.rows.families[k], here.v[here.coordinates.theta][here.rows.places[k]]
    if isinstance(model, Logistic):
        columns = ", ".join(repr(name) for name in model.names[1:])
        if np.abs(theta[1:]).max() > STEEP:
            return (
                "Ever larger parameters fit ever better, as happens if selection has a threshold or is nearly "
                "certain. Declare a threshold as a condition, use vardi.exponential_tilt"
                f"({columns}), which has no intercept, or fix the parameters with .at(...)."
            )
        return (
            "Where selection is rare, nearly certain, or hardly depends on the columns, many logistic curves are "
            f"alike up to a constant. Use vardi.exponential_tilt({columns}), which has no intercept, or fix the "
            "parameters with .at(...)."
        )
    return (
        "Parameters are identified only by ratios of biases on rows that samples share. Add rows of a sample with a "
        "known bias there, leave out what depends on other columns, or fix the parameters with .at(...)."
    )


def unknown_everywhere(names: Sequence[Name], verdict: Verdict | None) -> UnidentifiedParametersError:
    """Return the error for a fit without any known bias or known value of the population."""
    what = f"The bias of {show(names)} has" if len(names) == 1 else f"The biases of {show(names)} all have"
    return UnidentifiedParametersError(
        f"{what} parameters, and no sample has a known bias. Samples determine only ratios of biases, so the "
        "population itself could be tilted, and all parameters with it, without any visible difference. Add a sample "
        "whose bias is known (1 for a random sample, however small), give known means of the population with known=, "
        "or fix the parameters of one bias with .at(...).",
        sample=str(names[0]) if len(names) == 1 else "",
        groups=[names],
        verdict=verdict,
    )


def warn_of_vague_parameters(here: Iterate, names: Sequence[Name]) -> None:
    """Warn of a logistic curve for which selection may be rare or nearly certain."""
    at, joint = here.coordinates, here.rows
    for k, model in joint.families.items():
        if not isinstance(model, Logistic):
            continue
        unit = np.zeros(len(at))
        place = at.theta.start + joint.places[k].start
        unit[place] = 1.0
        error = float(np.sqrt(max(here.information.solve(unit)[place], 0.0)))
        if error > VAGUE:
            columns = ", ".join(repr(name) for name in model.names[1:])
            said = (
                f"The log odds of selection into {str(names[k])!r}, at the means of the columns, have standard "
                f"error {error:.1f}: the samples hardly determine which logistic curve it is, so normal intervals for "
                "its parameters are rough. Population means are not affected. vardi.exponential_tilt"
                f"({columns}) has no intercept to estimate."
            )
            warn(WeakParametersWarning(said))

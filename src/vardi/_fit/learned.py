r"""Unknown biases: the samples whose biases are known are debiased first, and the others are learned against them.

The first fit is the reference: its weights and its tangent are also mapped to the rows of all samples, so that
:math:`E_{ref}\hat y` and :math:`E_A(y - \hat y)` add up with any other estimate of the fit. Odds and predictions come
from the same folds. What uses the weights of all samples carries a flag, ``approximate``, from the tangent to the text.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from vardi._estimate.check_results import BiasCheck, Features, untested
from vardi._estimate.tangent import Influence, Tangent
from vardi._fit.debias import Options, solve
from vardi._fit.rows_in_memory import RowsInMemory
from vardi._fit.solved import Solved
from vardi._inputs import given
from vardi._inputs.dependence import dealt_out
from vardi._inputs.frames import NarwhalsFrame
from vardi._inputs.pool import Pool
from vardi._rows.families import BiasFamily, Function, Linear, Logistic
from vardi._rows.leverage import Leverage
from vardi._rows.measure import Measure
from vardi._rows.point import Model, Point, PointAmong
from vardi._types import Floats
from vardi.biases import Bias, LearnedBias, ParametricBias, ProductBias, everywhere
from vardi.biases._kinds import parts_of, with_parts
from vardi.biases._learned import checks_of
from vardi.errors import InvalidBiasError, InvalidKnownError, MismatchError, NotIdentifiableError, VardiWarning
from vardi.errors._texts import show


def opened_with_learned(pool: Pool, unknown: list[int], known: Any, options: Options) -> RowsInMemory:
    """Return the rows of a pool, with biases learned by comparison with the debiased rows of the known samples."""
    _require_known(pool, unknown, known)
    reference = _debiased(pool, unknown, known, options)
    biases = list(pool.biases)
    for k in unknown:
        biases[k] = _learned(pool, k, reference.data.chances(reference.tangent.measure))
    return replace(RowsInMemory.of_pool(replace(pool, biases=tuple(biases)), known), reference=reference)


def _require_known(pool: Pool, unknown: list[int], known: Any) -> None:
    """Refuse learned biases without a known one, without rows, with parameters, or with a known mean."""
    sizes = np.bincount(pool.source, minlength=len(pool.names))
    sampled = [name for name, size in zip(pool.names, sizes, strict=True) if size]
    for k in unknown:
        name, bias = str(pool.names[k]), pool.biases[k]
        if not sizes[k]:
            raise InvalidBiasError(
                f"No row was drawn with the bias of {name!r}, {bias}, so there is nothing to learn it from. Give its "
                "rows, or leave it out.",
                sample=name,
            )
        if isinstance(bias, ParametricBias) or sum(isinstance(part, LearnedBias) for part in parts_of(bias)) > 1:
            raise InvalidBiasError(
                f"The bias of {name!r}, {bias}, has another unknown factor, which cannot be distinguished from what "
                "is learned. Name its columns in learned(...) too, and leave the other factor out.",
                sample=name,
            )
        if isinstance(known, Mapping) and pool.names[k] in known:
            raise InvalidKnownError(
                f"known= gives the mean of the bias of {name!r}, which is learned: its scale means nothing. Give known "
                "values of columns or conditions.",
                labels=(name,),
            )
    if len(unknown) == len(sampled):
        raise NotIdentifiableError(
            f"The biases of all samples, {show(sampled)}, are to be learned, but a classifier only tells samples "
            "apart, not which is like the population. Give at least one sample whose bias is known.",
            groups=[(name,) for name in sampled],
        )


def _debiased(pool: Pool, unknown: list[int], known: Any, options: Options) -> Solved:
    """Return the known samples, debiased among themselves."""
    biases = tuple(everywhere() if k in unknown else bias for k, bias in enumerate(pool.biases))
    rows = RowsInMemory.of_pool(replace(pool, biases=biases), known)
    names = {name for k, name in enumerate(pool.names) if k not in unknown}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VardiWarning)  # the fit of all samples will warn
        try:
            return solve(rows.of_samples(names), replace(options, on_unidentified="raise"))
        except NotIdentifiableError as error:
            raise NotIdentifiableError(
                "Biases are learned by comparison with the samples whose biases are known, which cannot be debiased "
                f"among themselves. {error}",
                groups=error.groups,
                verdict=error.verdict,
            ) from None


def _learned(pool: Pool, k: int, chances: Floats) -> Bias:
    """Return the learned bias of a sample, given the probabilities of the known samples' rows."""
    bias, name, own = pool.biases[k], pool.names[k], pool.source == k
    reference = [str(pool.names[j]) for j in np.unique(pool.source[chances > 0]).tolist()]
    if others := tuple(part for part in parts_of(bias) if not isinstance(part, LearnedBias)):
        chances = chances * pool.evaluate([ProductBias(others)], [name])[0]

    def fitted(part: Bias) -> Bias:
        if not isinstance(part, LearnedBias):
            return part
        names = part.names or _columns_of_arrays(pool, str(name))
        pool.require_columns([replace(part, names=names)], [name])
        rng = np.random.default_rng(part.random_state)
        folds = dealt_out(pool.source, pool.dependence, pool.source, part.folds, rng)
        return part.fitted(pool.column, names, own, np.where(own, pool.counts, chances), folds, str(name), reference)

    return with_parts(bias, fitted)


def _columns_of_arrays(pool: Pool, sample: str) -> tuple[str, ...]:
    """Return the columns of arrays; those of frames must be named, since labels and ids may be among them."""
    if any(isinstance(frame, NarwhalsFrame) for frame in pool.frames):
        columns = pool.frames[0].columns
        raise MismatchError(
            f"The bias of {sample!r} is learned without naming a column, but frames may contain labels, ids and "
            f"outcomes. Name the columns that selection may depend on, out of {show(columns)}."
        )
    return pool.frames[0].columns


def reference_of(solved: Solved, states: tuple[int, ...]) -> Solved:
    """Return the rows of the known samples, or of some of them, with the weights of a fit of the known samples alone.

    The biases of the known samples are on all rows of the pool, and those of the others drop out of the solution, whose
    u is -inf there. So it is a point for the pool, with the known moments and the scales of features of its own.

    Parameters
    ----------
    solved : Solved
        A fit in which biases were learned.
    states : tuple of int
        The places of the known samples to use.
    """
    whole, alone = solved.whole, solved.data.reference
    assert alone is not None
    tangent, pool, own = alone.of(states).tangent, whole.tangent.measure, alone.joint.model
    families = {k: _on_pool(family, whole.joint.families[k]) for k, family in own.families.items()}
    known = replace(own.known, values=whole.joint.known.values) if len(own.known.means) else own.known
    point = Point(Model(own.sizes, families, known), alone.point)
    through = PointAmong(point, alone.data.states, pool.n / float(own.sizes.sum()), rests_on_them=True)
    names = tuple(str(whole.names[k]) for k in states)
    if states == alone.data.states:
        measure = Measure(pool.rows, through, pool, through, names)
    else:
        measure = Measure.among(pool, states, names, point, through)
    return whole.with_rows_of(states, TangentOfReference(tangent, measure, _shared_errors(whole, alone)))


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
    first, second = (np.linalg.pinv(one.joint.known.root) @ one.joint.known.directions.T for one in (whole, alone))
    return first @ whole.prepared.known.covariance @ second.T


def check_reference(solved: Solved, asked: Mapping[str, given.Function], features: Features) -> BiasCheck:
    """Test the declared biases of the known samples among themselves.

    Learned ones were fitted to the same rows, which a test of fixed biases cannot account for: it would reject correct
    ones hardly ever, or far too often. ``fit.learned`` judges them, by held-out rows.
    """
    reference = solved.data.reference
    assert reference is not None
    rows = reference_of(solved, reference.data.states)
    inside, learned = rows.tangent.measure.inside, tuple(checks_of(solved.names, solved.pool.biases))
    bias, was, has, its = ("bias", "was", "has", "its") if len(learned) == 1 else ("biases", "were", "have", "their")
    note = (
        f"The {bias} of {show(learned)} {was} learned from these rows and {has} no p-value: fit.learned shows {its} "
        "calibration on held-out rows."
    )
    if len(rows.data.states) == 1:
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

    @cached_property
    def leverage(self) -> Leverage | None:
        """The part that each row has in the fit of the known samples."""
        return self.leverage_at(self.measure.point)

    def moved_by(self, functions: Any, eta: Floats, b: Floats) -> Influence:
        """Return the influence of all rows of the pool, through the coordinates that both solutions have."""
        whole, own = self.measure.whole, self.measure.coordinates
        shared = np.zeros((len(whole.coordinates), b.shape[1]))
        shared[whole.coordinates.epsilon] = self.known @ b[own.epsilon]
        return Influence(whole, self.measure.influence(functions, eta, b), shared, leverage=self.leverage)

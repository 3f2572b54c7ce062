"""Unknown biases: the samples whose biases are known are debiased first, and the others are learned against them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vardi._fit.opened import MemoryRows
from vardi._fit.pipeline import Options, fit
from vardi._fit.solved import Solved
from vardi._inputs.dependence import dealt_out
from vardi._inputs.frames import NumpyFrame
from vardi._inputs.pool import Pool
from vardi._types import Floats, Integers
from vardi.biases import Bias, LearnedBias, ParametricBias, ProductBias, everywhere
from vardi.biases._fitted import parts_of, with_parts
from vardi.errors import InvalidBiasError, InvalidKnownError, MismatchError, NotIdentifiableError, VardiWarning
from vardi.errors import _refusals as refusals
from vardi.errors._texts import show


def opened_with_learned(pool: Pool, known: Any, options: Options) -> MemoryRows:
    """Return the rows of a pool, with biases learned by comparison with the debiased rows of the known samples."""
    unknown = [k for k, bias in enumerate(pool.biases) if _is_learned(bias)]
    _require_known(pool, unknown, known)
    reference = _debiased(pool, unknown, known, options)
    biases = list(pool.biases)
    for k in unknown:
        biases[k] = _learned(pool, k, reference.data.chances(reference.tangent.measure))
    return replace(MemoryRows.of(replace(pool, biases=tuple(biases)), known), reference=reference)


def _is_learned(bias: Bias) -> bool:
    return any(isinstance(part, LearnedBias) for part in parts_of(bias))


def _require_known(pool: Pool, unknown: list[int], known: Any) -> None:
    """Refuse learned biases without a known one, without rows, with parameters, or with a known mean."""
    sizes = np.bincount(pool.source, minlength=len(pool.names))
    sampled = [name for name, size in zip(pool.names, sizes, strict=True) if size]
    for k in unknown:
        name, bias = str(pool.names[k]), pool.biases[k]
        if not sizes[k]:
            raise refusals.no_rows_to_learn(name, bias)
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
    if len({*unknown} & {*np.flatnonzero(sizes).tolist()}) == len(sampled):
        raise NotIdentifiableError(
            f"The biases of all samples, {show(sampled)}, are to be learned, but a classifier only tells samples "
            "apart, not which is like the population. Give at least one sample whose bias is known.",
            groups=[(name,) for name in sampled],
        )


def _debiased(pool: Pool, unknown: list[int], known: Any, options: Options) -> Solved:
    """Return the known samples, debiased among themselves."""
    biases = tuple(everywhere() if k in unknown else bias for k, bias in enumerate(pool.biases))
    rows = MemoryRows.of(replace(pool, biases=biases), known)
    names = {name for k, name in enumerate(pool.names) if k not in unknown}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VardiWarning)  # the fit of all samples will warn
        try:
            solved = fit(rows.of_samples(names), None, replace(options, on_unidentified="raise")).solved
        except NotIdentifiableError as error:
            raise NotIdentifiableError(
                "Biases are learned by comparison with the samples whose biases are known, which cannot be debiased "
                f"among themselves. {error}",
                groups=error.groups,
                verdict=error.verdict,
            ) from None
    return solved


def _learned(pool: Pool, k: int, chances: Floats) -> Bias:
    """Return the learned bias of a sample, given the probabilities of the known samples' rows."""
    bias, name, own = pool.biases[k], pool.names[k], pool.source == k
    others = tuple(part for part in parts_of(bias) if not isinstance(part, LearnedBias))
    weights = np.where(own, pool.counts, chances)
    if others:
        factor = np.asarray(pool.evaluate([ProductBias(others)], [name])[0], np.float64)
        weights = np.where(own, weights, weights * factor)
    reference = [str(pool.names[j]) for j in np.unique(pool.source[chances > 0]).tolist()]

    def folds(part: LearnedBias) -> Integers:
        rng = np.random.default_rng(part.random_state)
        return dealt_out(pool.source, pool.dependence, pool.source, part.folds, rng)

    def read(column: str) -> Any:
        return np.concatenate([frame.column(column) for frame in pool.frames])

    def fitted(part: Bias) -> Bias:
        if not isinstance(part, LearnedBias):
            return part
        names = part.names or _columns_of_arrays(pool, str(name))
        pool.require_columns([replace(part, names=names)], [name])
        return part.fitted(read, names, own, weights, folds(part), str(name), reference)

    return with_parts(bias, fitted)


def _columns_of_arrays(pool: Pool, sample: str) -> tuple[str, ...]:
    """Return the columns of arrays; those of frames must be named, since labels and ids may be among them."""
    if not all(isinstance(frame, NumpyFrame) for frame in pool.frames):
        columns = pool.frames[0].columns
        raise MismatchError(
            f"The bias of {sample!r} is learned without naming a column, but frames may contain labels, ids and "
            f"outcomes. Name the columns that selection may depend on, out of {show(columns)}."
        )
    return pool.frames[0].columns

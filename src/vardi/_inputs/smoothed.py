"""The columns that biases read in all samples; design weights that only one sample has -> a bias on all rows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vardi.biases import Bias, LearnedBias, SmoothedBias
from vardi.biases._fitted import parts_of, with_parts
from vardi.errors import _refusals as refusals

if TYPE_CHECKING:
    from vardi._inputs.pool import Pool


def require_shared_columns(
    biases: Sequence[Bias], names: Sequence[Hashable], columns: Mapping[Any, Sequence[str]]
) -> None:
    """Refuse a bias that reads a column which some of several samples have and others lack."""
    for name, bias in zip(names, biases, strict=True):
        for column in bias.columns:
            lacks = [sample for sample, own in columns.items() if column not in own]
            if 0 < len(lacks) < len(columns):
                shared = [one for one in next(iter(columns.values())) if all(one in own for own in columns.values())]
                said = refusals.learned_of_some if isinstance(bias, LearnedBias) else refusals.bias_of_some
                raise said(name, bias, column, lacks, shared)


def with_smoothed(pool: Pool) -> Pool:
    """Return the pool with samples' own design weights regressed on columns that all rows have."""

    def fitted(bias: Bias, k: int) -> Bias:
        if not isinstance(bias, SmoothedBias):
            return bias
        pool.require_columns([bias], [pool.names[k]])
        own, name = pool.source == k, str(pool.names[k])
        if not own.any():
            raise refusals.no_rows_to_regress(name, bias)
        frame = pool.frames[0 if len(pool.frames) == 1 else k]
        weights = frame.column(bias.weight)
        weights = weights[own] if len(pool.frames) == 1 else weights
        return bias.fitted(
            lambda column: np.concatenate([one.column(column) for one in pool.frames]), own, weights, name
        )

    if not any(isinstance(part, SmoothedBias) for bias in pool.biases for part in parts_of(bias)):
        return pool
    return replace(pool, biases=tuple(with_parts(bias, partial(fitted, k=k)) for k, bias in enumerate(pool.biases)))

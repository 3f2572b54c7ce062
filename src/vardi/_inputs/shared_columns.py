"""The columns that biases read, which all samples must have."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from vardi.biases import Bias, LearnedBias
from vardi.errors import _refusals as refusals


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

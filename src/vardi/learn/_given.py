"""The types of learners, and of what they learn from, for signatures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from vardi._types import Integers

Rows: TypeAlias = ArrayLike | sparse.sparray
"""Rows, or their targets, as scikit-learn takes them: an array, a frame or a series (all array-like), or sparse."""

Generator: TypeAlias = np.random.Generator | np.random.RandomState
Seed: TypeAlias = int | Generator | None
"""What scikit-learn calls a random state, or a generator of NumPy."""


class Estimator(Protocol):
    """What every estimator of scikit-learn has; its other methods depend on what it learns."""

    @property
    def fit(self) -> Callable[..., Estimator]: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...  # values of any type


class Splitter(Protocol):
    """A splitter of scikit-learn: folds of rows, given their strata and their groups."""

    def split(self, X: Rows, y: Integers, groups: Integers | None, /) -> Iterable[tuple[Integers, Integers]]: ...


def is_sparse(rows: object) -> TypeGuard[sparse.sparray]:
    """Return whether rows are a sparse array or matrix of SciPy."""
    return bool(sparse.issparse(rows))

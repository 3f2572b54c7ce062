"""Folds of rows: dealt out within samples, so that rows that depend on one another share a fold."""

from __future__ import annotations

import numpy as np

from vardi._inputs.dependence import Dependence, places_in_time
from vardi._types import Integers


def dealt_out(
    source: Integers,
    depends: Dependence,
    strata: Integers,
    folds: int,
    rng: np.random.Generator | np.random.RandomState,
) -> Integers:
    """Return the fold of each row: rows are dealt out within groups, clusters as a whole, series in stretches.

    Parameters
    ----------
    source : ndarray of int
        The sample of each row.
    depends : Dependence
        How rows depend on one another.
    strata : ndarray of int
        The groups within which rows are dealt out: samples, or classes of them.
    folds : int
        The number of folds.
    rng : numpy.random.Generator
        Shuffles the rows.
    """
    if depends.order is not None:
        return np.asarray(places_in_time(source, depends.order) * folds // np.bincount(source)[source])
    unit = np.arange(len(source)) if depends.clusters is None else depends.clusters
    _, first, codes = np.unique(unit, return_index=True, return_inverse=True)
    fold = np.empty(len(first), np.int64)
    fold[np.lexsort((rng.random(len(first)), strata[first]))] = np.arange(len(first)) % folds
    return fold[codes]

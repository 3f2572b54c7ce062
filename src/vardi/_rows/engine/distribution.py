"""The distribution of an expression over the pool, for queries that are not yet questions of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from vardi._inputs.engine.aggregates import Aggregate
from vardi._inputs.engine.part import PREFIX, Part
from vardi._inputs.engine.queries import with_interval
from vardi._rows.columns import Block
from vardi._rows.engine.functions import EngineFunction
from vardi._rows.engine.moments import EngineMoments
from vardi._rows.engine.shares import Counted, SharesInEngine
from vardi._rows.queries import Queries
from vardi._types import Floats, Integers

ROUNDING = 1e-12  # of a probability
BIN = f"{PREFIX}bin"


class EngineDistribution:
    """The distribution function of an expression over the pool as it came.

    Parameters
    ----------
    at : EngineMoments
        The rows.
    function : EngineFunction
        The expression.
    """

    def __init__(self, at: EngineMoments, function: EngineFunction) -> None:
        self.at, self.functions = at, (function,)
        self.parts: Sequence[Part] = at.parts
        self._asked = function
        if not at.dependence.in_units:
            self.parts, (self._asked,) = at.together([function])
        self.shares = SharesInEngine(Queries(at.parts, at.sizes, at.dependence), self._counted)

    def _counted(self, block: Block) -> Counted:
        x = block.columns(self.functions)
        return Counted(x, x * 0.0 + 1.0, None)

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return self.shares.ends

    def cells(self, most: int) -> tuple[Floats, Floats]:
        """Return the smallest and the largest value of cells of about equal mass; few values are a cell each."""
        return self.shares.of_equal_mass(most)

    def by_bin(self, part: Part, edges: Floats, terms: Mapping[str, nw.Expr]) -> tuple[Integers, Integers, Floats]:
        """Return sums by the interval of edges that x is in and by sample: interval, sample and sums of each group."""

        def placed(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
            return with_interval(self.at.point(frame), BIN, self._asked(part), edges).with_columns(**terms)

        found = part.groups({name: Aggregate(name) for name in terms}, placed, key=BIN)
        return found.numbers(BIN).astype(np.int64), found.source, found.matrix(list(terms))

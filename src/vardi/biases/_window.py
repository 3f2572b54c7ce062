"""The bias of truncated rows: each was seen because it fell into a window of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vardi.biases._expressions.nodes import Column, Constant, Node, columns, constant, to_text
from vardi.biases._expressions.parse import parse
from vardi.biases._kinds import Bias
from vardi.errors import InvalidBiasError


@dataclass(frozen=True, repr=False)
class WindowBias(Bias):
    """A bias that differs by row: each was seen because its value lay in its window; `window` makes it.

    Attributes
    ----------
    x : Node
        The value.
    low, high : Node or None
        The ends of its window, both inclusive; None for a window that is open there.
    status : Node or None
        Whether the value was seen.
    """

    x: Node
    low: Node | None
    high: Node | None
    status: Node | None = None
    _is_factor: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not columns(self.x):
            raise InvalidBiasError(f"{self} reads no column, but the value of a row must be in one. Name it.")
        if not self.ends:
            raise InvalidBiasError(
                f"{self} has no end, so every row would have been seen. Name the columns in which windows begin or "
                "end; a sample without truncation has the bias 1."
            )
        if not columns(*self.ends):
            raise InvalidBiasError(
                f"{self} reads no column for its ends, so all rows have the same window, and nothing is known of what "
                "lies outside it. Declare a condition, such as vardi.between."
            )

    @property
    def ends(self) -> tuple[Node, ...]:
        """The ends of the window, except open ones."""
        return tuple(end for end in (self.low, self.high) if end is not None)

    @property
    def value(self) -> str:
        """The name of the value's column, or its expression."""
        return self.x.name if isinstance(self.x, Column) else to_text(self.x)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads."""
        return columns(self.x, *self.ends, *(() if self.status is None else (self.status,)))

    def __str__(self) -> str:
        nodes = (self.x, self.low, self.high, *(() if self.status is None else (self.status,)))
        return f"window({', '.join('None' if node is None else to_text(node) for node in nodes)})"


def window(x: str, low: str | float | None, high: str | float | None, *, status: str | None = None) -> WindowBias:
    r"""Return the bias of truncated data: a row was seen only if its value lay in its own window.

    .. math:: \omega_i(z) = \mathbb{1}\{u_i \le x(z) \le v_i\}

    Units outside their window left no trace. Otherwise windows are assumed to be independent of the values
    (*quasi-independence*), which ``fit.check_biases()`` tests. The weights are those of the nonparametric likelihood of
    Turnbull (1976) and Efron and Petrosian (1999); for left truncation alone these are the product-limit estimate of
    Lynden-Bell (1971).

    It can only be the bias of a single sample, and the fit has that one sample: ``fit.names`` is ``('seen',)``, and
    ``fit.omegas['seen']`` is the chance :math:`\alpha` that a unit of the population, with a window drawn from the
    population of windows, is seen. With :math:`\Omega_i = F[u_i, v_i]` the chance of being seen through window i,
    windows are seen in proportion to it, so that the population has window i in proportion to :math:`1 / \Omega_i`, and

    .. math:: \hat\alpha = \sum_i \frac{1 / \Omega_i}{\sum_j 1 / \Omega_j}\,\Omega_i = n \Big/ \sum_i 1 / \Omega_i.

    Parameters
    ----------
    x : str
        The column, or an expression of columns, that holds the value.
    low, high : str, number or None
        Where the window begins and ends, both inclusive: columns, expressions or numbers. None if it is open: with
        ``high=None`` rows are truncated on the left (delayed entry), with ``low=None`` on the right.
    status : str, optional
        A column or condition that is 1 (or true) where the value was seen, and 0 where only a bound of it is known:
        such rows are censored, which weights cannot correct, and are refused.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import vardi
    >>> rng = np.random.default_rng(0)
    >>> age, entry = rng.gamma(8.0, 10.0, 2000), rng.uniform(20.0, 100.0, 2000)
    >>> seen = pd.DataFrame({"age": age, "entry": entry})[age >= entry]  # who died before entry was never seen
    >>> fit = vardi.debias({"seen": seen}, {"seen": vardi.window("age", "entry", None)})
    >>> print(f"rows {seen.age.mean():.1f}, truth {age.mean():.1f}, fit {fit.expectation('age')}")
    rows 89.9, truth 80.1, fit 80.52 ± 0.98 (95%: 78.60 to 82.45)
    >>> fit.names, str(vardi.window("age", "entry", None))
    (('seen',), 'window(age, entry, None)')
    """
    return WindowBias(
        _node(x, "The value"), _end(low), _end(high), None if status is None else _node(status, "The status")
    )


def _node(text: object, what: str) -> Node:
    if not isinstance(text, str):
        raise InvalidBiasError(f"{what} of a window is named by a string, not by {text!r}.")
    return parse(text)


def _end(end: object) -> Node | None:
    if end is None:
        return None
    if isinstance(end, int | float | np.number) and not isinstance(end, bool):
        if np.isinf(float(end)):
            return None
        return constant(end, "An end of a window")
    return _node(end, "An end")


def columns_to_test(biases: Sequence[Bias], numeric: Sequence[str]) -> list[str]:
    """Return the columns that samples are compared by: the value of windows, or numeric columns that biases read."""
    values = [bias.value for bias in biases if isinstance(bias, WindowBias)]
    read = {name for bias in biases for name in bias.columns}
    return values or [name for name in numeric if name in read]


def as_end(node: Node | None) -> Node | None:
    """Return an end that was parsed from text; raise if it is a text itself."""
    if isinstance(node, Constant) and isinstance(node.value, bool | str):
        raise InvalidBiasError(f"An end of a window is a column or a number, not {node.value!r}.")
    return node

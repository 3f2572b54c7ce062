r"""Biases that are log-linear in categories: a parameter for each value but one of each column.

.. math:: \omega(z) = \exp \sum_g \theta_{g, v_g(z)}, \qquad \theta_{g, v} = 0 \text{ for the most frequent value } v

======================  ========================================================
text                    parameters
======================  ========================================================
cells(region, sex)      of each region and of each sex but the most frequent one
cells((region, sex))    of each pair of them but the most frequent one
======================  ========================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from vardi.biases._expressions.families import factor, require_terms, times, total
from vardi.biases._expressions.nodes import (
    Column,
    Comparison,
    Constant,
    Node,
    Not,
    arithmetic,
    columns,
    conjunction,
    is_condition,
    to_text,
)
from vardi.errors import MismatchError, suggest

Value = bool | int | float | str
Level = tuple[Value, ...]
"""A value for each crossed column; for a single column a tuple of one."""
Parameters: TypeAlias = Mapping[Any, Any] | Iterable[float]
"""A number for each parameter, by name or in order; for cells from each column to its values, each with a number."""


@dataclass(frozen=True, slots=True)
class Cells:
    """A bias that has a factor for each value of some columns.

    Attributes
    ----------
    groups : tuple of tuple of Node
        The groups of columns, or expressions of them, that are crossed with one another; mostly one in each group.
    levels : tuple of tuple of Level
        The values of each group, the reference first; empty until rows are seen.
    """

    groups: tuple[tuple[Node, ...], ...]
    levels: tuple[tuple[Level, ...], ...] = ()

    def __post_init__(self) -> None:
        terms = [term for group in self.groups for term in group] if all(self.groups) else []
        remedy = "Name it once: crossed columns already have parameters for each of them alone."
        require_terms(self, "cells", terms, remedy)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(dict.fromkeys(name for group in self.groups for term in group for name in columns(term)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its parameters, such as ``region=N``; none until rows are seen."""
        return tuple(
            level_text(group, level)
            for group, levels in zip(self.groups, self.levels, strict=False)
            for level in levels[1:]
        )

    def __str__(self) -> str:
        return f"cells({', '.join(group_text(group) for group in self.groups)})"

    def seen(self, levels: Sequence[Sequence[Level]]) -> Cells:
        """Return the same with the values that occur in rows, in each group the most frequent first."""
        return replace(self, levels=tuple(tuple(one) for one in levels))

    def features(self) -> tuple[Node, ...]:
        """Return a condition for each parameter, on which it adds to the log of the bias; none until rows are seen."""
        pairs = zip(self.groups, self.levels, strict=False)
        return tuple(_holds(group, level) for group, levels in pairs for level in levels[1:])

    def node(self, theta: Sequence[float]) -> Node:
        """Return the expression of the bias with its parameters fixed: zero for a value that was not seen."""
        values, factors = iter(theta), []
        for group, levels in zip(self.groups, self.levels, strict=True):
            heights = [1.0, *(factor(next(values)) for _ in levels[1:])]
            factors.append(total([times(h, _holds(group, one)) for h, one in zip(heights, levels, strict=True)]))
        return reduce(lambda product, part: arithmetic(product, "*", part), factors)

    def fixed(self, theta: Parameters) -> tuple[Cells, list[float]]:
        """Return the same with the values named in a table of parameters, and these parameters.

        Parameters
        ----------
        theta : mapping
            From each column to its values, each with the log of its factor; from a tuple of crossed columns to tuples
            of values.
        """
        keys = {_key(group): group for group in self.groups}
        if not isinstance(theta, Mapping) or set(theta) != set(keys):
            got = list(theta)
            near = suggest(got[0], keys) if got and isinstance(theta, Mapping) else ""
            raise MismatchError(
                f"The parameters of {self} belong to values that only the rows determine, but {got} was given. Give "
                "each column its values with the logs of their factors, "
                f"{{{', '.join(f'{key!r}: {{...}}' for key in keys)}}}, or fix those of a fit: "
                f"fit.estimated_biases.{near}"
            )
        levels, parameters = [], []
        for key, group in keys.items():
            table = {_as_level(value, group): float(number) for value, number in dict(theta[key]).items()}
            if not table:
                raise MismatchError(f"{key!r} has no values in {theta}.")
            zero = next((level for level, number in table.items() if number == 0), next(iter(table)))
            levels.append([zero, *(level for level in table if level != zero)])
            parameters += [table[level] - table[zero] for level in levels[-1][1:]]
        return self.seen(levels), parameters


def group_text(group: tuple[Node, ...]) -> str:
    """Return crossed columns as they are written in a text."""
    texts = [to_text(term) for term in group]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def level_text(group: tuple[Node, ...], level: Level) -> str:
    """Return a value as the name of its parameter, such as ``region=N, sex=f``."""
    terms = [to_text(term) if isinstance(term, Column) else f"({to_text(term)})" for term in group]
    return ", ".join(f"{term}={value}" for term, value in zip(terms, level, strict=True))


def _key(group: tuple[Node, ...]) -> str | tuple[str, ...]:
    names = tuple(term.name if isinstance(term, Column) else to_text(term) for term in group)
    return names[0] if len(names) == 1 else names


def _as_level(value: object, group: tuple[Node, ...]) -> Level:
    given = value if isinstance(value, tuple) else (value,)
    plain = [one.item() if isinstance(one, np.generic) else one for one in given]
    level = tuple(one for one in plain if isinstance(one, bool | int | float | str))
    if not len(level) == len(plain) == len(group):
        raise MismatchError(
            f"{value!r} is not a value of {group_text(group)}. Give a string, a number or a boolean for each column."
        )
    return level


def _holds(group: tuple[Node, ...], level: Level) -> Node:
    """Return the condition that a row has these values."""
    parts = [_is(term, value) for term, value in zip(group, level, strict=True)]
    return parts[0] if len(parts) == 1 else conjunction(parts)


def _is(term: Node, value: Value) -> Node:
    if is_condition(term) and isinstance(value, bool):
        return term if value else Not(term)
    return Comparison(term, (("==", Constant(value)),))

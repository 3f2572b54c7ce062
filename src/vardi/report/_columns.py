"""Which columns a report looks at: those that were asked for, or all that can be read, up to a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vardi._frames import Frame
from vardi._sums import Floats
from vardi.errors import MismatchError

if TYPE_CHECKING:
    from vardi._sample import DebiasedSample

MOST_NUMERIC = 20
MOST_TEXT, MOST_CATEGORIES = 4, 6  # text columns, and categories of each
IDENTIFIER = 30  # distinct texts from which a column names units rather than kinds of them


@dataclass(frozen=True, eq=False)
class Column:
    """A column, an expression or a category as numbers, one for each row that the fit rests on."""

    name: str
    values: Floats

    @property
    def is_share(self) -> bool:
        """Whether it says of each row whether something holds."""
        return bool(np.isin(self.values, (0.0, 1.0)).all())


def has_rows(fit: DebiasedSample) -> bool:
    """Tell whether the rows are in memory."""
    return len(fit._influence.strata.source) > 0


def named_variables(variables: Any) -> dict[str, Any] | None:
    """Return what was asked for by name, None for whatever can be read."""
    if variables is None:
        return None
    if isinstance(variables, str):
        return {variables: variables}
    if isinstance(variables, Mapping):
        return {str(name): values for name, values in variables.items()}
    if isinstance(variables, Iterable):
        listed = list(variables)
        if all(isinstance(name, str) for name in listed):
            return {name: name for name in listed}
    raise MismatchError(
        f"The variables came as {type(variables).__qualname__}. Give a list of columns and expressions, or a mapping "
        "from name to values.",
        expected=("list of texts", "mapping"),
        got=(type(variables).__qualname__,),
    )


def columns_of(fit: DebiasedSample, variables: dict[str, Any] | None) -> tuple[tuple[Column, ...], str]:
    """Return the columns of a fit in memory, and a note on what was left out."""
    if variables is not None:
        return tuple(Column(name, fit._values(values)) for name, values in variables.items()), ""
    whole = fit._pool.whole()
    if whole is None:
        return (), (
            "The samples are held by different libraries, so their columns were not joined. Name some in variables=."
            if fit._pool.frames
            else "The fit was given biases only, and no columns. Give values by name in variables=."
        )
    numeric = tuple(Column(name, fit._values(name)) for name in fit.numeric_columns[:MOST_NUMERIC])
    arrays = {name: whole.column(name) for name in whole.columns if name not in fit.numeric_columns}
    conditions = tuple(Column(name, fit._values(name)) for name, array in arrays.items() if array.dtype.kind == "b")
    texts = {name: _texts(whole, name) for name, array in arrays.items() if array.dtype.kind in "OUT"}
    known = {name: text for name, text in texts.items() if text is not None}
    categories, (identifiers, further, label) = _categories(fit, known)
    unread = [name for name, array in arrays.items() if array.dtype.kind != "b" and name not in known]
    more = max(len(fit.numeric_columns) - MOST_NUMERIC, 0)
    notes = [
        f"{more} more numeric columns are not shown; name columns in variables= to choose." if more else "",
        f"Not shown: {_listed(unread)} (missing or infinite values, or neither numbers nor text)." if unread else "",
        f"Not shown: {_listed(identifiers)} (too many different texts)." if identifiers else "",
        f"Not shown: {_listed(further)} (more text columns than fit); write a condition in variables=."
        if further
        else "",
        f"Not shown: {_listed(label)} (the label of the samples)." if label else "",
    ]
    return (*numeric, *conditions, *categories), " ".join(note for note in notes if note)


def _texts(whole: Frame, name: str) -> NDArray[Any] | None:
    """Return a column of texts, None for objects that are none."""
    array = whole.column(name)
    known = np.array([value for value in array[:1000].tolist() if isinstance(value, str)], dtype=object)
    if not len(known):
        return None
    return np.array([value if isinstance(value, str) else "(missing)" for value in array.tolist()], dtype=object)


def _categories(
    fit: DebiasedSample, texts: Mapping[str, NDArray[Any]]
) -> tuple[tuple[Column, ...], tuple[list[str], list[str], list[str]]]:
    """Return the shares of the most frequent categories, and the columns left out.

    These are columns with too many different texts to be kinds of rows, columns beyond the number that is shown (those
    with few categories come first), and columns that repeat the label of the samples.
    """
    kept = slice(None) if fit._kept is None else fit._kept
    labels = np.array([str(name) for name in fit.names], dtype=object)[fit._pool.source]
    own = [name for name, array in texts.items() if bool((array == labels).all())]
    counted = {
        name: np.unique(array[kept], return_inverse=True, return_counts=True)
        for name, array in texts.items()
        if name not in own
    }
    identifiers = [name for name, (kinds, _, _) in counted.items() if len(kinds) > IDENTIFIER]
    few = sorted((name for name in counted if name not in identifiers), key=lambda name: len(counted[name][0]))
    columns = tuple(column for name in few[:MOST_TEXT] for column in _shares(name, *counted[name]))
    return columns, (identifiers, few[MOST_TEXT:], own)


def _shares(name: str, kinds: NDArray[Any], place: NDArray[Any], counts: NDArray[Any]) -> list[Column]:
    frequent = np.argsort(-counts, kind="stable")
    shown = frequent if len(kinds) <= MOST_CATEGORIES + 1 else frequent[:MOST_CATEGORIES]
    columns = [Column(f"{name}: {kinds[k]}", (place == k).astype(np.float64)) for k in shown.tolist()]
    others = len(kinds) - len(shown)
    if others:
        columns.append(Column(f"{name}: {others} others", (~np.isin(place, shown)).astype(np.float64)))
    return columns


def _listed(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")

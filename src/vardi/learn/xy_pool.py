"""Rows with separate targets -> one frame that biases can read, and its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeGuard, TypeVar, cast

import narwhals as nw
import numpy as np
from scipy import sparse

from vardi._estimate.weight_routing import Rows
from vardi._fit.debias import debias
from vardi._fit.sample import DebiasedSample
from vardi._fit.weighted import WeightedSample
from vardi._inputs.by_row import in_order
from vardi._inputs.frames import Frame, NarwhalsFrame, as_frame
from vardi._inputs.given import Biases, ByRow, Known, Labels, Table
from vardi._inputs.known import known_biases
from vardi._inputs.pool import Name, as_biases, as_named
from vardi._types import Integers
from vardi.biases import Bias
from vardi.errors import MismatchError, suggest
from vardi.errors._texts import first_of, show

if TYPE_CHECKING:
    from vardi.biases._constructors import BiasLike

T = TypeVar("T")


def debias_rows(
    X: Rows,
    y: Rows | None,
    source: Labels | None,
    biases: Biases | None,
    target: str | None = None,
    known: Known | None = None,
    clusters: ByRow | None = None,
    series: ByRow | bool | None = None,
) -> DebiasedSample:
    """Debias rows with separate targets; parameters are those of ``DebiasedResampler`` and of ``debias``.

    Examples
    --------
    >>> import numpy as np
    >>> from vardi.learn.xy_pool import debias_rows
    >>> X, y = np.array([[5.0], [6.0], [7.0]]), np.array([10.0, 30.0, 20.0])
    >>> fit = debias_rows(X, y, ["all", "all", "cheap"], {"all": 1, "cheap": "price <= 20"}, target="price")
    >>> fit.weights
    array([0.75, 1.5 , 0.75])
    """
    if biases is None and source is not None:
        raise MismatchError(
            "source names several samples, but there are no biases, so it is unknown how they were drawn. Give "
            "biases= by label; 1 means that a sample was drawn without bias."
        )
    by_name: dict[Name, BiasLike] = {"all": 1} if biases is None else as_named(biases, "biases")
    if source is None and len(by_name) != 1:
        raise MismatchError(
            f"There are biases for {show(by_name)}, but source=None does not say which sample each row belongs to. "
            "Give source= with a label for each row."
        )
    read = known_biases(known, by_name) if isinstance(known, Mapping) else {}
    of_known: dict[Name, BiasLike] = {f"the known value of {label}": bias for label, bias in read.items()}
    rows = joined(X, y, target, {**by_name, **of_known})
    if source is None:
        source = np.full(len(rows), next(iter(by_name)), dtype=object)
    declared = by_name if biases is None else biases
    return debias(cast("Table", rows), declared, source=source, known=known, clusters=clusters, series=series)


def with_targets(fit: DebiasedSample, y: Rows | None) -> tuple[WeightedSample, Integers | None]:
    """Return the rows of the samples that have targets, and their places; None if all have."""
    has = () if y is None or np.ndim(y) != 1 else fit.solved.data.recorded_by([np.asarray(y)])
    if not has:
        return fit, None
    return fit.among([fit.names[k] for k in has]), np.flatnonzero(np.isin(fit.solved.pool.source, has))


def joined(X: Rows, y: Rows | None, target: str | None, biases: Mapping[Name, BiasLike]) -> Frame:
    """Return rows with the target as a column, or name the column that a bias misses."""
    declared = as_biases(biases, tuple(biases))
    rows = _sparse(X, declared) if is_sparse(X) else frame_of(X)
    targets = _targets(in_order(y, (rows,), "y"), target)
    for values in targets.values():
        if len(values) != len(rows):
            raise MismatchError(f"y has {len(values)} values, but X has {len(rows)} rows. Give one for each row.")
    names = rows.columns
    for name, bias in zip(biases, declared, strict=True):
        for column in bias.columns:
            _require_readable(column, f"The bias {bias} of {str(name)!r}", names, targets)
    return _with_columns(rows, {name: values for name, values in targets.items() if name not in names})


def _require_readable(column: str, who: str, names: tuple[str, ...], targets: Mapping[str, np.ndarray]) -> None:
    if (column in names) != (column in targets):
        return
    if column in names:
        text = "which is both a column of X and the name of y. Give y another name with target=, or rename the column."
    elif targets:
        text = (
            f"which is neither a column of X ({first_of(names)}) nor the name of y ({', '.join(targets)})."
            f"{suggest(column, [*names, *targets])} Add the column to X; if it is the target, give target={column!r}."
        )
    else:
        text = (
            f"which is not a column of X ({first_of(names)}), and y is None.{suggest(column, names)} Add the column to "
            "X; if it is the target, give y."
        )
    raise MismatchError(f"{who} reads {column!r}, {text}")


def _targets(y: Rows | None, target: str | None) -> dict[str, np.ndarray]:
    """Return the columns of y by name."""
    if y is None:
        return {}
    frame = frame_of(y)
    names, many = frame.columns, len(frame.columns) > 1
    if not hasattr(y, "columns"):
        name = target or str(getattr(y, "name", None) or "y")
        names = tuple(f"{name}{j}" for j in range(len(names))) if many else (name,)
    elif target is not None and not many:
        names = (target,)
    return {name: frame.column(column) for name, column in zip(names, frame.columns, strict=True)}


def _with_columns(rows: Frame, columns: Mapping[str, np.ndarray]) -> Frame:
    if not columns:
        return rows
    if isinstance(rows, NarwhalsFrame):
        series = [nw.new_series(name, values, backend=rows.data.implementation) for name, values in columns.items()]
        return as_frame(rows.data.with_columns(*series).to_native())
    arrays, native = {**{name: rows.column(name) for name in rows.columns}, **columns}, rows.native
    if isinstance(native, np.ndarray) and not native.dtype.names:  # functions of rows see the targets as last columns
        numbers = all(values.dtype.kind in "fiub" for values in arrays.values())
        parts = [part if numbers else part.astype(object) for part in (native, *columns.values())]
        native = np.column_stack(parts)
    return _ArrayRows(native, arrays)


def _sparse(native: sparse.sparray, biases: tuple[Bias, ...]) -> Frame:
    """Return rows of a sparse array, with those columns as arrays that biases read."""
    read = {name for bias in biases for name in bias.columns}
    stored = native.tocsc()
    places = [place for place in range(native.shape[1]) if f"x{place}" in read]
    return _ArrayRows(native.tocsr(), {f"x{place}": stored[:, [place]].toarray()[:, 0] for place in places})


class _ArrayRows(Frame):
    """Rows of an array, dense or sparse, whose columns are held apart from it."""

    def __init__(self, native: np.ndarray | sparse.csr_array, arrays: Mapping[str, np.ndarray]) -> None:
        self.native, self._arrays = native, dict(arrays)

    def __len__(self) -> int:
        return int(self.native.shape[0])


def take(rows: T, positions: Integers) -> T:
    """Return some rows of an array, a sparse array, a frame or a series, in the same library; None of None."""
    if rows is None:
        return rows
    if is_sparse(rows):
        return rows.tocsr()[positions].asformat(rows.format)
    return frame_of(rows).take(positions)


def without(X: Rows, *names: object) -> Rows:
    """Return rows without those columns that some of the names are; what is given as numbers or labels is no name."""
    named = [name for name in names if isinstance(name, str)]
    if not named or is_sparse(X):
        return X
    frame = frame_of(X)
    there = [name for name in named if name in frame.columns]
    return frame.drop(*there).native if there else X


def is_sparse(rows: object) -> TypeGuard[sparse.sparray]:
    """Return whether rows are a sparse array or matrix of SciPy."""
    return bool(sparse.issparse(rows))


def frame_of(rows: object) -> Frame:
    """Return an array, a frame or a series behind one interface; lists are arrays."""
    return as_frame(np.asarray(rows) if isinstance(rows, list | tuple) else rows)

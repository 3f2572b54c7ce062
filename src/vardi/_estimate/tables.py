"""Results as frames: one row for each estimate, in a library of frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from vardi._inputs.library_expressions import eager_library

if TYPE_CHECKING:
    from narwhals.typing import EagerAllowed, IntoBackend

    from vardi._estimate.estimates import Estimate

Record: TypeAlias = dict[str, Any]
"""A row of a frame: its value in each column."""


Result = TypeVar("Result", bound="Tabular")


class Tabular(ABC):
    """A result that is a table: each kind only lists its rows."""

    _library: str | None = None  # of the frames of the fit that it is of, if there are any

    @abstractmethod
    def _records(self) -> list[Record]:
        """Return the rows, all with the same columns."""

    def to_frame(self, backend: IntoBackend[EagerAllowed] | None = None) -> Any:
        """Return a frame with a row for each estimate: its name, value, standard error, interval and more.

        Parameters
        ----------
        backend : {"polars", "pandas", "pyarrow"}, optional
            The library of the frame. By default that of the fit's own frames; or, for arrays and engines that have no
            frames in memory, one that is loaded.
        """
        import narwhals as nw

        records = self._records()
        columns = {name: [record[name] for record in records] for name in (records[0] if records else {})}
        library: Any = backend or self._library or eager_library()
        return nw.from_dict(columns, backend=library).to_native()


def in_library(result: Result, library: str | None) -> Result:
    """Return a result whose frames are of a library."""
    object.__setattr__(result, "_library", library)  # results are frozen
    return result


def record_of(name: Hashable, estimate: Estimate) -> Record:
    """Return the row of an estimate."""
    low, high = estimate.interval
    numbers = {"value": estimate.value, "stderr": estimate.stderr, "low": low, "high": high, "df": estimate.df}
    return {"name": str(name), **numbers, "level": estimate.level}

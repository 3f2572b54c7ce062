"""Where the data live: one contract (:mod:`vardi._rows.contract`), with one file for each form of rows."""

from vardi._rows.base import Rows
from vardi._rows.choose import Checks, as_rows
from vardi._rows.windows import Windows

__all__ = ["Checks", "Rows", "Windows", "as_rows"]

"""Whatever holds rows, behind one interface: `as_frame` and `concat` make a `Frame`."""

from vardi._inputs.frames.concat import JoinedColumns, concat, mixed_columns, shared_names, stacked
from vardi._inputs.frames.frame import Frame, NarwhalsFrame, NumpyFrame, as_frame

__all__ = [
    "Frame",
    "JoinedColumns",
    "NarwhalsFrame",
    "NumpyFrame",
    "as_frame",
    "concat",
    "mixed_columns",
    "shared_names",
    "stacked",
]

"""Whatever holds rows, behind one interface: `as_frame` and `concat` make a `Frame`."""

from vardi._inputs.frames.concat import concat, mixed_columns, stacked
from vardi._inputs.frames.frame import Frame, NarwhalsFrame, NumpyFrame, as_frame
from vardi._inputs.frames.joined import JoinedColumns

__all__ = ["Frame", "JoinedColumns", "NarwhalsFrame", "NumpyFrame", "as_frame", "concat", "mixed_columns", "stacked"]

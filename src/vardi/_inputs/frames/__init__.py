"""Whatever holds rows, behind one interface: `as_frame` and `concat` make a `Frame`."""

from vardi._inputs.frames.concat import concat, mixed_columns
from vardi._inputs.frames.frame import Frame, NarwhalsFrame, NumpyFrame, as_frame

__all__ = ["Frame", "NarwhalsFrame", "NumpyFrame", "as_frame", "concat", "mixed_columns"]

"""Matrices that are products of two narrow ones to rounding."""

from __future__ import annotations

import numpy as np
import scipy

from vardi._types import Floats

MIN_COLUMNS = 100  # from which it pays to look
SAVED = 4  # times as narrow as the matrix that its factors have to be


def factored(b: Floats) -> tuple[Floats, Floats] | None:
    """Return L and R with L R = b up to rounding of each column; None if these are not narrow.

    Where many samples overlap widely, each moves an estimate much like its neighbours, and a few dozen directions
    suffice for hundreds of samples.
    """
    if b.ndim < 2 or min(b.shape) < MIN_COLUMNS or not np.isfinite(b).all():
        return None
    scale = np.abs(b).max(axis=0)
    scale[scale == 0.0] = 1.0
    Q, R, order = scipy.linalg.qr(b / scale, mode="economic", pivoting=True)
    size = np.abs(np.diag(R))
    rank = int((size > max(b.shape) * np.finfo(float).eps * size[0]).sum())  # as numpy.linalg.matrix_rank has it
    if rank * SAVED > min(b.shape):
        return None
    right = np.empty((rank, b.shape[1]))
    right[:, order] = R[:rank]
    return Q[:, :rank], right * scale

"""Rows for learners: positions drawn by probability, and batches for PyTorch, which is loaded on demand."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from vardi._types import Floats, Integers
from vardi.errors import MismatchError

Method: TypeAlias = Literal["multinomial", "systematic"]
Random: TypeAlias = np.random.Generator | np.random.RandomState


def draw(
    probabilities: Floats, size: float | None, rng: Random, *, replace: bool = True, method: Method = "multinomial"
) -> Integers:
    """Return positions drawn by probability; size and method are as in :class:`DebiasedResampler`.

    Examples
    --------
    >>> import numpy as np
    >>> from vardi._estimate.draws import draw
    >>> draw(np.array([0.5, 0.3, 0.2]), 10, np.random.default_rng(0), method="systematic")
    array([0, 0, 0, 0, 0, 1, 1, 1, 2, 2])
    """
    if method not in get_args(Method):
        raise MismatchError(f"The method is {method!r}. Give 'multinomial' or 'systematic'.")
    most = math.floor(1.0 / probabilities.max() + 1e-9)
    size = _rows_to_draw(size, len(probabilities), len(probabilities) if replace else most)
    if replace and method == "multinomial":
        return rng.choice(len(probabilities), size=size, p=probabilities)
    if replace:
        return _systematic(probabilities, size, rng)
    if size > most:
        raise MismatchError(
            f"{size} rows cannot be drawn without replacement: the row of largest weight would have to be drawn more "
            f"than once for the draw to be unbiased. Draw at most {most} rows, or with replacement."
        )
    order = rng.permutation(len(probabilities)) if method == "multinomial" else np.arange(len(probabilities))
    while True:  # rounding of the cumulated probabilities may, very rarely, hit a row of probability 1 / size twice
        drawn = _systematic(probabilities[order], size, rng)
        if (np.diff(drawn) > 0).all():
            return order[drawn]


def _systematic(probabilities: Floats, size: int, rng: Random) -> Integers:
    ends = np.cumsum(probabilities)
    points = (np.arange(size) + rng.random()) / size
    return np.searchsorted(ends / ends[-1], np.minimum(points, np.nextafter(1.0, 0.0)), side="right")


def _rows_to_draw(size: object, n: int, default: int) -> int:
    """Return how many rows to draw for a size: a number, a share of n, or None for the default."""
    if size is None:
        return default
    rows = 0
    if not isinstance(size, bool) and isinstance(size, Integral):
        rows = int(size)
    elif isinstance(size, Real) and not isinstance(size, Integral) and math.isfinite(size):
        rows = round(float(size) * n)
    if rows < 1:
        raise MismatchError(
            f"size is {size!r}, which is not a number of rows to draw. Give an integer (rows), a float (share of "
            f"the {n} rows) that amounts to one row or more, or None."
        )
    return rows


def torch_sampler(
    probabilities: Floats, n: float | None = None, seed: int | None = None, *, method: Method = "multinomial"
) -> Any:
    r"""Return a ``torch.utils.data.Sampler`` that draws positions of rows by their debiased probability.

    A batch of such rows is an unbiased sample: the loss needs no weights. Each pass over the sampler is a new draw, the
    same for the same seed and pass; ``sampler.set_epoch(k)`` goes to a pass, as in PyTorch's DistributedSampler. Rows
    are drawn by NumPy in double precision, so there may be more than the 2^24 that ``torch.multinomial`` takes.

    Parameters
    ----------
    probabilities : ndarray
        Of the rows of the pool. Positions refer to the pool: all rows, sample after sample, as they were given.
    n : int, float or None
        Rows in a pass, ``len(sampler)``: an int, a float as a share of the rows of the pool, or None for all of them.
    seed : int, optional
        For reproducible draws; by default a new one, kept as ``sampler.seed``.
    method : {"multinomial", "systematic"}
        Independent draws, or a low-variance draw in random order: row i comes :math:`\lfloor n\pi_i \rfloor` or
        :math:`\lceil n\pi_i \rceil` times in each pass.

    Raises
    ------
    ImportError
        If PyTorch is not installed.
    """
    size = _rows_to_draw(n, len(probabilities), len(probabilities))
    seed = secrets.randbits(64) if seed is None else int(seed)
    return _restored(probabilities, size, seed, method, 0)


def torch_weights(probabilities: Floats, dtype: Any = None) -> Any:
    """Return the weight of each row of the pool as a tensor with mean 1, for the loss of batches drawn evenly.

    A row that stands for several (``counts``) has its weight times its count. A batch mean of weighted losses is an
    unbiased estimate of the debiased risk, so it is not divided by the weights of the batch.

    Parameters
    ----------
    probabilities : ndarray
        Of the rows of the pool.
    dtype : torch.dtype, optional
        By default that of PyTorch.

    Raises
    ------
    ImportError
        If PyTorch is not installed.
    """
    torch = _torch()
    return torch.as_tensor(probabilities * len(probabilities), dtype=dtype or torch.get_default_dtype())


def _torch() -> Any:
    try:
        import_module("torch.utils.data")
        return import_module("torch")
    except ImportError as error:
        raise ImportError(
            "Batches by weight need PyTorch, which is not installed. Install it with: pip install 'vardi[torch]'"
        ) from error


def _restored(probabilities: Floats, size: int, seed: int, method: Method, epoch: int) -> Any:
    """Return a sampler at a given pass; pickled samplers are restored by it."""
    draw(probabilities, 1, np.random.default_rng(0), method=method)  # an invalid method fails now, not in a pass
    return _sampler_class()(probabilities, size, seed, method, epoch)


@cache
def _sampler_class() -> type:
    """Return the class, whose base exists only once PyTorch is loaded."""

    class DebiasedSampler(_torch().utils.data.Sampler):  # type: ignore[misc]
        """Positions of rows, drawn by their debiased probability."""

        def __init__(self, probabilities: Floats, size: int, seed: int, method: Method, epoch: int) -> None:
            self.probabilities, self.seed, self.method, self.epoch = probabilities, seed, method, epoch
            self._size = size

        def __len__(self) -> int:
            return self._size

        def __iter__(self) -> Iterator[int]:
            rng = np.random.default_rng([self.seed, self.epoch])
            self.epoch += 1
            drawn = draw(self.probabilities, self._size, rng, method=self.method)
            return iter((rng.permutation(drawn) if self.method == "systematic" else drawn).tolist())

        def set_epoch(self, epoch: int) -> None:
            """Go to a pass: the next draw is the one with this number."""
            self.epoch = epoch

        def __reduce__(self) -> tuple[Any, ...]:
            return _restored, (self.probabilities, self._size, self.seed, self.method, self.epoch)

        def __repr__(self) -> str:
            return f"DebiasedSampler({self._size} of {len(self.probabilities)} rows, seed={self.seed})"

    return DebiasedSampler

"""Designs: samples with their biases, and the truth behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vardi._types import Floats, Integers
from vardi.errors import EmptySampleError, MismatchError


@dataclass(frozen=True, eq=False)
class Design:
    """Biased samples of one population, ready for ``vardi.debias(design.samples, design.biases)``.

    Attributes
    ----------
    samples : dict of str to rows
        Simulated rows are NumPy arrays: one dimension is the column ``x`` of the text expressions, two dimensions are
        the columns ``x0, x1, ...``.
    biases : dict of str to str
        For each sample, its bias omega_k as a text expression.
    truth : mapping of str to number or array
        True values of the population P. ``"Omega of name"`` is the normaliser E_P omega of that sample; ``"mean"``
        is the mean of the quantity that the design is about. Each function documents its keys.
    test : rows or None
        Unbiased rows of the population that are in no sample, if the design has any.
    """

    samples: dict[str, Any]
    biases: dict[str, str]
    truth: Mapping[str, Any]
    test: Any = None


@dataclass(frozen=True, eq=False)
class MatrixDesign:
    """A design given by the values of its biases, for ``vardi.debias_matrix(d.omega, d.source, log=d.log)``.

    Attributes
    ----------
    rows : array of n
        The points z_i.
    omega : array of n x K
        omega_k(z_i), or log omega_k(z_i) if ``log`` is true.
    source : integer array of n
        The label 0..K-1 of the sample that each row came from.
    truth : mapping of str to number or array
        What is known; each function documents its keys.
    log : bool
        Whether ``omega`` holds logarithms.
    """

    rows: Floats
    omega: Floats
    source: Integers
    truth: Mapping[str, Any]
    log: bool = False


def require_sizes(names: Sequence[str], sizes: Sequence[int]) -> None:
    """Refuse sizes that are not one row or more for each sample."""
    if len(names) != len(sizes):
        raise MismatchError(
            f"The design has {len(names)} samples ({', '.join(names)}), but {len(sizes)} sizes were given: "
            f"{tuple(sizes)}. Give one size for each sample, in this order."
        )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise MismatchError(
            f"Two samples have the same name and bias: {', '.join(repeated)}. Give each parameter once, and add up "
            "the sizes."
        )
    empty = [name for name, size in zip(names, sizes, strict=True) if size < 1]
    if empty:
        raise EmptySampleError(
            f"No rows for {', '.join(empty)} among the sizes {tuple(sizes)}. Each sample needs one row or more.",
            samples=empty,
        )


def require_positive(name: str, value: float) -> None:
    """Raise unless the named parameter is greater than zero."""
    if not value > 0:
        raise MismatchError(f"{name} must be greater than 0, got {value}.")

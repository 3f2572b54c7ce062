"""The two real tables of the paper, and its two-sample case of house prices."""

from __future__ import annotations

import importlib
import io
import lzma
from importlib.resources import files
from typing import Any, Literal, TypeAlias, get_args

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from vardi.datasets._simulated import Design
from vardi.errors import MismatchError, suggest

# The types of the columns, whose names are in the files; texts are as wide as their longest category.
_BOSTON = "f8 f8 f8 i8 f8 f8 f8 f8 i8 i8 f8 f8 f8 f8"
_ADULT = "i8 U16 i8 U12 i8 U21 U17 U14 U18 U6 i8 i8 i8 U26 U5"
_PARTS = {None: slice(None), "train": slice(32_561), "test": slice(32_561, None)}
Table: TypeAlias = NDArray[np.void]
Backend: TypeAlias = Literal["pandas", "polars", "pyarrow", "numpy"]
BACKENDS: tuple[str, ...] = get_args(Backend)
MISSING = "?"


def boston(backend: Backend = "pandas") -> Any:
    """Boston housing: 506 census tracts, 14 columns, no missing values.

    The columns are CRIM, ZN, INDUS, CHAS, NOX, RM, AGE, DIS, RAD, TAX, PTRATIO, B, LSTAT and MEDV, the median house
    value in 1,000 dollars, capped at 50. CHAS, RAD and TAX are integers, the others floats.

    Parameters
    ----------
    backend : {"pandas", "polars", "pyarrow", "numpy"}
        The library of the frame returned; ``"numpy"`` gives a structured array.

    Returns
    -------
    frame or structured array

    Notes
    -----
    scikit-learn withdrew this table in 1.2, and for a good reason: B = 1000 (Bk - 0.63)^2, with Bk the proportion of
    Black residents, was built on the assumption that racial self-segregation raises house prices. It is here only so
    that the paper's experiment can be repeated. Do not use it as a model of house prices.

    The source is Harrison and Rubinfeld (1978), in the copy of StatLib; ``SOURCES.md`` in the data folder of this
    package has the terms and checksums.

    Examples
    --------
    >>> from vardi.datasets import boston
    >>> table = boston(backend="numpy")
    >>> len(table), round(float(table["MEDV"].mean()), 4)
    (506, 22.5328)
    """
    return as_table(read_table("boston.csv", _BOSTON), backend)


def adult(backend: Backend = "pandas", part: str | None = None) -> Any:
    """Adult, or Census Income: 48,842 people of the US census of 1994, 15 columns.

    The columns are age, workclass, fnlwgt, education, education-num, marital-status, occupation, relationship, race,
    sex, capital-gain, capital-loss, hours-per-week, native-country and income, which is ``<=50K`` or ``>50K`` in both
    parts. The numbers are integers.

    Parameters
    ----------
    backend : {"pandas", "polars", "pyarrow", "numpy"}
        The library of the frame returned; ``"numpy"`` gives a structured array.
    part : {None, "train", "test"}
        The 32,561 training rows, the 16,281 test rows, or both, training rows first.

    Returns
    -------
    frame or structured array
        A missing category (workclass, occupation, native-country) is null in a frame. In the structured array it is
        ``"?"``, as UCI writes it.

    Notes
    -----
    Becker, B. and Kohavi, R. (1996), Adult, UCI Machine Learning Repository, https://doi.org/10.24432/C5XW20, under
    CC BY 4.0. ``SOURCES.md`` in the data folder of this package has the checksums and what was changed (the layout of
    the files, no row and no value).

    Examples
    --------
    >>> from vardi.datasets import adult
    >>> people = adult(backend="numpy", part="train")
    >>> len(people), round(100 * float((people["income"] == ">50K").mean()), 2)
    (32561, 24.08)
    >>> int((people["workclass"] == "?").sum())
    1836
    """
    if part not in _PARTS:
        raise MismatchError(f"Adult has no part {part!r}. Give 'train', 'test' or None, for both.")
    return as_table(read_table("adult.csv.xz", _ADULT)[_PARTS[part]], backend)


def house_prices(seed: int = 0, backend: Backend = "pandas") -> Design:
    """Boston as the paper samples it: an agency that sells cheap houses, and a small national survey.

    The 506 rows are shuffled: 100 are for the test, 400 for training. Among the training rows with MEDV <= 22, 200 are
    drawn ("agency"); among all training rows, 100 are drawn ("national"); each without replacement, so a row may be in
    both samples but never twice in one. The biases are ``MEDV <= 22`` and ``1``.

    Parameters
    ----------
    seed : int
        Seed of the shuffle and of both draws.
    backend : {"pandas", "polars", "pyarrow", "numpy"}
        The library of the rows, as in :func:`boston`.

    Returns
    -------
    Design
        With ``test``, the 100 test rows. The truth takes the 506 rows as the population: ``"mean"`` is their mean MEDV,
        ``"Omega of agency"`` the share of them with MEDV <= 22, ``"Omega of national"`` is 1.

    See Also
    --------
    boston : the table, and why scikit-learn withdrew it.

    Examples
    --------
    >>> from vardi.datasets import house_prices
    >>> design = house_prices(seed=0, backend="numpy")
    >>> {name: len(rows) for name, rows in design.samples.items()}
    {'agency': 200, 'national': 100}
    >>> design.biases
    {'agency': 'MEDV <= 22', 'national': '1'}
    >>> {name: round(value, 4) for name, value in design.truth.items()}
    {'mean': 22.5328, 'Omega of agency': 0.5613, 'Omega of national': 1.0}
    """
    houses = read_table("boston.csv", _BOSTON)
    price = houses["MEDV"]
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(len(price))
    test, train = shuffled[:100], shuffled[100:]
    drawn = {
        "agency": rng.choice(train[price[train] <= 22], 200, replace=False),
        "national": rng.choice(train, 100, replace=False),
    }
    return Design(
        samples={name: as_table(houses[rows], backend) for name, rows in drawn.items()},
        biases={"agency": "MEDV <= 22", "national": "1"},
        truth={"mean": float(price.mean()), "Omega of agency": float((price <= 22).mean()), "Omega of national": 1.0},
        test=as_table(houses[test], backend),
    )


def read_table(name: str, types: str) -> Table:
    """Read a CSV file of this package; ``types`` are the NumPy types of its columns."""
    content = files("vardi.datasets").joinpath("data", name).read_bytes()
    if name.endswith(".xz"):
        content = lzma.decompress(content)
    header, rows = content.decode().split("\n", 1)
    columns = list(zip(header.strip().split(","), types.split(), strict=True))
    return np.loadtxt(io.StringIO(rows), dtype=columns, delimiter=",", comments=None)


def as_table(table: Table, backend: Backend) -> Any:
    """Make a frame with nulls for missing text; ``"numpy"`` leaves the structured array as it is."""
    if backend not in BACKENDS:
        raise MismatchError(
            f"There is no backend {backend!r}. There are {', '.join(BACKENDS)}.{suggest(backend, BACKENDS)}"
        )
    if backend == "numpy":
        return table
    try:
        importlib.import_module(backend)
    except ImportError as error:
        raise ImportError(
            f"backend={backend!r} needs the library {backend}, which cannot be imported here. "
            f"Run `pip install {backend}`, or pass backend='numpy', which needs no frame library.",
            name=backend,
        ) from error
    columns = {name: _nullable(table[name]) for name in table.dtype.names or ()}
    return nw.from_dict(columns, backend=backend).to_native()


def _nullable(values: NDArray[Any]) -> Any:
    if values.dtype.kind == "U":
        return [None if value == MISSING else value for value in values.tolist()]
    return np.ascontiguousarray(values)

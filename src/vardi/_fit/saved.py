"""A fit in a file: one JSON text that names no types and runs no code, and that a person can read.

The same document is what a pickled :class:`Weigher` holds; only there may a bias without a text be an object.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from vardi._files import require_writable, whole_file
from vardi._inputs.known import Known
from vardi._inputs.pool import Name
from vardi._types import Floats
from vardi.biases import Bias, ExpressionBias, ParametricBias
from vardi.biases._kinds import FunctionFamily
from vardi.biases._nodes import Cells
from vardi.biases._parse import parse_bias
from vardi.errors import InvalidBiasError, MismatchError, SavedFitError, VardiError

if TYPE_CHECKING:
    from vardi._fit.solved import Solved
    from vardi._fit.weigher import Weigher

FORMAT = 1

Document: TypeAlias = dict[str, Any]
"""A JSON object, as Python has it."""


def to_document(weigher: Weigher) -> Document:
    """Return a fit without its rows as numbers, texts and lists; biases that have no text stay as they are."""
    errors, known = weigher.errors, weigher.known
    samples = []
    for k, name in enumerate(weigher.names):
        one: Document = {"name": _plain(name), "rows": _number(weigher.sizes[k]), "log_factor": _number(weigher.u[k])}
        if weigher.biases:
            one["bias"] = _text(weigher.biases[k])
        if k in weigher.theta:
            bias = weigher.biases[k]
            assert isinstance(bias, ParametricBias)
            one["parameters"] = dict(zip(bias.names, weigher.theta[k], strict=True))
            if isinstance(bias.family, Cells):
                one["values"] = [[list(level) for level in levels] for levels in bias.family.levels]
        if weigher.groups is not None:
            one["group"] = int(weigher.groups[k])
        if errors is not None:
            one |= {"log_normaliser": _number(errors.log_omegas[k]), "stderr": _number(errors.stderr[k])}
            one |= {"df": _number(errors.df[k]), "declared": bool(errors.declared[k])}
        samples.append(one)
    numbers = zip(known.labels, known.functions, known.values.tolist(), weigher.mu.tolist(), strict=True)
    return {
        "format": FORMAT,
        "vardi": _version(),
        "samples": samples,
        "known": [
            {"label": label, "of": h if isinstance(h, int) else _text(h), "value": value, "factor": factor}
            for label, h, value, factor in numbers
        ],
        "margins": [[column, place.start, place.stop] for column, place in known.margins],
        "columns": dict(weigher.schema),
        "logs": weigher.log,
        "covariance": None
        if errors is None
        else [[_number(value) for value in row[: k + 1].tolist()] for k, row in enumerate(errors.covariance)],
    }


def from_document(document: Document) -> Weigher:
    """Return the fit that a document holds."""
    from vardi._fit.weigher import NormaliserErrors, Weigher
    from vardi._inputs.column_types import dtype_of

    samples = document["samples"]
    biases = tuple(_bias(one) for one in samples if "bias" in one)
    lower, errors = document["covariance"], None
    if lower is not None:
        covariance = np.zeros((len(samples), len(samples)))
        for k, row in enumerate(lower):
            covariance[k, : k + 1] = covariance[: k + 1, k] = [np.nan if value is None else value for value in row]
        columns = _floats(samples, "log_normaliser", np.nan), _floats(samples, "stderr", np.nan)
        declared = np.array([bool(one["declared"]) for one in samples])
        errors = NormaliserErrors(*columns, _floats(samples, "df", np.inf), declared, covariance)
    known = document["known"]
    functions = tuple(one["of"] if isinstance(one["of"], int) else _parsed(one["of"]) for one in known)
    for text in document["columns"].values():
        dtype_of(text)
    return Weigher(
        names=tuple(one["name"] for one in samples),
        sizes=_floats(samples, "rows"),
        biases=biases,
        theta={
            k: tuple(float(samples[k]["parameters"][name]) for name in bias.names)
            for k, bias in enumerate(biases)
            if isinstance(bias, ParametricBias)
        },
        u=_floats(samples, "log_factor", -np.inf),
        known=Known(
            tuple(one["label"] for one in known),
            functions,
            _floats(known, "value"),
            np.zeros((len(known), len(known))),
            tuple((column, slice(start, stop)) for column, start, stop in document["margins"]),
        ),
        mu=_floats(known, "factor"),
        groups=np.array([one["group"] for one in samples]) if "group" in samples[0] else None,
        schema=document["columns"],
        log=document["logs"],
        errors=errors,
    )


def save(weigher: Weigher, path: str | os.PathLike[str], *, overwrite: bool = False, **also: Any) -> Path:
    """Write a fit as JSON, whole or not at all; ``also`` are further entries."""
    if textless := without_text(weigher):
        raise InvalidBiasError(
            f"{textless[0]} has no text, and a file holds no code. Write it as an expression, or learn it by a "
            "logistic regression; fit.weigher() can be pickled as it is."
        )
    target = require_writable(path, overwrite=overwrite, remedy="Give overwrite=True, or another name.")
    strange = [name for name in weigher.names if not isinstance(_plain(name), str | int | float)]
    if strange:
        kind = type(strange[0]).__name__
        raise MismatchError(
            f"The sample {strange[0]!r} is a {kind}, which JSON lacks. Name samples by texts or numbers."
        )
    document = {**to_document(weigher), **also}
    document = {"hash": hash_of(document), **document}
    with whole_file(target, overwrite=overwrite) as temporary:
        temporary.write_text(_written(document), encoding="utf-8")
    return target


def load(path: str | os.PathLike[str]) -> Weigher:
    """Return a fit that was saved: what it weighs, without its rows.

    Parameters
    ----------
    path : str or path
        What ``fit.save`` wrote. It is read as JSON, and its biases by the parser of biases; no code is run.

    Returns
    -------
    Weigher
        It weighs rows, prints its normalisers with errors, and gives expressions and SQL.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import vardi
    >>> design = vardi.datasets.house_prices(seed=0)
    >>> fit = vardi.debias(design.samples, design.biases)
    >>> with TemporaryDirectory() as folder:
    ...     loaded = vardi.load(fit.save(Path(folder) / "fit.json"))
    >>> print(loaded)
    weights of 300 rows of 2 samples, without the rows
    <BLANKLINE>
    sample    rows  bias                                 normaliser
    agency     200  MEDV <= 22  0.590 ± 0.049 (95%: 0.500 to 0.697)
    national   100  1                     1 (known, up to rounding)
    """
    path = Path(path)
    document = read(path)
    try:
        return from_document(document)
    except (VardiError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        refuse(path, f"its content makes no sense ({type(error).__name__}: {error})", error)


def read(path: Path) -> Document:
    """Return the document in a file; raise if it is none, is of a newer format, or was changed."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
        stated = document.pop("hash", None) if isinstance(document, dict) else None
        is_same = stated == hash_of(document)
    except OSError as error:
        raise SavedFitError(f"{path} cannot be read: {error.strerror}.", path=str(path)) from error
    except (ValueError, RecursionError) as error:
        refuse(path, "it is not JSON", error)
    if not isinstance(document, dict) or type(document.get("format")) is not int or stated is None:
        refuse(path, "it has no format and hash")
    if document["format"] > FORMAT:
        raise SavedFitError(
            f"{path} has format {document['format']}, written by vardi {document.get('vardi')}, and this is vardi "
            f"{_version()}, which reads formats up to {FORMAT}. Install a newer vardi.",
            path=str(path),
        )
    if not is_same:
        raise SavedFitError(
            f"{path} was changed after it was saved: its content does not have the hash that it states. Save the fit "
            "again; to change a bias, debias again.",
            path=str(path),
        )
    return document


def hash_of(document: Document) -> str:
    """Return the hash of a document, whatever the order of its entries and its spaces."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def hash_of_rows(solved: Solved) -> str | None:
    """Return the hash of what the fit read of its rows in memory: sample, counts and columns; None in an engine."""
    data = solved.data
    if not data.in_memory or not data.pool.frames:
        return None
    found = hashlib.sha256()
    for array in (solved.memory.pool.source, np.ascontiguousarray(solved.memory.pool.counts)):
        found.update(np.asarray(array, "<f8").tobytes())
    for name in solved.weigher.schema:
        for frame in data.pool.frames:
            column = frame.column(name)
            found.update(
                column.astype("<f8").tobytes() if column.dtype.kind in "fiub" else repr(column.tolist()).encode()
            )
    return f"sha256:{found.hexdigest()}"


def refuse(path: Path, why: str, cause: Exception | None = None) -> NoReturn:
    """Raise the error for a file that holds no fit."""
    raise SavedFitError(
        f"{path} is not a saved fit: {why}. Give a file that fit.save() wrote.", path=str(path)
    ) from cause


def without_text(weigher: Weigher) -> list[str]:
    """Return which biases and known functions have no text that can be read back."""
    biases = zip(weigher.names, weigher.biases, strict=True)
    known = zip(weigher.known.labels, weigher.known.functions, strict=True)
    found = [f"The bias of {str(name)!r}, {bias}," for name, bias in biases if _text(bias) is bias]
    return found + [
        f"The known function {label!r}, {h}," for label, h in known if isinstance(h, Bias) and _text(h) is h
    ]


def can_be_saved(solved: Solved) -> bool:
    """Return whether the weight of a fit is a formula, and all of its parts have a text."""
    return solved.has_formula and bool(solved.weigher.biases) and not without_text(solved.weigher)


def _text(bias: Bias) -> Any:
    """Return the text of a bias, or the bias itself if it has none."""
    if isinstance(bias, ParametricBias):
        has_text = isinstance(bias.known, ExpressionBias) and not isinstance(bias.family, FunctionFamily)
    else:
        has_text = isinstance(bias, ExpressionBias)
    return str(bias) if has_text else bias


def _bias(sample: Mapping[str, Any]) -> Bias:
    bias = _parsed(sample["bias"])
    if "values" not in sample:
        return bias
    assert isinstance(bias, ParametricBias)
    assert isinstance(bias.family, Cells)
    return replace(bias, family=bias.family.seen([[tuple(level) for level in levels] for levels in sample["values"]]))


def _parsed(given: str | Bias) -> Bias:
    return given if isinstance(given, Bias) else parse_bias(given)


def _plain(name: Name) -> Any:
    return name.item() if isinstance(name, np.generic) else name


def _number(value: float) -> float | None:
    """Return a number as JSON has it: null if it is not finite."""
    return float(value) if np.isfinite(value) else None


def _floats(entries: Sequence[Mapping[str, Any]], key: str, missing: float = np.nan) -> Floats:
    return np.array([missing if one[key] is None else float(one[key]) for one in entries], np.float64)


def _written(document: Document) -> str:
    """Return JSON with a line for each entry, and for each element of a list."""
    lines = []
    for key, value in document.items():
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        if isinstance(value, list) and value:
            elements = ",\n  ".join(json.dumps(one, ensure_ascii=False, allow_nan=False) for one in value)
            text = f"[\n  {elements}\n ]"
        lines.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _version() -> str:
    import vardi

    return str(vardi.__version__)

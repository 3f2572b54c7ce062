"""How to repeat the fit, and hashes that identify its data: the same rows have the same hash on any machine."""

from __future__ import annotations

import hashlib
import platform
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import numpy as np

from vardi._facts.account import Account
from vardi._facts.columns import Variables
from vardi._facts.numbers import rows_text
from vardi._inputs.pool import Pool
from vardi._types import Integers
from vardi.biases import Bias, ExpressionBias, FunctionFamily, ParametricBias
from vardi.biases._values import is_missing

PACKAGES = ("vardi", "numpy", "scipy", "narwhals")
MISSING = "\1"  # which no text is


@dataclass(frozen=True)
class StudyFile:
    """The file that defines a fit: its name, its text, and the SHA-256 of its bytes."""

    name: str
    text: str
    digest: str

    @classmethod
    def read(cls, path: Path) -> StudyFile:
        """Read it."""
        content = path.read_bytes()
        return cls(path.name, content.decode("utf-8", "replace"), hashlib.sha256(content).hexdigest())


@dataclass(frozen=True)
class Recipe:
    """How to repeat the fit.

    Attributes
    ----------
    code : str
        A Python snippet or, for a study, the command that repeats the fit.
    versions : tuple of (str, str)
        Packages and their versions.
    """

    code: str
    versions: tuple[tuple[str, str], ...]


def recipe_of(facts: Account, title: str | None, variables: Variables | None, study: StudyFile | None) -> Recipe:
    """Return how to repeat the fit: the command for a study, otherwise a Python snippet."""
    command = "" if study is None else f"vardi fit {shlex.quote(study.name)} -o weights.parquet --report report.html"
    code = command or _code(facts, title, variables)
    return Recipe(code, (*((name, version(name)) for name in PACKAGES), ("Python", platform.python_version())))


def _code(facts: Account, title: str | None, variables: Variables | None, most: int = 60) -> str:
    options = [f"title={title!r}"] if title is not None else []
    if variables is not None:
        are_texts = isinstance(variables, list | tuple) and all(isinstance(name, str) for name in variables)
        options.append(f"variables={list(variables)!r}" if are_texts else "variables=...")
    samples, names = facts.samples, [sample.name for sample in facts.samples]
    extra = ", counts=..." if facts.is_counted else ""
    extra += ", known=known" if facts.known_check is not None else ""
    extra += "".join(f", {what}={column!r}" if column else f", {what}=..." for what, column in facts.named.items())
    extra += ", on_unidentified='largest'" if any(sample.left_out for sample in samples) else ""
    if not facts.biases:
        log, columns = ", log=True" if facts.log else "", ", ".join(map(repr, names[:most]))
        call = f"vardi.debias_matrix(omega, source{log}, names=[{columns}]{extra})"
        sizes = ", ".join(f"{sample.name}: {rows_text(sample.rows)}" for sample in samples[:most])
        rows = [f"# {_one_line(sizes)}"]
    else:
        biases = [
            f"    {name!r}: {str(bias)!r}," if _has_text(bias) else f"    {name!r}: ...,  # {_one_line(bias)}"
            for name, bias in zip(names, facts.biases, strict=True)
        ]
        brought = [
            f"    {sample.name!r}: ...,  # {'left out' if sample.left_out else rows_text(sample.rows)}"
            for sample in samples
            if sample.rows or sample.left_out
        ]
        call, rows = f"vardi.debias(samples, biases{extra})", ["samples = {", *_capped(brought, most), "}"]
        if facts.is_labelled:
            call, rows = f"vardi.debias(rows, biases, source=...{extra})", ["rows = ...  # one frame of all samples"]
        rows += ["biases = {", *_capped(biases, most), "}"]
    report = ", ".join(["fit.report('report.html'", *options])
    return "\n".join(["import vardi", "", *rows, *_known(facts, most), f"fit = {call}", f"{report})"])


def _known(facts: Account, most: int) -> list[str]:
    """Return the known values as code, the shares of a margin on one line."""
    if facts.known_check is None:
        return []
    written: list[str] = []
    lines_of = groupby(facts.known_check.lines, key=lambda line: None if line.margin is None else line.margin[0])
    for margin, lines in lines_of:
        values = [
            (line, f"({line.known!r}, {line.known_stderr!r})" if line.known_stderr else f"{line.known!r}")
            for line in lines
        ]
        if margin is None:
            written += [f"    {line.label!r}: {value}," for line, value in values]
        else:
            shares = ", ".join(f"{line.margin[1]!r}: {value}" for line, value in values if line.margin is not None)
            written.append(f"    {margin!r}: {{{shares}}},")
    return ["known = {", *_capped(written, most), "}"]


def _has_text(bias: Bias) -> bool:
    """Return whether the text of a bias can be parsed again."""
    if isinstance(bias, ParametricBias):
        return _has_text(bias.known) and not isinstance(bias.family, FunctionFamily)
    return isinstance(bias, ExpressionBias)


def _capped(lines: Sequence[str], most: int) -> list[str]:
    more = len(lines) - most
    return [*lines[:most], *([f"    # and {more} more"] if more > 0 else [])]


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


@dataclass(frozen=True)
class Fingerprint:
    """The SHA-256 of the rows, and the columns that it covers; empty if it was not computed."""

    digest: str = ""
    columns: tuple[str, ...] = ()


def fingerprint(pool: Pool, columns: Sequence[str], rows: int = 50_000) -> Fingerprint:
    """Return the SHA-256 of the samples' names, and of label, count and some columns of every row, in their order.

    It does not depend on the library that holds the rows: numbers and conditions are hashed as 64-bit floats, times as
    microseconds, texts and dates as UTF-8, and all missing values among these alike. The texts of so many ``rows`` are
    put together at once. A matrix of biases has no rows to hash, and those of an engine would all have to come here.
    """
    if not pool.frames:
        return Fingerprint()
    digest = hashlib.sha256()
    for name in pool.names:
        digest.update(_text(str(name)))
    digest.update(_numbers(pool.source, "<i8"))
    if pool.is_counted:
        digest.update(_numbers(pool.counts, "<f8"))
    everywhere = [set(frame.columns) for frame in pool.frames]
    hashed = tuple(name for name in columns if all(name in names for names in everywhere) and name not in pool.mixed)
    for name in hashed:
        digest.update(_text(name))
        if all(frame.is_text(name) for frame in pool.frames):
            for frame in pool.frames:
                for part in _coded_bytes(*frame.coded(name), rows):
                    digest.update(part)
        else:
            digest.update(_bytes(pool.column(name)))
    return Fingerprint(digest.hexdigest(), hashed)


def _bytes(array: np.ndarray) -> memoryview | bytes:
    if array.dtype.kind in "biuf":
        return _numbers(array, "<f8")
    if array.dtype.kind in "mM" and np.datetime_data(array.dtype)[0] != "D":
        return _numbers(array.astype(f"{array.dtype.kind}8[us]").view("i8"), "<i8")
    return b"".join(map(_value, array.tolist()))


def _coded_bytes(codes: Integers, values: Sequence[object], rows: int) -> Iterator[bytes]:
    """Give the bytes of texts, so many rows at once, from the different ones and which of these each row has."""
    texts = list(map(_value, values))
    for low in range(0, len(codes), rows):
        yield b"".join(map(texts.__getitem__, codes[low : low + rows].tolist()))


def _numbers(array: np.ndarray, dtype: str) -> memoryview:
    return np.ascontiguousarray(array, dtype).data


def _value(value: object) -> bytes:
    return _text(MISSING if is_missing(value) else str(value))


def _text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass") + b"\0"

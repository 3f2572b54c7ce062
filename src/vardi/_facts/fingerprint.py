"""A hash that identifies the data of a fit: the same rows have the same hash on any machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vardi._inputs.pool import Pool
from vardi._types import Integers
from vardi.biases._values import is_missing

MISSING = "\1"  # which no text is


@dataclass(frozen=True)
class Fingerprint:
    """The SHA-256 of the rows, and the columns that it covers; empty if it was not computed."""

    digest: str = ""
    columns: tuple[str, ...] = ()


def fingerprint(pool: Pool, columns: Sequence[str], rows: int = 50_000) -> Fingerprint:
    """Return the SHA-256 of the samples' names, and of label, count and some columns of every row, in their order.

    It does not depend on the library that holds the rows: numbers and conditions are hashed as 64-bit floats, times as
    microseconds, texts and dates as UTF-8, and all missing values among these alike. The texts of so many ``rows`` are
    put together at once.
    """
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

"""A hash of a seed and of whole numbers, in arithmetic that gives the same for arrays and for engines' expressions.

All numbers stay below 2^53, so engines without 64-bit integers get the same result.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from vardi._types import Integers

PRIME = 67_108_859  # the largest prime below 2^26, so squares are whole numbers below 2^53
ROUNDS = 8

Number = TypeVar("Number", bound=Any)  # an array of whole numbers, or a narwhals expression


def constants(seed: Any, *key: int, rounds: int = ROUNDS) -> list[int]:
    """Return the constants that the rounds of a hash add, different for each key."""
    state = np.random.SeedSequence(seed, spawn_key=key).generate_state(rounds)
    found: list[int] = (state % PRIME).tolist()
    return found


def feistel(left: Number, right: Number, constant: int) -> tuple[Number, Number]:
    """Return a round of a Feistel network: (l, r) -> (r, l + (r + constant)^2), all modulo the prime."""
    moved = (right + constant) % PRIME
    return right, (left + moved * moved) % PRIME


def hashed_numbers(numbers: Integers, seed: Any, place: int) -> tuple[Integers, Integers]:
    """Return the two halves of the hash of whole numbers, each below the prime."""
    size = np.abs(numbers)
    left, right = size % PRIME, (size // PRIME * 2 + (numbers < 0)) % PRIME
    for constant in constants(seed, place):
        left, right = feistel(left, right, constant)
    return left, right

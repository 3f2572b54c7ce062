"""How many distinct rows may be brought into memory."""

from __future__ import annotations

from vardi._machine.memory import available_memory

FRACTION = 0.25  # of the memory that is available, since the engine and the user's own data need theirs
COPIES = 6  # of a cell's numbers: the engine's table, its result, our matrix, its scaled copy, and two for the way


def most_cells(columns: int) -> int:
    """Return how many distinct rows of so many biases are brought into memory at most.

    A quarter of the memory that is available now, over what a cell needs: 8 bytes for each bias, its count, its label
    and its hash, six times, since the engine's table, its answer, our matrix and its scaled copy are there at once.
    With 16 GB available and three biases that is 14 million.
    """
    return max(int(FRACTION * available_memory() / (8 * (columns + 3) * COPIES)), 1)

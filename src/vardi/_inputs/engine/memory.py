"""How many distinct rows may be brought into memory."""

from __future__ import annotations

from vardi._machine.memory import available_memory

FRACTION = 0.25  # of available memory, since the engine and the user's own data need some too
COPIES = 6  # of a cell's numbers: the engine's table, its result, our matrix, its scaled copy, and two in transit


def most_cells(columns: int) -> int:
    """Return how many distinct rows, with this many columns, are brought into memory at most.

    A quarter of the memory available now, over what a cell needs: 8 bytes for each column, its count, its label and its
    hash, six times, since the engine's table, its answer, our matrix and its scaled copy coexist. With 16 GB available
    and three columns that is 14 million.
    """
    return max(int(FRACTION * available_memory() / (8 * (columns + 3) * COPIES)), 1)

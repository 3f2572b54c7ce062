"""The order of the gallery: house prices first, as all pages begin with them; then by name."""

from __future__ import annotations

FIRST = "house_prices.py"


class HousePricesFirst:
    """Sort key of file names."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[bool, str]:
        """Return the key of a file."""
        return name != FIRST, name

    def __repr__(self) -> str:
        return "HousePricesFirst"

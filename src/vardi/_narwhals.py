"""narwhals, loaded when a name of it is first used: importing vardi, and columns of numbers, need none of it."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    found = getattr(import_module("narwhals"), name)
    globals()[name] = found
    return found

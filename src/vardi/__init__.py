"""K biased samples of one population in, one debiased sample out.

Nothing is loaded before it is asked for: the stub beside this file lists the public names with their modules.
"""

import ast
from importlib import import_module
from typing import Any


def _modules() -> dict[str, str]:
    """Return the module of each public name, as the stub has them."""
    stub = ast.parse(__spec__.loader.get_data(f"{__file__}i"))  # type: ignore[union-attr]
    return {
        alias.name: f"vardi.{alias.name}" if node.module == "vardi" else str(node.module)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


_MODULES = _modules()
_COMMAND_LINE = ("report", "study")  # modules behind it, which are no part of the public surface
__all__ = sorted(_MODULES)  # noqa: PLE0605 (names are in the stub)


def __getattr__(name: str) -> Any:
    """Load a public name."""
    if name == "__version__":
        from importlib.metadata import version

        return version("vardi")
    if name in _COMMAND_LINE:
        return import_module(f"vardi.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'vardi' has no attribute {name!r}")
    module = import_module(_MODULES[name])
    found = module if module.__name__ == f"vardi.{name}" else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

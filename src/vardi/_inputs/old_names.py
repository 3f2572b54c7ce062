"""Names of earlier versions: each raises an error that shows what to write now, with the user's own values."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from vardi.biases import Bias
from vardi.errors import RenamedError

P = ParamSpec("P")
R = TypeVar("R")

LONGEST = 300  # letters after which values are no longer written out


def shares_argument(given: Any) -> RenamedError:
    """Return the error for ``shares=``, which is now ``known=``.

    Examples
    --------
    >>> print(shares_argument({"north": 0.25}))
    shares= is now known=, which takes means and errors too. Write known={'north': 0.25}. The name of a sample stands
    for the mean of its bias: for a condition that is the share, for 2 * (x <= 5) twice the share.
    """
    return RenamedError(
        f"shares= is now known=, which takes means and errors too. Write known={_written(given)}. The name of a sample "
        "stands for the mean of its bias: for a condition that is the share, for 2 * (x <= 5) twice the share.",
        expected=("known",),
        got=("shares",),
    )


def answering_shares(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that raises the error for ``shares=``, which it does not take."""

    @wraps(function)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        if "shares" in kwargs:
            raise shares_argument(kwargs["shares"])
        return function(*args, **kwargs)

    return asked


def shares_attribute() -> RenamedError:
    """Return the error for ``fit.shares``, which is now ``fit.known``."""
    return RenamedError(
        "fit.shares is now fit.known: what was known of the population, given as known={...}, next to what the samples "
        "imply. Write fit.known.",
        expected=("known",),
        got=("shares",),
    )


def _written(given: Any) -> str:
    """Return a mapping as Python code, cut if it is too long."""
    if not hasattr(given, "items"):
        return "{...}"
    items: list[str] = []
    for key, value in given.items():
        items.append(f"{_key(key)}: {_written(value) if hasattr(value, 'items') else _value(value)}")
        if sum(map(len, items)) > LONGEST:
            items.append("...")
            break
    return f"{{{', '.join(items)}}}"


def _key(key: Any) -> str:
    return f"vardi.{key!r}" if isinstance(key, Bias) else _value(key)


def _value(value: Any) -> str:
    return repr(value.item() if hasattr(value, "item") and not getattr(value, "shape", None) else value)

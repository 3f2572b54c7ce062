"""The language of biases: text such as ``price <= 22 and region in ('N', 'W')``, as values that can be compared.

`parse` reads it, `to_text` writes it, `vardi._expressions.compile` turns it into a narwhals expression or an array.
"""

from vardi._expressions.nodes import (
    Constant,
    Node,
    columns,
    is_condition,
    to_text,
)
from vardi._expressions.parse import parse

__all__ = ["Constant", "Node", "columns", "is_condition", "parse", "to_text"]

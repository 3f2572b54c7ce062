"""The language of biases: text such as ``price <= 22 and region in ('N', 'W')``, as values that can be compared.

`parse` reads it, `to_text` writes it, `compile` turns it into a narwhals expression or an array.
"""

from vardi.biases._expressions.nodes import Constant, Node, columns, is_condition, to_text
from vardi.biases._expressions.parse import parse

__all__ = ["Constant", "Node", "columns", "is_condition", "parse", "to_text"]

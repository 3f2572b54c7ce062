"""Text to nodes and biases, by Python's own parser: only what is on a white list passes, and nothing is evaluated."""

from __future__ import annotations

import ast
import codecs
import re
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import pairwise

from vardi.biases._kinds import Bias, ExpressionBias, ParametricBias, WindowBias
from vardi.biases._learned import LearnedBias
from vardi.biases._nodes import (
    CHAINS,
    FAMILIES,
    FUNCTIONS,
    Call,
    Cells,
    Column,
    Comparison,
    Constant,
    ExpressionFamily,
    IsIn,
    IsMissing,
    Node,
    Not,
    Power,
    arithmetic,
    is_condition,
    is_text,
    junction,
    negative,
    to_text,
)
from vardi.errors import ExpressionError, InvalidBiasError, suggest
from vardi.errors._texts import shortened

WITH_PARAMETERS = (*FAMILIES, "cells")
OF_ROWS = {  # biases that the rows themselves determine, and what they take
    "learned": "the columns that the selection may depend on, such as learned(age, region)",
    "window": "the column of the value and the two ends of its window, None for one that is open, such as "
    "window(age, entry, None)",
}
WORDS = frozenset(("and", "or", "not", "in", "is", "missing"))  # words of the language itself
MAX_LENGTH = 100_000
MAX_DEPTH = 50
MAX_TERMS = 2_500  # of a sum or a product; Python's own parsers stop at 2,900 or later, each version elsewhere
TOO_DEEP = f"The expression is nested more than {MAX_DEPTH} deep. Split it up."
TOO_LONG = "The expression is too long or too deeply nested. Split it up."
ALLOWED = (
    "An expression may contain numbers, strings, True, False, column names, comparisons, and, or, not, in (...), "
    f"is missing, + - * / ** and the functions {', '.join(sorted(FUNCTIONS))}."
)

_ARITHMETIC: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
_COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


def parse(text: str) -> Node:
    """Read an expression; raise `ExpressionError` with the position of what is refused.

    Column names that are not plain words go in backticks, with a backtick in a name written twice.

    Examples
    --------
    >>> from vardi.biases._parse import parse, to_text
    >>> to_text(parse("20<=age<60 and `education-num` not in [1,2]"))
    '20 <= age < 60 and `education-num` not in (1, 2)'
    """
    reading = _Reading(text)
    return reading.whole(reading.tree())


def parse_bias(text: str) -> Bias:
    """Read an expression that may have a bias with parameters, or one that rows determine, among its factors.

    Examples
    --------
    >>> from vardi.biases._parse import parse_bias
    >>> bias = parse_bias("(age > 20) * logistic(age, log(income))")
    >>> str(bias.known), str(bias.family), bias.names
    ('age > 20', 'logistic(age, log(income))', ('intercept', 'age', 'log(income)'))
    """
    return _Reading(text).bias()


# The parts of a text. Each is checked before Python's parser sees anything.
_PART = re.compile(
    r"""(?P<space>\s+)
    | `(?P<name>(?:[^`]|``)*)`
    | (?P<string>'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*")
    | (?P<number>(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<sign>==|<=|>=|!=|:=|//|<<|>>|\*\*|&&|\|\||.)""",
    re.VERBOSE | re.DOTALL,
)
_SIGNS = {"==", "<=", ">=", "!=", "<", ">", "+", "-", "*", "/", "**", "(", ")", "[", "]", "{", "}", ","}
_HINTS = {
    "=": "To compare, use ==.",
    **dict.fromkeys(("&", "|", "&&", "||"), "To join conditions, use and / or."),
    **dict.fromkeys("~!", "To negate a condition, use not."),
    "^": "For a power, use **.",
    "`": "A column name in backticks is not closed.",
    **dict.fromkeys("'\"", "A string is not closed."),
    ".": "Attributes cannot be read; put a column name with a dot in backticks.",
}
_ESCAPE = re.compile(
    r"\\(?:['\"\\nrt]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4}|(?P<unknown>U[0-9a-fA-F]{8}|.))",
    re.DOTALL,
)


class _Reading:
    """One reading of one text: its parts, then its syntax tree, then its nodes."""

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > MAX_LENGTH:
            message = f"The expression has {len(text):,} characters, but at most {MAX_LENGTH:,} are allowed. "
            raise ExpressionError(f"{message}Split it up.", text=_printable(text[:60]) + "...", offset=60)
        if not text.strip():
            raise ExpressionError("The expression is empty. For a sample without bias write 1.", text="", offset=0)
        if text.lstrip().startswith("<") and text.rstrip().endswith(">"):
            raise self._refusal(
                "This is how a function, an array or a Polars or narwhals expression is displayed, and it cannot be "
                "read back. Write the bias as text, such as price <= 22.",
                text.index("<"),
            )
        # names in backticks and texts, from start to end: Python's parser sees only underscores of the same length
        self.spans: dict[tuple[int, int], str] = {}

    def bias(self) -> Bias:
        tree = self.tree()
        first, rest = _spine(tree, {ast.Mult: "*"})
        factors = [first, *(factor for _, factor in reversed(rest))]
        calls = [factor for factor in factors if isinstance(factor, ast.Call)]
        families = [call for call in calls if self._written(call.func) in (*WITH_PARAMETERS, *OF_ROWS)]
        if not families:
            return ExpressionBias(self.whole(tree))
        if len(families) > 1:
            both = all(self._written(family.func) in WITH_PARAMETERS for family in families)
            what = "with parameters" if both else f"such as {self._written(families[0])}"
            raise self._refusal(f"A bias can have only one factor {what}, and this is a second.", families[1])
        known = [self._number(factor, 0) for factor in factors if factor is not families[0]]
        bias = self._family(families[0])
        return ExpressionBias(reduce(lambda left, right: arithmetic(left, "*", right), known)) * bias if known else bias

    def tree(self) -> ast.expr:
        source = self._source()
        self.lead = len(source) - len(source.lstrip())
        source = source.strip()
        try:
            return ast.parse(source, mode="eval").body
        except SyntaxError as error:
            upper = re.search(r"\b(AND|OR|NOT|IN|IS)\b", source)
            hint = " Write and, or, not, in, is in lower case." if upper else ""
            pairs = re.finditer(r"(?=\b([^\W\d]\w*) +([^\W\d]\w*))", source)
            names = [slice(pair.start(1), pair.end(2)) for pair in pairs if WORDS.isdisjoint(pair.groups())]
            if names:
                name = " ".join(self.text[self.lead :][names[0]].split())
                hint += f" Put a name of several words in backticks: `{name}`."
            reason = f"This cannot be read as an expression: {error.msg}.{hint}"
            raise self._refusal(reason, min(self.lead + max((error.offset or 1) - 1, 0), len(self.text))) from None
        except (RecursionError, MemoryError, ValueError):
            raise self._refusal(TOO_LONG, 0) from None

    def whole(self, tree: ast.expr) -> Node:
        node = self._node(tree, 0)
        if is_text(node):
            raise self._refusal(
                "A bias is a number or a condition, but this is a string. Compare it with a column.", tree
            )
        return node

    def _source(self) -> str:
        """Return the source for Python's parser: a text of the same length, with names and strings hidden."""
        parts = []
        prefixes = 0  # in a row, each one level deeper
        for match in _PART.finditer(self.text):
            kind, part, start = match.lastgroup, match.group(), match.start()
            if kind != "space":
                prefixes = prefixes + 1 if part in ("-", "+", "not") else 0
            if prefixes > MAX_DEPTH + 1:
                raise self._refusal(TOO_DEEP, start)
            if kind == "space":
                part = " " * len(part)
            elif kind == "name":
                self.spans[match.span()] = match["name"].replace("``", "`")
                part = "_" * len(part)
            elif kind == "word" and part.isidentifier() and not part.isascii():
                part = "_" * len(part)  # positions in the tree are bytes
            elif kind == "string":
                self.spans[match.span()] = self._unescape(part[1:-1], start + 1)
                part = "'" + "_" * (len(part) - 2) + "'"
            elif kind == "number" and re.match(r"\w", self.text[match.end() : match.end() + 1]):
                raise self._refusal(
                    "A number is followed by a letter. Numbers are decimal, such as 12, 0.5 or 1e-3.", start
                )
            elif kind == "number" and len(part) > 400:
                raise self._refusal(f"A number has {len(part):,} digits, but at most 400 are allowed.", start)
            elif kind == "sign" and part not in _SIGNS:
                hint = _HINTS.get(part, ALLOWED)
                raise self._refusal(f"{part!r} is not in the language of biases. {hint}", start)
            parts.append(part)
        return "".join(parts)

    def _unescape(self, body: str, start: int) -> str:
        for match in _ESCAPE.finditer(body):
            if match["unknown"]:
                raise self._refusal(
                    f"The escape {match.group()} is not known. For a backslash write two.", start + match.start()
                )
        return codecs.unicode_escape_decode(body.encode("latin-1", "backslashreplace"))[0]  # imports no codec

    def _node(self, tree: ast.expr, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self._refusal(TOO_DEEP, tree)
        match tree:
            case ast.Constant():
                return self._constant(tree)
            case ast.Name():
                return self._column(tree)
            case ast.BoolOp(op, operands):
                terms = [self._condition(operand, depth) for operand in operands]
                return junction("and" if isinstance(op, ast.And) else "or", terms)
            case ast.UnaryOp(ast.Not(), operand):
                return Not(self._condition(operand, depth))
            case ast.UnaryOp(ast.USub(), operand):
                return negative(self._number(operand, depth))
            case ast.UnaryOp(ast.UAdd(), operand):
                return self._number(operand, depth)
            case ast.BinOp(_, op, _) if type(op) in _ARITHMETIC:
                return self._arithmetic(tree, depth)
            case ast.Compare(left, [ast.In() | ast.NotIn() as op], [right]):
                member = IsIn(self._node(left, depth + 1), self._values(right, depth))
                self._same_kind(right, [member.operand, *member.values])
                return member if isinstance(op, ast.In) else Not(member)
            case ast.Compare(left, [ast.Is() | ast.IsNot() as op], [right]):
                missing = self._is_missing(left, right)
                return missing if isinstance(op, ast.Is) else Not(missing)
            case ast.Compare():
                return self._comparison(tree, depth)
            case ast.Call(ast.Name(), arguments, []):
                return self._call(tree, arguments, depth)
            case ast.Tuple() if grouped := re.search(r"\d{1,3}(,\d{3})+(?!\d)", self.text):
                raise self._refusal(f"A number has no commas: write {grouped.group().replace(',', '')}.", tree)
            case _:
                raise self._refusal(f"{_describe(tree)} is not in the language of biases. {ALLOWED}", tree)

    def _constant(self, tree: ast.Constant) -> Constant:
        if tree.value is None:
            raise self._refusal(
                "None is not in the language of biases. For missing values write: column is missing.", tree
            )
        value = self.spans.get(self._ends(tree)) if isinstance(tree.value, str) else tree.value
        if value is None:
            raise self._refusal(
                "A string is written in one pair of quotes, without a prefix. Is a comma missing?", tree
            )
        if not isinstance(value, bool | int | float | str):
            raise self._refusal(f"A constant of type {type(value).__name__} is not allowed. {ALLOWED}", tree)
        try:
            return Constant(value)
        except InvalidBiasError as error:
            raise self._refusal(str(error), tree) from None

    def _column(self, tree: ast.Name) -> Column:
        name = self.spans.get(self._ends(tree))
        if name is not None:
            return Column(name)
        name = self._written(tree)  # since the tree has it normalised
        if "`" in name:
            raise self._refusal("A column name in backticks needs spaces around it.", tree)
        if name == "missing":
            raise self._refusal(
                "missing goes after is: write column is missing. Put a column of that name in backticks.", tree
            )
        return Column(name)

    def _condition(self, tree: ast.expr, depth: int) -> Node:
        node = self._node(tree, depth + 1)
        if is_condition(node) is False:
            raise self._refusal(
                f"and, or, not join conditions, but {_short(node)} is not one. Compare it with something.", tree
            )
        return node

    def _number(self, tree: ast.expr, depth: int) -> Node:
        node = self._node(tree, depth + 1)
        if is_text(node):
            raise self._refusal(f"The string {_short(node)} is used where a number is needed.", tree)
        return node

    def _arithmetic(self, tree: ast.BinOp, depth: int) -> Node:
        left, spine = _spine(tree, _ARITHMETIC)
        if len(spine) >= MAX_TERMS:
            raise self._refusal(TOO_LONG, tree)
        chains = [CHAINS[sign] for sign, _ in spine]
        depth += sum(low != high or high is Power for low, high in pairwise(chains))
        node = self._number(left, depth)
        for sign, right in reversed(spine):
            node = arithmetic(node, sign, self._number(right, depth))
        return node

    def _comparison(self, tree: ast.Compare, depth: int) -> Node:
        places = [tree.left, *tree.comparators]
        for op in tree.ops:
            if type(op) not in _COMPARISONS:
                raise self._refusal(
                    "in and is cannot be part of a chain of comparisons. Join the parts with and.", tree
                )
        for place in places:
            if self._written(place) in ("missing", "None"):
                other = self._written(next((other for other in places if other is not place), place))
                raise self._refusal(f"A missing value equals nothing. Write {other} is missing.", place)
        operands = [self._node(place, depth + 1) for place in places]
        for place, pair in zip(places, pairwise(operands), strict=False):
            self._same_kind(place, pair)
        signs = [_COMPARISONS[type(op)] for op in tree.ops]
        return Comparison(operands[0], tuple(zip(signs, operands[1:], strict=True)))

    def _same_kind(self, tree: ast.expr, nodes: tuple[Node, ...] | list[Node]) -> None:
        texts = [node for node in nodes if is_text(node)]
        others = [node for node in nodes if not is_text(node) and not isinstance(node, Column)]
        if texts and others:
            raise self._refusal(
                f"The string {_short(texts[0])} cannot be compared with the number {_short(others[0])}.", tree
            )

    def _values(self, tree: ast.expr, depth: int) -> tuple[Constant, ...]:
        if not isinstance(tree, ast.Tuple | ast.List | ast.Set):
            raise self._refusal("in needs a list of constants, such as ('N', 'W') or ['N'].", tree)
        if not tree.elts:
            raise self._refusal("The list after in is empty, so nothing can be in it. Give at least one value.", tree)
        values = []
        for element in tree.elts:
            value = self._node(element, depth + 1) if not isinstance(element, ast.Starred) else None
            if not isinstance(value, Constant):
                raise self._refusal("The list after in may hold only constants.", element)
            values.append(value)
        return tuple(values)

    def _is_missing(self, left: ast.expr, right: ast.expr) -> IsMissing:
        if self._written(right) != "missing":
            name = self._written(left)
            raise self._refusal(
                f"is can only be followed by missing: write {name} is missing, or == to compare.", right
            )
        if not isinstance(left, ast.Name):
            raise self._refusal("Only a column can be tested for missing values.", left)
        return IsMissing(self._column(left))

    def _call(self, tree: ast.Call, arguments: list[ast.expr], depth: int) -> Call:
        name = self._written(tree.func)
        if name in WITH_PARAMETERS or name in OF_ROWS:
            what = "has parameters that are yet to be estimated" if name in WITH_PARAMETERS else "is a bias of its own"
            raise self._refusal(f"{name}(...) {what}, so it can only stand alone or be a factor.", tree.func)
        if name not in FUNCTIONS:
            known = ", ".join(sorted(FUNCTIONS))
            families = ", ".join(sorted(WITH_PARAMETERS))
            raise self._refusal(
                f"There is no function {name}. The functions are {known}, and the biases with parameters {families}."
                f"{suggest(name, (*FUNCTIONS, *WITH_PARAMETERS))}",
                tree.func,
            )
        least = FUNCTIONS[name]
        if len(arguments) < least or (least == 1 and len(arguments) > 1):
            wanted = "one argument" if least == 1 else "two or more arguments"
            raise self._refusal(f"{name} takes {wanted}, but {len(arguments)} were given.", tree.func)
        return Call(name, tuple(self._number(argument, depth) for argument in arguments))

    def _family(self, tree: ast.Call) -> Bias:
        name = self._written(tree.func)
        if name in OF_ROWS:
            terms = [None if self._written(term) == "None" else self._number(term, 1) for term in tree.args]
            return _of_rows(name, terms)
        try:
            crossed = name == "cells"
            family = Cells(tuple(map(self._group, tree.args))) if crossed else self._curve(tree, name)
            return ParametricBias(family)
        except InvalidBiasError as error:
            raise self._refusal(str(error), tree.func) from None

    def _curve(self, tree: ast.Call, kind: str) -> ExpressionFamily:
        terms, cuts = list(tree.args), tuple[float, ...]()
        if kind == "steps":
            if len(terms) != 2:
                raise self._refusal("steps takes a column and its cuts, such as steps(age, [30, 60]).", tree.func)
            cuts = self._cuts(terms.pop())
        return ExpressionFamily(kind, tuple(self._number(term, 1) for term in terms), cuts)

    def _group(self, tree: ast.expr) -> tuple[Node, ...]:
        """Return the columns that cells crosses: several in parentheses, or a single one."""
        crossed = tree.elts if isinstance(tree, ast.Tuple | ast.List) else [tree]
        return tuple(self._number(term, 1) for term in crossed)

    def _cuts(self, tree: ast.expr) -> tuple[float, ...]:
        if not isinstance(tree, ast.Tuple | ast.List):
            raise self._refusal("The cuts of steps must be a list of numbers, such as [30, 60].", tree)
        cuts = [node.value if isinstance(node := self._number(cut, 1), Constant) else None for cut in tree.elts]
        if any(cut is None or isinstance(cut, bool | str) for cut in cuts):
            raise self._refusal("The cuts of steps must be numbers.", tree)
        return tuple(cut for cut in cuts if isinstance(cut, int | float))

    def _ends(self, tree: ast.expr) -> tuple[int, int]:
        return self.lead + tree.col_offset, self.lead + (tree.end_col_offset or 0)

    def _written(self, tree: ast.expr) -> str:
        return self.text[slice(*self._ends(tree))]

    def _refusal(self, message: str, place: ast.expr | int) -> ExpressionError:
        offset = place if isinstance(place, int) else self._ends(place)[0]
        return ExpressionError(message, text=_printable(self.text), offset=offset)


def _of_rows(kind: str, arguments: Sequence[Node | None]) -> Bias:
    """Return a bias that is determined by the rows; raise if its arguments are invalid."""
    if kind == "window" and len(arguments) in (3, 4) and arguments[0] is not None:
        for end in arguments[1:3]:
            if isinstance(end, Constant) and isinstance(end.value, bool | str):
                raise InvalidBiasError(f"An end of a window is a column or a number, not {end.value!r}.")
        return WindowBias(arguments[0], *arguments[1:])
    columns = tuple(argument.name for argument in arguments if isinstance(argument, Column))
    if kind == "learned" and len(columns) == len(arguments):
        return LearnedBias(columns)
    raise InvalidBiasError(f"{kind} takes {OF_ROWS[kind]}.")


def _spine(tree: ast.expr, signs: Mapping[type[ast.operator], str]) -> tuple[ast.expr, list[tuple[str, ast.expr]]]:
    """Return the first operand of a chain, and the others with their signs, the last first.

    A long chain is a deep tree on its left side only, so it is walked down without recursion.
    """
    rest = []
    while isinstance(tree, ast.BinOp) and type(tree.op) in signs:
        rest.append((signs[type(tree.op)], tree.right))
        tree = tree.left
    return tree, rest


def _printable(text: str) -> str:
    """Return the text on one line, keeping the position of each letter."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _short(node: Node) -> str:
    return shortened(to_text(node), 40)


def _describe(tree: ast.expr) -> str:
    names = {
        ast.Attribute: "Reading an attribute",
        ast.Call: "Such a call",
        ast.Dict: "A dictionary",
        ast.IfExp: "if ... else",
        ast.JoinedStr: "An f-string",
        ast.Lambda: "A lambda",
        ast.List: "A list that does not follow in",
        ast.Set: "A set that does not follow in",
        ast.Starred: "A star before a name",
        ast.Subscript: "A subscript",
        ast.Tuple: "A comma outside a list",
    }
    return names.get(type(tree), f"A {type(tree).__name__}")

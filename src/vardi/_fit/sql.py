"""The weight as SQL: written by DuckDB, and translated by sqlglot for other databases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import narwhals as nw

from vardi._inputs.column_types import dtype_of
from vardi._inputs.lazy_survey import quoted
from vardi.errors import MismatchError, suggest
from vardi.errors._texts import show

if TYPE_CHECKING:
    from vardi._fit.weigher import Weigher

Dialect: TypeAlias = Literal["duckdb", "postgres", "bigquery", "snowflake", "spark", "sqlite"]

KINDS = {"Boolean": "BOOLEAN", "Date": "DATE", "Datetime": "TIMESTAMP", "String": "VARCHAR", "Categorical": "VARCHAR"}


def to_sql(weigher: Weigher, table: str, dialect: Dialect, name: str, fit: str) -> str:
    """Return a query of a table with a column of weights, and a comment that says of which fit."""
    if dialect not in get_args(Dialect):
        raise MismatchError(
            f"There is no dialect {dialect!r}. The dialects are {show(get_args(Dialect))}."
            f"{suggest(dialect, get_args(Dialect))}"
        )
    weight, column = _in_duckdb(weigher), quoted(name)
    if dialect != "duckdb":
        identifier = _package("sqlglot").to_identifier(name, quoted=True)
        weight, column = _translated(weight, dialect, weigher), identifier.sql(dialect)
    from vardi import __version__

    pairs = zip(weigher.names, weigher.sizes.tolist(), strict=True)
    samples = [f"{str(one)!r} ({size:,.0f} rows)" for one, size in pairs if size]
    of = ", ".join(samples[:10]) + (f" and {len(samples) - 10} more" if len(samples) > 10 else "")
    return (
        f"-- {name!r}: 1 / (how often such a row is drawn), with mean 1 over the rows of the fit;\n"
        "-- NULL where no sample could have drawn a row, or a value that decides it is missing.\n"
        f"-- By vardi {__version__} from {of}; fit {fit}.\n"
        f"SELECT\n  *,\n  {weight} AS {column}\nFROM {table}\n"
    )


def _in_duckdb(weigher: Weigher) -> str:
    """Return the weight as DuckDB writes it, on an empty table with the columns that are read."""
    kinds = {name: _kind(text) for name, text in weigher.schema.items()} or {"nothing": "DOUBLE"}
    connection = _package("duckdb").connect(":memory:")
    connection.execute(f"CREATE TABLE t ({', '.join(f'{quoted(name)} {kind}' for name, kind in kinds.items())})")
    frame: Any = nw.from_native(connection.table("t"))
    text: str = frame.select(w=weigher.expression_on(frame.collect_schema())).to_native().sql_query()
    return text.removeprefix("SELECT ").rpartition(" AS w FROM ")[0].replace("CASE  WHEN", "CASE WHEN")


def _kind(text: str) -> str:
    if text.startswith("Datetime["):
        return "TIMESTAMPTZ"
    return KINDS.get(text, "BIGINT" if dtype_of(text).is_integer() else "DOUBLE")


def _translated(text: str, dialect: Dialect, weigher: Weigher) -> str:
    """Return an expression of DuckDB in another dialect, without what only DuckDB has."""
    exp = _package("sqlglot").exp
    booleans = {name for name, kind in weigher.schema.items() if kind == "Boolean"}

    def is_condition(node: Any) -> bool:
        node = node.unnest()
        if isinstance(node, exp.Column):
            return node.name in booleans
        return isinstance(node, exp.Predicate | exp.Connector | exp.Not | exp.Boolean)

    def portable(node: Any) -> Any:
        match node:
            case exp.IsNan() if dialect == "sqlite":  # which has no NaN
                return exp.false()
            case exp.IsNan() if dialect in ("postgres", "snowflake"):
                return exp.EQ(this=node.this, expression=exp.cast(exp.Literal.string("NaN"), "double"))
            case exp.Contains() | exp.ArrayContains() if isinstance(node.this, exp.Array):
                return exp.In(this=node.expression, expressions=node.this.expressions)
            case exp.Literal() if node.this == "1e1000":  # what DuckDB writes for infinity
                return exp.Literal.number("1e308")
            case exp.Cast() if is_condition(node.this):  # no number in most databases
                one, zero = exp.Literal.number("1.0"), exp.Literal.number("0.0")
                return exp.Case(ifs=[exp.If(this=node.this.unnest(), true=one)], default=zero)
        return node

    tree = _package("sqlglot").parse_one(text, read="duckdb")
    for node in reversed(list(tree.walk())):  # the inner ones first
        if (other := portable(node)) is not node:
            node.replace(other)
    return str(tree.sql(dialect))


def _package(name: Literal["duckdb", "sqlglot"]) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"SQL is written by {name}. Install it with: pip install 'vardi[sql]'", name=name) from error

"""Many frames of one engine as one, for queries that have terms for each pair of samples."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import narwhals as nw

from vardi._inputs.engines import LazyFrame, answering, schema_of
from vardi._inputs.lazy_part import PREFIX, Part
from vardi._inputs.partitions import stacked
from vardi._rows.lazy_functions import EngineFunction
from vardi.biases._nodes import columns
from vardi.errors import EngineError

MANY = 8  # frames from which they are asked together; fewer are asked one by one, so that errors name the sample
OF_SAMPLE = f"{PREFIX}of_sample"


def united(parts: Sequence[Part], functions: Sequence[EngineFunction] = ()) -> Sequence[Part]:
    """Return the frames of many samples as one frame of numbers with a label; as they are where they cannot be joined.

    A query for each of K frames with terms for each pair of samples is written and planned in a time that grows with
    the cube of K; one query of all frames in a time that grows with its square. Columns of the user are left behind,
    apart from functions of them, each under a name of its own, and from those that formulas read.
    """
    if not can_unite(parts):
        return parts
    schemas = [schema_of(part.frame, part.name) for part in parts]
    formulas = parts[0].formulas if all(part.formulas == parts[0].formulas for part in parts) else {}
    read = {name for formula in formulas.values() for name in columns(formula)}
    names = [
        name
        for name in schemas[0]
        if name in read
        or (name.startswith(PREFIX) and all(name in schema and schema[name].is_numeric() for schema in schemas))
    ]
    computed = {function: f"{PREFIX}joined_{j}" for j, function in enumerate(functions)}
    try:
        with answering():
            whole = stacked([_numbers(part, names, computed) for part in parts])
    except EngineError:  # frames of two connections, say, which no query reads together
        return parts
    codes: dict[Hashable, int] = {_code(part): _code(part) for part in parts}
    return (Part(whole, OF_SAMPLE, codes, parts[0].counted, formulas=formulas, computed=computed),)


def can_unite(parts: Sequence[Part]) -> bool:
    """Return whether there are many frames of one engine, each with the rows of one sample."""
    if len(parts) < MANY or any(part.label is not None for part in parts):
        return False
    return len({(part.counted, part.frame.implementation) for part in parts}) == 1


def _numbers(part: Part, names: Sequence[str], computed: Mapping[EngineFunction, str]) -> LazyFrame:
    """Return columns and functions as numbers, and the position of the sample."""
    values = {name: nw.col(name) for name in names} | {name: function(part) for function, name in computed.items()}
    numbers = [value.cast(nw.Float64).alias(name) for name, value in values.items()]
    return part.rows_as_asked.select(*numbers, nw.lit(_code(part), nw.Int64).alias(OF_SAMPLE))


def _code(part: Part) -> int:
    (code,) = part.codes.values()
    return code

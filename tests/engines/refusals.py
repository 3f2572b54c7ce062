"""What every engine refuses, with the same class, the same data and the same words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from engines import Engine

import vardi

X = {"a": {"x": [1.0, 2.0, 3.0]}, "b": {"x": [2.0, 3.0]}}
APART = {"low": {"x": [1.0, 2.0]}, "high": {"x": [7.0, 8.0]}}
GAP = {"a": {"x": [1.0, None, 3.0]}, "b": {"x": [2.0, 3.0]}}
LABELS = {"x": [1.0, 2.0, 3.0, 4.0], "s": ["a", "a", "b", "b"], "n": [1.0, 2.0, 1.0, 2.0]}
HOUSES = {"price": [1.0, 2.0], "region": ["N", "S"], "sold": [True, False]}


@dataclass(frozen=True)
class Refusal:
    """Input that is refused, and how.

    Attributes
    ----------
    rows : dict
        Columns by sample; or, with ``source`` among the options, columns.
    biases : dict
        By name.
    error : type
        Class of the error.
    message : str
        Regular expression that its text has.
    options : dict
        For ``vardi.debias``.
    data : dict
        Attributes of the error.
    """

    rows: dict[Any, Any]
    biases: dict[Any, Any]
    error: type[vardi.VardiError]
    message: str
    options: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)

    def debias(self, engine: Engine) -> vardi.DebiasedSample:
        """Ask for it."""
        if "source" in self.options:
            samples = engine.frame(as_table(self.rows))
        else:
            samples = engine.samples({name: as_table(columns) for name, columns in self.rows.items()})
        return vardi.debias(samples, self.biases, **self.options)


def as_table(columns: dict[str, list[Any]]) -> pa.Table:
    """Return columns as a table; a column without values holds numbers."""
    return pa.table({name: pa.array(values, None if len(values) else pa.float64()) for name, values in columns.items()})


def labelled(**columns: list[Any]) -> dict[str, list[Any]]:
    """Return the labelled rows with some columns changed."""
    return {**LABELS, **columns}


S, N = {"source": "s"}, {"source": "s", "counts": "n"}
EVERYWHERE = {"a": 1, "b": 1}

REFUSALS = {
    "impossible row": Refusal(
        X,
        {"a": "x > 1", "b": 1},
        vardi.ImpossibleRowError,
        "^Sample 'a' holds 1 row that its own bias forbids",
        data={"sample": "a"},
    ),
    "negative bias": Refusal(
        X,
        {"a": "x - 2", "b": 1},
        vardi.InvalidBiasError,
        "^The bias of 'a' is -1.0 at .*finite number, zero or more",
        data={"sample": "a"},
    ),
    "negative bias on rows of another sample": Refusal(
        X, {"a": 1, "b": "x - 1.5"}, vardi.InvalidBiasError, "^The bias of 'b' is -0.5 at ", data={"sample": "b"}
    ),
    "NaN by a root": Refusal(X, {"a": "sqrt(x - 2)", "b": 1}, vardi.InvalidBiasError, "^The bias of 'a' is (?i:nan) "),
    "NaN by a logarithm": Refusal(
        X, {"a": "log(x - 1.5)", "b": 1}, vardi.InvalidBiasError, "^The bias of 'a' is (?i:nan) "
    ),
    "NaN by a power": Refusal(
        X, {"a": "(x - 2) ** 0.5", "b": 1}, vardi.InvalidBiasError, "^The bias of 'a' is (?i:nan) "
    ),
    "infinite bias": Refusal(X, {"a": "exp(1000 * x)", "b": 1}, vardi.InvalidBiasError, "^The bias of 'a' is inf "),
    "quotient by zero": Refusal(  # null in Spark, so NaN in its message
        X, {"a": 1, "b": "1 / (x - 1)"}, vardi.InvalidBiasError, "^The bias of 'b' is (inf|NaN) ", data={"sample": "b"}
    ),
    "condition of NaN": Refusal(
        X,
        {"a": "log(x - 1.5) > -9", "b": 1},
        vardi.InvalidBiasError,
        "^The bias log.* on rows of sample 'a' compares NaN on 1 row",
        data={"sample": "a"},
    ),
    "missing number": Refusal(
        GAP,
        {"a": "x > 0", "b": 1},
        vardi.MissingValuesError,
        r"^The bias x > 0 on rows of sample 'a' is unknown on 1 row, since .*'x' \(1\)\. A missing value is neither",
        data={"columns": {"x": 1}},
    ),
    "missing number in a density": Refusal(
        GAP, {"a": "x", "b": 1}, vardi.MissingValuesError, "^The bias x on rows of sample 'a' is unknown on 1 row"
    ),
    "missing text": Refusal(
        {"a": {"t": ["N", None, None]}, "b": {"t": ["N", "S"]}},
        {"a": "t in ('N', 'S')", "b": 1},
        vardi.MissingValuesError,
        r"is unknown on 2 rows, .*'t' \(2\)",
        data={"columns": {"t": 2}},
    ),
    "missing label": Refusal(
        labelled(s=["a", None, "b", None]),
        EVERYWHERE,
        vardi.MissingValuesError,
        "^No label in 's' for 2 rows, so it is unknown which sample they belong to",
        S,
        {"columns": {"s": 2}},
    ),
    "unknown label": Refusal(
        labelled(s=["a", "bb", "b", "b"]),
        EVERYWHERE,
        vardi.MismatchError,
        r"^Label 'bb' of 's' has no bias\. The labels are .* the biases 'a', 'b'\. Did you mean 'b'\?",
        S,
    ),
    "number as a label": Refusal(
        labelled(s=[0, 1, 2, 1]), {0: 1, 1: 1}, vardi.MismatchError, "^Label '2' of 's' has no bias", S
    ),
    "label of another type": Refusal(
        labelled(s=[0, 1, 0, 1]),
        {"0": 1, "1": 1},
        vardi.MismatchError,
        "^Label '0' of 's' has no bias.* One is a number and the other a string: make them the same",
        S,
    ),
    "counts whose squares are no numbers": Refusal(
        labelled(n=[1e160, 1.0, 1.0, 1.0]), EVERYWHERE, vardi.InvalidCountsError, r"^The counts add up to 1e\+160", N
    ),
    "counts with a fraction": Refusal(
        labelled(n=[1.0, 2.5, 1.0, 1e12]),
        EVERYWHERE,
        vardi.InvalidCountsError,
        r"'a',?( the count)? is 2\.5, which is not a whole number\. .* Design weights, .* are not counts: .* '1 / w",
        N,
    ),
    "negative count": Refusal(
        labelled(n=[1.0, -2.0, 1.0, 1.0]),
        EVERYWHERE,
        vardi.InvalidCountsError,
        r"-2\.0.*A count says how many rows a row stands for, so it is a finite number, zero or more\.",
        N,
    ),
    "infinite count": Refusal(
        labelled(n=[1.0, np.inf, 1.0, 1.0]), EVERYWHERE, vardi.InvalidCountsError, "inf.*A count says", N
    ),
    "missing count": Refusal(
        labelled(n=[1.0, None, 1.0, 1.0]),
        EVERYWHERE,
        vardi.MissingValuesError,
        r"^The counts in 'n' are missing in 1 row\. Fill them in",
        N,
        {"columns": {"n": 1}},
    ),
    "text as a count": Refusal(
        labelled(n=["1", "2", "1", "1"]), EVERYWHERE, vardi.MismatchError, "^counts holds .*, but counts are numbers", N
    ),
    "no count above zero": Refusal(
        labelled(n=[0, 0, 1, 1]), EVERYWHERE, vardi.EmptySampleError, "^No rows in 'a'", N, {"samples": ("a",)}
    ),
    "missing column": Refusal(
        {"a": HOUSES, "b": HOUSES},
        {"a": "pric > 1", "b": 1},
        vardi.MismatchError,
        r"^There is no column 'pric'\. The columns are: price, region, sold\. Did you mean 'price'\?",
    ),
    "missing column of labels": Refusal(
        LABELS, EVERYWHERE, vardi.MismatchError, r"^There is no column 'ss'.* Did you mean 's'\?", {"source": "ss"}
    ),
    "missing column of counts": Refusal(
        LABELS, EVERYWHERE, vardi.MismatchError, "^There is no column 'm'", {"source": "s", "counts": "m"}
    ),
    "text compared with a number": Refusal(
        {"a": HOUSES, "b": HOUSES},
        {"a": "region > 3", "b": 1},
        vardi.MismatchError,
        r"^Column 'region' holds text \(String\), but it is compared with 3\.",
    ),
    "text as a bias": Refusal(
        {"a": HOUSES, "b": HOUSES}, {"a": "region", "b": 1}, vardi.MismatchError, "^Column 'region' holds text"
    ),
    "empty sample": Refusal(
        {"a": {"x": []}, "b": {"x": [2.0]}},
        EVERYWHERE,
        vardi.EmptySampleError,
        r"^No rows in 'a'\. Leave an empty sample out",
        data={"samples": ("a",)},
    ),
    "empty pool": Refusal({"x": [], "s": []}, {0.0: 1, 1.0: 1}, vardi.EmptySampleError, "^The pool has no rows", S),
    "sample without a bias": Refusal(
        X, {"a": 1, "bb": 1}, vardi.MismatchError, r"^Sample 'b' has no bias\. .* Did you mean 'bb'\?"
    ),
    "not identifiable": Refusal(
        APART,
        {"low": "x <= 5", "high": "x >= 6"},
        vardi.NotIdentifiableError,
        "share no rows",
        data={"groups": (("low",), ("high",))},
    ),
    "no convergence": Refusal(
        {**X, "c": {"x": [1.0, 4.0, 9.0]}},
        {"a": 1, "b": "x", "c": "x ** 2"},
        vardi.ConvergenceError,
        "^Vardi's equations hold only to .* after 0 iterations, but 1e-17 was asked for",
        {"tol": 1e-17, "max_iterations": 0},
    ),
    "not the language of biases": Refusal(X, {"a": "x >", "b": 1}, vardi.ExpressionError, "x >"),
    "a share above one": Refusal(
        APART, {"low": "x <= 5", "high": "x >= 6"}, vardi.InvalidKnownError, "1.5", {"known": {"low": 1.5}}
    ),
    "a share of nothing": Refusal(
        APART,
        {"low": "x <= 5", "high": "x >= 6"},
        vardi.InvalidKnownError,
        "x > 20",
        {"known": {"low": 0.5, "x > 20": 0.2}},
    ),
    "a share of an unknown name": Refusal(
        APART, {"low": "x <= 5", "high": "x >= 6"}, vardi.MismatchError, "'lo'", {"known": {"lo": 0.5}}
    ),
}

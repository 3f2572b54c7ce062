"""What balance says of each draw: run by its own interpreter, which has nothing of ours."""

import logging
import sys
import warnings
from typing import Any

import pandas as pd

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from balance import Sample  # noqa: E402 (it logs as it is imported)


def asked(rows: pd.DataFrame, columns: list[str]) -> dict[str, tuple[Any, ...]]:
    """Return the answers for one draw, by who gave them: value, and ends of the interval."""
    panel, survey = (rows[rows["sample"] == name].assign(id=lambda own: own.index.astype(str)) for name in NAMES)
    sample = Sample.from_frame(panel[["id", *columns, "y"]], id_column="id", outcome_columns=["y"])
    given = sample.set_target(Sample.from_frame(survey[["id", *columns]], id_column="id"))
    found = {}
    for method, options in {"ipw": {"num_lambdas": 25}, "cbps": {}}.items():
        adjusted = given.adjust(method=method, **options)
        value, ends = (table["y"]["self"] for table in (adjusted.outcomes().mean(), adjusted.outcomes().ci_of_mean()))
        found[f"balance, {method}"] = (value, *ends)
        if method == "ipw":
            adjusted.fit_outcome_model()
            found["balance, aipw"] = (adjusted.aipw()["y"], None, None)
    return found


NAMES = ("panel", "survey")

if __name__ == "__main__":
    source, target, *names = sys.argv[1:]
    lines = [
        (draw, who, *answer)
        for draw, rows in pd.read_csv(source).groupby("draw")
        for who, answer in asked(rows, names).items()
    ]
    pd.DataFrame(lines, columns=["draw", "who", "value", "low", "high"]).to_csv(target, index=False)

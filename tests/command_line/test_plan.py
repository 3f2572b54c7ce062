"""The plan of a fit: what it says is asked is what is asked, and it reads no row."""

from __future__ import annotations

import json

import narwhals as nw
import numpy as np
import polars as pl
import pytest
from shell import invoke

from vardi import study as studies

NUMBERS = {"plain": "1", "seen": "x", "square": "x ** 2"}
CONDITIONS = {"plain": "1", "seen": "x > 0", "square": "x <= 90 or y > 0"}
PARAMETERS = {**CONDITIONS, "square": "steps(x, [2, 4])"}
KNOWN = '[known]\n"x > 2" = 0.574\n'
SHARE = '[known]\n"x > 2" = [0.7, 0.2]\n'


@pytest.fixture
def written(tmp_path):
    """Return what writes a study of one table with a column of labels."""
    rng = np.random.default_rng(0)
    n = 225_000  # of which not all are brought into memory
    label = np.repeat(["plain", "seen", "square"], n // 3)
    x = np.where(label == "plain", 0.5, 1.2) + rng.gamma(2.0, 1.0, n)
    frame = pl.DataFrame({"source": label, "x": x, "y": rng.normal(size=n), "text": ["long" * 5] * n})
    frame.write_parquet(tmp_path / "pool.parquet")
    frame.write_csv(tmp_path / "pool.csv")

    def write(biases, engine, data="pool.parquet", more=""):
        lines = [f'title = "Three"\nengine = "{engine}"\nvariables = ["y"]\n[pool]\ndata = "{data}"\nsource = "source"']
        lines += ["[biases]", *(f'{name} = "{bias}"' for name, bias in biases.items()), more]
        path = tmp_path / "study.toml"
        path.write_text("\n".join(lines))
        return path

    return write


@pytest.fixture
def answers(monkeypatch):
    """The shapes of all answers that engines give."""
    found = []
    collect = nw.LazyFrame.collect

    def kept(self, *arguments, **options):
        answer = collect(self, *arguments, **options)
        found.append(answer.shape)
        return answer

    monkeypatch.setattr(nw.LazyFrame, "collect", kept)
    return found


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
@pytest.mark.parametrize(
    ("biases", "more"), [(NUMBERS, ""), (CONDITIONS, ""), (PARAMETERS, ""), (NUMBERS, KNOWN), (CONDITIONS, SHARE)]
)
def test_a_fit_asks_what_was_planned(written, answers, engine, biases, more):
    study = studies.read(written(biases, engine, more=more))
    answers.clear()
    planned = studies.plan(study)
    assert not answers  # no row is read
    assert planned.rows == 225_000
    opened = study.open()
    answers.clear()
    opened.fit()
    queries = [query for query in planned.queries if "means" not in query.what]
    least, most = (sum(query.passes[end] for query in queries) for end in (0, 1))
    assert least <= len(answers) <= most
    assert sum(rows > 1000 for rows, _ in answers) == sum(query.what.startswith("draw") for query in queries)


def test_a_step_asks_for_no_number_that_follows_from_others(written, answers):
    study = studies.read(written(NUMBERS, "polars"))
    study.open().fit()
    solve = next(query for query in studies.plan(study).queries if query.what == "solve")
    assert answers[-1] == (1, 7)  # three shares and three products of three samples, and the sum of the weights
    assert solve.columns == ("x",)


def test_a_pass_reads_the_columns_it_needs(written):
    whole = studies.plan(studies.read(written(NUMBERS, "memory"))).queries[0]
    check = studies.plan(studies.read(written(NUMBERS, "polars"))).queries[0]
    assert whole.columns == ("source", "x", "y", "text")
    assert check.columns == ("x", "source")
    assert 0 < check.size < whole.size


def test_text_files_are_read_whole_in_every_pass(written, tmp_path):
    planned = studies.plan(studies.read(written(CONDITIONS, "polars", "pool.csv")))
    assert planned.rows is None
    assert {query.size for query in planned.queries} == {(tmp_path / "pool.csv").stat().st_size}
    assert planned.queries[0].what == "check that every line is complete"


def test_the_command_shows_it(written):
    path = written(NUMBERS, "duckdb")
    shown = invoke("check", path, "--plan")
    assert shown.exit_code == 0
    assert "225,000 rows, left in place and queried by duckdb: 7 to 9 passes over the rows" in " ".join(
        shown.output.split()
    )
    assert "Only sums come back, and up to 200,000 rows to start from." in " ".join(shown.output.split())
    told = json.loads(invoke("check", path, "--plan", "--json").output)
    assert told["passes"] == [7, 9]
    assert [query["what"] for query in told["queries"]][:3] == ["check", "draw some rows to start from", "solve"]

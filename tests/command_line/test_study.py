"""Study files: read whole, refused whole, and able to do nothing but read the data that they name."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shell import AGENCY, NATIONAL, draw, invoke, problems, weights_of, write_houses, write_weights, written

import vardi
from vardi.study import parse, read


@pytest.fixture(scope="module")
def houses():
    return vardi.datasets.house_prices(seed=0, backend="polars")


@pytest.fixture
def folder(tmp_path):
    return write_houses(tmp_path)


# --- what a study says


def test_a_study_fits_like_the_call_it_stands_for(folder, houses):
    study = read(written(folder, f'title = "Houses"\nvariables = ["MEDV", "RM > 6"]\n{AGENCY}{NATIONAL}'))
    expected = vardi.debias(houses.samples, houses.biases)
    np.testing.assert_allclose(study.fit().weights, expected.weights, rtol=1e-13)
    assert study.verdict().identified
    assert (study.title, study.engine, study.variables) == ("Houses", "memory", ("MEDV", "RM > 6"))
    assert study.biases == {"agency": "MEDV <= 22", "national": 1}


def test_title_is_the_name_of_the_file_where_there_is_none(folder):
    assert read(written(folder, AGENCY + NATIONAL)).title == "study"


FORMS = ("csv", "parquet", "jsonl", "ndjson", "duckdb", "db")


@pytest.mark.parametrize(
    ("form", "engine"),
    [
        (form, engine)
        for form in FORMS
        for engine in ("memory", "polars", "duckdb")
        if engine != "polars" or form not in ("duckdb", "db")  # Polars does not read a database, and a study says so
    ],
)
def test_every_format_and_engine_gives_the_same_weights(tmp_path, houses, form, engine):
    if form in ("duckdb", "db"):
        with duckdb.connect(str(tmp_path / f"houses.{form}")) as connection:
            for name, rows in houses.samples.items():
                connection.register("rows", rows.to_arrow())
                connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM rows')
    tables = ""
    for name, rows in houses.samples.items():
        if form in ("duckdb", "db"):
            where = f'data = "houses.{form}"\ntable = "{name}"'
        else:
            writers = {"csv": rows.write_csv, "parquet": rows.write_parquet}
            writers.get(form, rows.write_ndjson)(tmp_path / f"{name}.{form}")
            where = f'data = "{name}.{form}"'
        tables += f'[sources.{name}]\n{where}\nbias = "{houses.biases[name]}"\n'
    study = read(written(tmp_path, f'engine = "{engine}"\n{tables}'))
    assert study.engine == engine
    expected = np.asarray(vardi.debias(houses.samples, houses.biases).weights)
    for suffix in (".parquet", ".csv", ".jsonl"):
        found = weights_of(study, tmp_path, suffix)
        assert found.columns == ["source", "row", "weight"]
        np.testing.assert_allclose(found["weight"], expected, rtol=1e-12)
        assert found["source"].to_list() == ["agency"] * 200 + ["national"] * 100
        assert found["row"].to_list() == [*range(200), *range(100)]


@pytest.mark.parametrize("engine", ["memory", "polars", "duckdb"])
def test_weights_join_back_by_source_and_row_and_carry_ids_and_data(folder, houses, engine):
    for name, rows in houses.samples.items():
        own = rows.with_columns(pl.Series("key", [f"{name[0]}{k}" for k in range(len(rows))]))
        own.write_csv(folder / f"{name}.csv")
    text = f'engine = "{engine}"\n{AGENCY}id = "key"\n{NATIONAL}id = "key"\n'
    study = read(written(folder, text))
    found = weights_of(study, folder, with_data=True)
    assert found.columns[:4] == ["source", "row", "id", "weight"]
    joined = found.filter(pl.col("source") == "national").join(
        pl.read_csv(folder / "national.csv").with_row_index("row").cast({"row": pl.Int64}), on="row"
    )
    assert joined["id"].to_list() == joined["key"].to_list()
    np.testing.assert_array_equal(joined["MEDV"], joined["MEDV_right"])
    np.testing.assert_allclose(found["weight"].mean(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("engine", ["memory", "polars", "duckdb"])
def test_globs_and_lists_are_read_in_order_of_name(folder, houses, engine):
    national = houses.samples["national"]
    (folder / "parts").mkdir()
    for k in range(4):
        national[25 * k : 25 * k + 25].write_parquet(folder / "parts" / f"{k}.parquet")
    text = f'engine = "{engine}"\n{AGENCY}[sources.national]\nbias = "1"\n'
    expected = np.asarray(vardi.debias(houses.samples, houses.biases).weights)
    for data in ('"parts/*.parquet"', '["parts/0.parquet", "parts/1.parquet", "parts/[23].parquet"]'):
        study = read(written(folder, f"{text}data = {data}\n"))
        assert len(study.data[1].files) == 4
        np.testing.assert_allclose(weights_of(study, folder)["weight"], expected, rtol=1e-12)


@pytest.mark.parametrize("engine", ["memory", "polars", "duckdb"])
def test_a_pool_in_one_file_with_labels(folder, houses, engine):
    pool = pl.concat([rows.with_columns(pl.lit(k).alias("who")) for k, rows in enumerate(houses.samples.values())])
    pool = pool.sample(fraction=1.0, shuffle=True, seed=1)
    pool.write_csv(folder / "pool.csv")
    text = f'engine = "{engine}"\n[pool]\ndata = "pool.csv"\nsource = "who"\n[biases]\n0 = "MEDV <= 22"\n1 = "1"\n'
    found = weights_of(read(written(folder, text)), folder)
    expected = vardi.debias(pool, {0: "MEDV <= 22", 1: 1}, source="who").weights
    np.testing.assert_allclose(found["weight"], expected, rtol=1e-12)
    assert found["source"].to_list() == [str(who) for who in pool["who"]]
    assert found["row"].to_list() == list(range(300))


@pytest.mark.parametrize("engine", ["memory", "polars", "duckdb"])
def test_counts_stand_for_rows(folder, houses, engine):
    rows = houses.samples["agency"].with_columns(pl.Series("times", [2, 0] * 100))
    rows.write_csv(folder / "agency.csv")
    study = read(written(folder, f'engine = "{engine}"\n{AGENCY}counts = "times"\n{NATIONAL}'))
    assert study.fit().sizes == {"agency": 200, "national": 100}
    counts = {"agency": rows["times"], "national": np.ones(100)}
    expected = vardi.debias({**houses.samples, "agency": rows}, houses.biases, counts=counts)
    assert study.fit().omegas == pytest.approx(expected.omegas, rel=1e-12)


@pytest.mark.parametrize("engine", ["memory", "polars", "duckdb"])
@pytest.mark.parametrize("times", [[3, 1], [2.0, 1.0]])
@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")
def test_weights_are_those_of_one_unit_with_the_counts_beside(folder, houses, engine, times):
    rows = houses.samples["agency"].with_columns(pl.Series("count", times * 100))
    rows.write_csv(folder / "agency.csv")
    study = read(written(folder, f'engine = "{engine}"\n{AGENCY}counts = "count"\n{NATIONAL}'))
    found = weights_of(study, folder)
    assert found.columns == ["source", "row", "weight", "count"]
    assert found["count"].to_list() == times * 100 + [1] * 100
    assert found["count"].dtype == (pl.Int64 if times == [3, 1] else pl.Float64)
    assert np.average(found["weight"], weights=found["count"]) == pytest.approx(1.0, rel=1e-12)
    mean = np.average(
        pl.concat([rows["MEDV"], houses.samples["national"]["MEDV"]]), weights=found["weight"] * found["count"]
    )
    assert study.fit().expectation("MEDV").value == pytest.approx(mean, rel=1e-12)
    assert weights_of(study, folder, with_data=True)["count"].to_list() == found["count"].to_list()
    other = houses.samples["national"].with_columns(pl.Series("count", [7] * 100))
    other.write_csv(folder / "national.csv")
    with pytest.raises(vardi.MismatchError, match="The data have a column 'count'"):
        weights_of(read(study.path), folder, with_data=True)


def test_a_draw_has_no_column_of_counts_but_that_of_the_data(folder, houses):
    houses.samples["agency"].with_columns(times=pl.lit(2)).write_csv(folder / "agency.csv")
    opened = read(written(folder, f'{AGENCY}counts = "times"\n{NATIONAL}')).open()
    assert draw(opened, opened.fit(), 5, 0).columns[:3] == ["source", "row", "CRIM"]
    assert "count" not in draw(opened, opened.fit(), 5, 0).columns


@pytest.mark.parametrize("engine", ["memory", "polars", "duckdb"])
def test_missing_counts_are_refused_and_never_dropped(folder, houses, engine):
    rows = houses.samples["agency"].with_columns(pl.Series("times", [1, None] * 100))
    rows.write_csv(folder / "agency.csv")
    study = read(written(folder, f'engine = "{engine}"\n{AGENCY}counts = "times"\n{NATIONAL}'))
    with pytest.raises(vardi.MissingValuesError, match="counts 'times' of agency.csv has no value in 100 rows"):
        study.fit()


def test_states_and_odd_names(folder, houses):
    renamed = {name: rows.rename({"MEDV": "median value"}) for name, rows in houses.samples.items()}
    for name, rows in renamed.items():
        rows.write_csv(folder / f"{name}.csv")
    text = 'variables = ["median value"]\n[sources."the agency"]\ndata = "agency.csv"\nbias = "`median value` <= 22"\n'
    text += NATIONAL + '[states.rich]\nbias = "`median value` > 40"\n'
    fit = read(written(folder, text)).fit()
    assert fit.names == ("the agency", "national", "rich")
    assert 0 < fit.omegas["rich"] < 0.2


def test_known_values_are_passed_on(folder, houses):
    study = read(written(folder, f"{AGENCY}{NATIONAL}[known]\nagency = 0.56\n"))
    assert study.known == {"agency": 0.56}
    assert study.fit().omegas["agency"] == pytest.approx(0.56)
    margin = read(written(folder, f"{AGENCY}{NATIONAL}[known.CHAS]\n0 = 0.93\n1 = 0.07\n"))
    assert margin.known == {"CHAS": {0: 0.93, 1: 0.07}}
    assert margin.fit().expectation("CHAS").value == pytest.approx(0.07)
    errors = read(
        written(
            folder, f"{AGENCY}{NATIONAL}[known]\nRM = [6.3, 0.1]\n[known.CHAS]\n0 = [0.93, 0.01]\n1 = [0.07, 0.01]\n"
        )
    )
    assert errors.known == {"RM": [6.3, 0.1], "CHAS": {0: [0.93, 0.01], 1: [0.07, 0.01]}}


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_known_shares_in_an_engine_give_the_weights_of_memory(folder, houses, engine):
    known = "[known]\nagency = 0.56\n[known.CHAS]\n0 = 0.93\n1 = 0.07\n"
    study = read(written(folder, f'engine = "{engine}"\n{AGENCY}{NATIONAL}{known}'))
    expected = vardi.debias(houses.samples, houses.biases, known={"agency": 0.56, "CHAS": {0: 0.93, 1: 0.07}})
    np.testing.assert_allclose(weights_of(study, folder)["weight"], expected.weights, rtol=1e-8)


def test_biases_with_parameters_are_fitted(folder, houses):
    bias = "(MEDV <= 22) * exponential_tilt(RM)"
    study = read(written(folder, AGENCY.replace("MEDV <= 22", bias) + NATIONAL))
    expected = vardi.debias(houses.samples, {"agency": bias, "national": 1})
    np.testing.assert_allclose(study.fit().weights, expected.weights, rtol=1e-12)
    assert set(study.fit().parameters) == {"agency"}


def test_a_draw_is_that_of_the_fit(folder):
    study = read(written(folder, AGENCY + NATIONAL))
    opened = study.open()
    fit = opened.fit()
    drawn = draw(opened, fit, 50, 3)
    assert drawn.select(fit.sample(50, 3).columns).equals(fit.sample(50, 3))
    source = weights_of(study, folder, with_data=True)
    back = drawn.join(source, on=["source", "row"], how="left", maintain_order="left")
    assert back["MEDV"].to_list() == back["MEDV_right"].to_list()
    with pytest.raises(vardi.MismatchError, match="400 rows cannot be drawn without replacement from 300"):
        draw(opened, fit, 400, 0, replace=False)


def test_data_with_columns_of_our_names_are_refused_with_the_data_only(folder, houses):
    houses.samples["agency"].with_columns(weight=pl.lit(7.0)).write_csv(folder / "agency.csv")
    study = read(written(folder, AGENCY + NATIONAL))
    assert weights_of(study, folder)["weight"].max() == pytest.approx(3.0)
    with pytest.raises(vardi.MismatchError, match="The data have a column 'weight'"):
        weights_of(study, folder, with_data=True)


# --- what is wrong with a study


def test_all_problems_are_said_at_once_with_line_and_suggestion(folder):
    text = (
        'titel = "Houses"\n'
        'variables = ["MEDW"]\n'
        "[sources.agency]\n"
        'data = "agancy.csv"\n'
        'bias = "MEDV <= "\n'
        "[sources.national]\n"
        'data = "national.csv"\n'
        'bias = "PRICE"\n'
        'weight = "w"\n'
    )
    found = problems(folder, text)
    starts = [problem.split(":")[0] for problem in found]
    assert starts == ["line 1", "line 2", "line 4", "line 5", "line 8", "line 9"]
    assert "Unknown key 'titel'. Did you mean 'title'?" in found[0]
    assert "The variable 'MEDW' reads column 'MEDW', which no file has. Did you mean 'MEDV'?" in found[1]
    assert f"There is no file {folder / 'agancy.csv'}. Did you mean 'agency.csv'?" in found[2]
    assert "The bias of 'agency': This cannot be read as an expression" in found[3]
    assert "The bias of 'national' reads column 'PRICE', which no file has." in found[4]
    assert "Unknown key 'weight'." in found[5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "There are no samples. Give each a table [sources.NAME] with data and bias."),
        ("sources = 3", "sources must be a table of tables"),
        ("[sources]\na = 3", "sources.a must be a table"),
        ('[sources.""]\ndata = "agency.csv"\nbias = 1', "A name in [sources] is empty or cannot be printed."),
        ("[sources.a]\nbias = 1", "'a' has no data. Name its file: data = ..."),
        ('[sources.a]\ndata = "agency.csv"', "'a' has no bias."),
        (
            '[sources.a]\ndata = "agency.csv"\nbias = true',
            "must be an expression in quotes or a number, not true or false",
        ),
        ('[sources.a]\ndata = "agency.csv"\nbias = nan', "The bias of 'a':"),
        ("[sources.a]\ndata = 3\nbias = 1", "data must be a path or a list of paths, not 3."),
        ("[sources.a]\ndata = []\nbias = 1", "data must be a path or a list of paths"),
        ('[sources.a]\ndata = ""\nbias = 1', "The path is empty. Name a file."),
        ('[sources.a]\ndata = "nothing/*.csv"\nbias = 1', "No file matches nothing/*.csv"),
        ('[sources.a]\ndata = "."\nbias = 1', "is a folder."),
        ('[sources.a]\ndata = "study.toml"\nbias = 1', "is not a kind of file that vardi reads."),
        ('[sources.a]\ndata = "*"\nbias = 1', "is not a kind of file that vardi reads."),
        ('[sources.a]\ndata = "\\u0000.csv"\nbias = 1', "There is no file "),
        ('[sources.a]\ndata = "s3://bucket/a.parquet"\nbias = 1', "is remote, and a study reads local files only."),
        (
            '[sources.a]\ndata = "agency.csv"\ntable = "t"\nbias = 1',
            "agency.csv is not a database, so it has no tables.",
        ),
        ('engine = "spark"\n' + AGENCY, "There is no engine 'spark'."),
        ('engine = "memry"\n' + AGENCY, "Did you mean 'memory'?"),
        ("title = 3\n" + AGENCY, "title must be a string, not 3."),
        ("variables = 3\n" + AGENCY, "variables must be a list of strings: columns and expressions."),
        ('variables = ["MEDV", "MEDV"]\n' + AGENCY, "A variable is listed twice."),
        ('variables = ["1"]\n' + AGENCY, "The variable '1' reads no column"),
        (AGENCY + 'counts = "tmies"\n', "agency.csv has no column 'tmies'."),
        (AGENCY + 'id = "RMM"\n', "Did you mean 'RM'?"),
        (AGENCY + "[states.agency]\nbias = 1\n", "'agency' is already a sample."),
        (AGENCY + "[biases]\na = 1\n", "[biases] goes with a [pool]."),
        (
            AGENCY + '[pool]\ndata = "national.csv"\n',
            "This study has both [sources.NAME] and [pool]. Keep one of them.",
        ),
        ('[pool]\ndata = "agency.csv"\n[biases]\na = 1\n', "[pool] has no source: name the column"),
        ('[pool]\ndata = "agency.csv"\nsource = "RM"\n', "A [pool] needs [biases]"),
        ('[pool]\ndata = "agency.csv"\nsource = "who"\n[biases]\na = 1\n', "agency.csv has no column 'who'."),
        ("pool = 3", "pool must be a table"),
        (AGENCY + '[known]\nagency = "half"\n', "The known value of 'agency' is 'half'. Give a finite number"),
        (AGENCY + "[known]\nagency = [0.5, -1]\n", "line 5: The standard error of 'agency' is -1."),
        (AGENCY + "[known]\nagency = inf\n", "The known value of 'agency' is inf. Give a finite number"),
        (AGENCY + "[known]\nagencies = 0.5\n", "reads column 'agencies', which no file has."),
        (AGENCY + "[known.CHASS]\n0 = 1\n", "reads column 'CHASS', which no file has. Did you mean 'CHAS'?"),
        (AGENCY + "[known.CHAS]\n0 = -1\n", "The share of 'CHAS = 0' is -1, but a share lies between 0 and 1."),
        (
            AGENCY + "[known.CHAS]\n0 = 0.9\n1 = 0.2\n",
            "line 4: The shares of 'CHAS' sum to 1.1, but every member",
        ),
        (
            AGENCY + '[known]\n"RM > 6" = 1.4\n',
            "line 5: The share of 'RM > 6' is 1.4, but a share lies between 0 and 1.",
        ),
        (
            AGENCY + "[known]\nagency = -1\n",
            "line 5: The known value of 'agency' is -1. It is the mean of that sample's bias",
        ),
        (
            AGENCY.replace("agency]", "RM]") + "[known]\nRM = 0.5\n",
            "known has 'RM', which is both a sample and a column of the samples",
        ),
        (AGENCY.replace('"MEDV <= 22"', "-1"), "line 3: The bias of 'agency' is -1 everywhere."),
        (AGENCY.replace('"MEDV <= 22"', "0"), "line 3: The bias of 'agency' is 0 everywhere."),
        (AGENCY.replace("MEDV <= 22", "2 - 3"), "line 3: The bias of 'agency' is -1 everywhere."),
        ("known = 3\n" + AGENCY, "known must be a table"),
        (AGENCY.replace("MEDV <= 22", "power(MEDVV)"), "reads column 'MEDVV', which no file has. Did you mean 'MEDV'?"),
        (
            'variables = ["power(MEDV)"]\n' + AGENCY,
            "The variable 'power(MEDV)' has parameters, which only a bias can have.",
        ),
        (AGENCY + "[known]\n'power(MEDV)' = 0.5\n", "known has 'power(MEDV)', which has parameters"),
        (AGENCY + '[sources.b]\ndata = "./agency.csv"\nbias = 1\n', "'b' and 'agency' both read agency.csv"),
        ('[sources.a]\ndata = "agency.csv"\nbias = "MEDV == \'x\'"', "on the rows of agency.csv:"),
    ],
)
def test_each_problem_has_its_text(folder, text, message):
    found = problems(folder, text)
    assert any(message in problem for problem in found), found
    assert all(problem.startswith("line ") for problem in found)


def test_a_column_that_one_file_lacks(folder, houses):
    houses.samples["national"].drop("MEDV").write_csv(folder / "national.csv")
    (found,) = problems(folder, AGENCY + NATIONAL)
    assert found == (
        "line 3: The bias of 'agency' reads column 'MEDV', which national.csv lacks. Every sample must have it."
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (AGENCY + AGENCY, "line 4: [sources.agency] is declared twice. Give each source a name of its own."),
        ("title = ", "Invalid value"),
        ("[sources.a\n", "line 1: "),
        ('a = "\n', "line 1: "),
    ],
)
def test_what_is_no_toml_is_one_problem_with_its_line(folder, text, message):
    (found,) = problems(folder, text)
    assert message in found


def test_text_variables_are_told_to_be_conditions(folder):
    (folder / "a.csv").write_text("region,x\nN,1\nW,2\n")
    (found,) = problems(folder, 'variables = ["region"]\n[sources.a]\ndata = "a.csv"\nbias = "x"\n')
    assert found.endswith("Only numbers have a mean: write a condition, such as region == 'a value'.")


def test_a_file_of_no_use(folder):
    (folder / "empty.csv").write_text("")
    (folder / "not.parquet").write_text("x")
    (folder / "not.db").write_text("nothing like a database, but long enough to be taken for one" * 100)
    text = (
        "".join(
            f'[sources.{name}]\ndata = "{name}"\n{extra}bias = 1\n'
            for name, extra in (('"empty.csv"', ""), ('"not.parquet"', ""), ('"not.db"', 'table = "t"\n'))
        )
        .replace('data = ""', 'data = "')
        .replace('""\n', '"\n')
    )
    found = problems(folder, text)
    assert len(found) == 3
    assert all("cannot be read as" in problem for problem in found)


def test_tables_of_a_database(tmp_path):
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute("CREATE TABLE houses AS SELECT 1 AS x")
    source = '[sources.a]\ndata = "d.duckdb"\nbias = "x"\n'
    assert "line 2: d.duckdb is a database, so a table must be named: table = ..." in problems(tmp_path, source)
    found = problems(tmp_path, source + 'table = "house"\n')
    assert found == ("line 4: d.duckdb has no table 'house'. Did you mean 'houses'? It has: houses.",)
    found = problems(tmp_path, 'engine = "polars"\n' + source + 'table = "houses"\n')
    assert found == ('line 1: Polars cannot read d.duckdb. Write engine = "duckdb" or "auto".',)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nothing.toml", "There is no study .*nothing.toml. Did you mean 'nothings.toml'?"),
        ("elsewhere/x.toml", "There is no study .*x.toml. Write one with: vardi init"),
        (".", "is a folder. Name the study file in it."),
        ("bytes.toml", "is not UTF-8 text, so it is not a study."),
        ("large.toml", "which is too many for a study."),
    ],
)
def test_what_is_no_study(tmp_path, path, message):
    (tmp_path / "nothings.toml").write_text("")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large.toml").write_text("#" * 1_000_001)
    with pytest.raises(vardi.StudyError, match=message):
        read(tmp_path / path)


# --- what a study cannot do


def test_expressions_run_no_code(folder):
    text = "[sources.a]\ndata = \"agency.csv\"\nbias = \"__import__('os').system('touch owned')\"\n"
    (found,) = problems(folder, text)
    assert "is not in the language of biases" in found
    assert not (folder / "owned").exists()


def test_a_link_leads_to_data_only(folder):
    (folder / "secret.txt").write_text("a,b\n1,2\n")
    (folder / "link.csv").symlink_to(folder / "secret.txt")
    (found,) = problems(folder, '[sources.a]\ndata = "link.csv"\nbias = 1\n')
    assert "is not a kind of file that vardi reads" in found
    os.mkfifo(folder / "pipe.csv")
    (found,) = problems(folder, '[sources.a]\ndata = "pipe.csv"\nbias = 1\n')
    assert "is not a regular file" in found


def test_table_names_are_quoted(tmp_path):
    name = 'a"; DROP TABLE b; --'
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute("CREATE TABLE b AS SELECT 1 AS x")
        connection.execute('CREATE TABLE "a""; DROP TABLE b; --" AS SELECT 2 AS x')
    text = f"[sources.a]\ndata = 'd.duckdb'\ntable = '{name}'\nbias = 'x'\n"
    assert len(read(written(tmp_path, text)).fit()) == 1
    with duckdb.connect(str(tmp_path / "d.duckdb"), read_only=True) as connection:
        assert connection.table("b").fetchall() == [(1,)]


@pytest.mark.parametrize("engine", ["memory", "polars", "duckdb"])
def test_names_with_signs_of_a_pattern(tmp_path, engine):
    (tmp_path / "a[1].csv").write_text("x\n1\n2\n")
    (tmp_path / "a1.csv").write_text("x\n5\n")
    text = f'engine = "{engine}"\n[sources.a]\ndata = "a[1].csv"\nbias = "x"\n'
    if engine == "duckdb":
        assert "so it would be read as a pattern" in problems(tmp_path, text)[0]
    else:
        assert len(read(written(tmp_path, text)).fit()) == 2


# --- what a CSV is, in every engine

ENGINES = ("memory", "polars", "duckdb")
PAIR = '[sources.a]\ndata = "a.csv"\nbias = "x"\n[sources.b]\ndata = "b.csv"\nbias = 1\n'
ROWS = "x,k\n" + "".join(f"{1 + k % 7}.5,{k}\n" for k in range(30))


def refusal(folder, text):
    with pytest.raises(vardi.StudyError) as caught:
        read(written(folder, text)).fit()
    return str(caught.value)


@pytest.mark.parametrize("second", ["link.csv", "hard.csv", "sub/../agency.csv", "absolute", "*.csv"])
def test_one_file_under_two_names_is_refused_within_a_source(folder, second):
    (folder / "sub").mkdir()
    (folder / "national.csv").rename(folder / "sub" / "national.csv")
    if second in ("link.csv", "*.csv"):
        (folder / "link.csv").symlink_to("agency.csv")
    if second == "hard.csv":
        os.link(folder / "agency.csv", folder / "hard.csv")
    path = str(folder / "agency.csv") if second == "absolute" else second
    if second == "absolute":
        (folder / "other").mkdir()
        (folder / "other" / "study").symlink_to(folder)
        folder = folder / "other" / "study"
    (found,) = problems(folder, AGENCY.replace('"agency.csv"', f'["agency.csv", "{path}"]'))
    assert found.startswith("line 2: 'agency' reads one file twice, as ")
    assert found.endswith(", so its rows would count twice. Name it once.")


def test_one_file_by_a_name_and_by_a_pattern_is_read_once(folder):
    study = read(
        written(folder, AGENCY.replace('"agency.csv"', '["agency.csv", "./agency.csv", "agen*.csv"]') + NATIONAL)
    )
    assert [len(data.files) for data in study.data] == [1, 1]


def test_a_hard_link_between_two_sources_is_refused(folder):
    os.link(folder / "agency.csv", folder / "hard.csv")
    (found,) = problems(folder, AGENCY + NATIONAL.replace("national.csv", "hard.csv"))
    assert found == "line 5: 'national' and 'agency' both read hard.csv, so its rows would count twice."


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (ROWS + "1,500,7\n", "a row has more "),
        ("# made by hand\n" + ROWS, "a row has more "),
        (ROWS + '1,"a\n2,b\n', "a quote is not closed"),
        (ROWS.encode() + "1,é\n".encode("latin-1"), "it is not UTF-8 text. Save it as CSV UTF-8."),
        (
            f"{ROWS.strip()}\n".replace("x", "é", 1).encode("latin-1"),
            "it is not UTF-8 text. Save it as CSV UTF-8.",
        ),
        ("", "it is empty."),
    ],
    ids=["ragged", "comment", "quote", "latin", "latin header", "empty"],
)
def test_what_is_no_csv_is_refused_by_every_engine(tmp_path, engine, content, reason):
    (tmp_path / "a.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    (tmp_path / "b.csv").write_text(ROWS)
    said = refusal(tmp_path, f'engine = "{engine}"\n{PAIR}')
    assert "a.csv cannot be read as csv: " in said
    assert reason in said


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_cells_stand_between_commas(tmp_path, engine, sign):
    (tmp_path / "a.csv").write_text(ROWS.replace(",", sign))
    (tmp_path / "b.csv").write_text(ROWS)
    said = refusal(tmp_path, f'engine = "{engine}"\n{PAIR}')
    names = {";": "semicolons", "\t": "tabs", "|": "bars"}
    assert f"The cells of a.csv are separated by {names[sign]}. Save it with commas" in said


@pytest.mark.parametrize("engine", ENGINES)
def test_no_sign_begins_a_comment(tmp_path, engine):
    (tmp_path / "a.csv").write_text(ROWS.replace("\n2.5", "\n#2.5"))
    (tmp_path / "b.csv").write_text(ROWS)
    assert "Column 'x' holds text" in refusal(tmp_path, f'engine = "{engine}"\n{PAIR}')


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_blank_lines_are_left_out_by_no_engine(tmp_path, ends):
    for name, content in (("a", ROWS + "\n2.5,1\n"), ("b", ROWS)):
        (tmp_path / f"{name}.csv").write_bytes(content.replace("\n", ends).encode())
    for engine in ("memory", "polars"):
        with pytest.raises(vardi.VardiError, match="missing values in 'x'|'x' holds text"):  # a text in Polars 1.31
            read(written(tmp_path, f'engine = "{engine}"\n{PAIR}')).fit()
    said = refusal(tmp_path, f'engine = "duckdb"\n{PAIR}')
    assert said == (
        "a.csv has blank lines. Remove them: they are rows without values, and DuckDB would silently skip them."
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "x,k\n",
            "a.csv has no rows below its header. Leave the sample out; a bias without rows goes into [states.NAME].",
        ),
        ("", "a.csv cannot be read as csv: "),
    ],
    ids=["header", "nothing"],
)
def test_a_csv_without_rows_says_so(tmp_path, engine, content, message):
    (tmp_path / "a.csv").write_text(content)
    (tmp_path / "b.csv").write_text(ROWS)
    (found,) = problems(tmp_path, f'engine = "{engine}"\nvariables = ["x"]\n{PAIR}')
    assert found.startswith("line 4: ")
    assert message in found
    assert "empty" in found or "no rows" in found


@pytest.mark.parametrize("engine", ENGINES)
def test_ids_of_a_csv_are_carried_as_they_are_written(tmp_path, engine):
    ids = ["00003", "3e5", "12345678901234567890123", "1.50", "2020-01-01", "true", "+4"]
    text = f'engine = "{engine}"\n[sources.b]\ndata = "b.csv"\nbias = "x"\n'
    (tmp_path / "b.csv").write_text("x\n1\n2\n3\n")
    for k, value in enumerate(ids):
        (tmp_path / f"a{k}.csv").write_text(f"x,key\n1,{value}\n2,{value}\n3,{value}\n")
        (tmp_path / f"c{k}.csv").write_text("x\n1\n2\n3\n")
        text += f'[sources.a{k}]\ndata = ["a{k}.csv", "c{k}.csv"]\nid = "key"\nbias = 1\n'
    found = weights_of(read(written(tmp_path, text)), tmp_path)
    nothing = [None] * 3
    assert found["id"].to_list() == [*nothing, *(one for value in ids for one in ([value] * 3 + nothing))]
    assert found["id"].dtype == pl.String


@pytest.mark.parametrize("engine", ENGINES)
def test_an_id_that_is_no_number_any_more_is_explained(tmp_path, engine):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text(ROWS)
    text = f'engine = "{engine}"\nvariables = ["k"]\n{PAIR}id = "k"\n'.replace('"x"', '"k > 3"')
    found = problems(tmp_path, text)
    assert len(found) == 2
    assert all(problem.endswith("'k' is an id, and ids in a CSV are read as text.") for problem in found)


# --- columns that a study does not use, or uses twice


@pytest.mark.parametrize("engine", ENGINES)
def test_weights_are_written_beside_columns_of_several_kinds(tmp_path, engine):
    (tmp_path / "a.csv").write_text(ROWS)
    (tmp_path / "b.csv").write_text("x,k\n1,one\n2,two\n3,three\n")
    study = read(written(tmp_path, f'engine = "{engine}"\n{PAIR}'))
    found = weights_of(study, tmp_path, ".csv")
    assert found.columns == ["source", "row", "weight"]
    assert len(found) == 33
    if engine != "polars":  # which makes texts of them all
        with pytest.raises(vardi.MismatchError, match="types: .*k|Column 'k' is"):
            weights_of(study, tmp_path, with_data=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_ids_may_be_of_several_kinds_and_missing_in_a_source(tmp_path, engine):
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0], "key": [7, 8, 9]})
    for name in "abc":
        frame.write_parquet(tmp_path / f"{name}.parquet")
    texts = [f'[sources.{name}]\ndata = "{name}.parquet"\nbias = "x"\n' for name in "abc"]
    study = written(tmp_path, f'engine = "{engine}"\n{texts[0]}id = "key"\n{texts[1]}')
    assert weights_of(read(study), tmp_path)["id"].to_list() == [7, 8, 9, None, None, None]
    frame.with_columns(key=pl.Series(["p", "q", "r"])).write_parquet(tmp_path / "c.parquet")
    study = written(tmp_path, f'engine = "{engine}"\n{texts[0]}id = "key"\n{texts[1]}{texts[2]}id = "key"\n')
    assert weights_of(read(study), tmp_path)["id"].to_list() == ["7", "8", "9", None, None, None, "p", "q", "r"]


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_types_that_polars_has_not_do_no_harm(tmp_path, engine):
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute(
            'CREATE TABLE t AS SELECT i + 1.0 AS x, INTERVAL 1 DAY AS took, [INTERVAL 1 DAY] AS "l s", '
            "union_value(n := 1) AS u FROM range(3) r(i)"
        )
    text = f'engine = "{engine}"\n[sources.a]\ndata = "d.duckdb"\ntable = "t"\nbias = "x"\n'
    study = read(written(tmp_path, text))
    assert len(study.fit()) == 3
    assert weights_of(study, tmp_path, with_data=True).rows()[0][-3:] == ("1 day", "[1 day]", "1")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("reads", ["bias", "variable", "share", "nothing"])
def test_labels_that_are_numbers_stay_numbers_for_the_study(tmp_path, houses, engine, reads):
    rows = pl.concat([own.with_columns(who=pl.lit(k)) for k, own in enumerate(houses.samples.values())])
    rows.write_csv(tmp_path / "pool.csv")
    bias = "MEDV <= 22 and who < 9" if reads == "bias" else "MEDV <= 22"
    variable = "who" if reads == "variable" else "RM"
    text = f'engine = "{engine}"\nvariables = ["{variable}"]\n[pool]\ndata = "pool.csv"\nsource = "who"\n'
    text += f'[biases]\n0 = "{bias}"\n1 = 1\n' + ('[known]\n"RM > 6 and who < 9" = 0.6\n' if reads == "share" else "")
    study = read(written(tmp_path, text))
    opened = study.open()
    fit = opened.fit()
    assert fit.names == ("0", "1")
    assert opened.verdict().identified
    found = weights_of(study, tmp_path)
    assert found.columns == ["source", "row", "weight"]
    assert found["source"].to_list() == ["0"] * 200 + ["1"] * 100
    account = json.loads(invoke("fit", study.path, "--json").stdout)
    assert account["variables"][0]["debiased"] == pytest.approx(
        np.average(rows[variable], weights=found["weight"]), rel=1e-9
    )
    known = {"RM > 6": 0.6} if reads == "share" else None
    expected = vardi.debias(houses.samples, houses.biases, known=known).weights
    np.testing.assert_allclose(found["weight"], expected, rtol=1e-8)
    assert weights_of(study, tmp_path, with_data=True).columns == ["source", "row", "weight", *rows.columns]
    if engine == "memory":
        assert draw(opened, fit, 5, 0).columns == ["source", "row", *rows.columns]
    else:
        with pytest.raises(vardi.VardiError, match="has no bias"):
            read(written(tmp_path, text.replace("1 = 1\n", "2 = 1\n"))).fit()


def test_a_mark_at_the_start_of_a_study_does_no_harm(folder):
    (folder / "study.toml").write_bytes(b"\xef\xbb\xbf" + (AGENCY + NATIONAL).encode())
    assert len(read(folder / "study.toml").fit()) == 300


def test_a_table_of_another_schema_is_refused(tmp_path):
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute("CREATE SCHEMA s2; CREATE TABLE s2.t2 AS SELECT 1 AS x; CREATE TABLE t AS SELECT 1 AS x")
    source = '[sources.a]\ndata = "d.duckdb"\nbias = "x"\n'
    (found,) = problems(tmp_path, source + 'table = "t2"\n')
    assert found == (
        "line 4: The table 't2' of d.duckdb is in the schema 's2'. vardi reads only tables of the schema 'main': "
        "create a view of it there."
    )
    (found,) = problems(tmp_path, source + 'table = "t3"\n')
    assert found.endswith("It has: t.")


KEYS = st.sampled_from(
    [
        "title",
        "sources",
        "pool",
        "biases",
        "states",
        "variables",
        "engine",
        "known",
        "shares",
        "known_shares",
        "data",
        "bias",
    ]
) | st.text(max_size=5)
VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.sampled_from(["*", "/", "1", "x", "a.csv"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def toml(value):
    """Write a value in TOML, tables inline."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(key)} = {toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(letter):08X}" for letter in value) + '"'
    return repr(value)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_document_is_a_study_or_a_study_error(tmp_path_factory, document):
    folder = tmp_path_factory.mktemp("any")
    (folder / "a.csv").write_text("x\n1\n2\n")
    text = "".join(f"{toml(key)} = {toml(value)}\n" for key, value in document.items())
    before = sorted(folder.iterdir())
    with suppress(vardi.StudyError):
        parse(text, folder / "study.toml")
    assert sorted(folder.iterdir()) == before


@given(st.text(alphabet=st.sampled_from("[]{}=.\"'#\n ab\\1"), max_size=40))
def test_any_text_is_a_study_or_a_study_error(text):
    with pytest.raises(vardi.StudyError):
        parse(text, Path("study.toml"))


# --- lines of keys


@pytest.mark.parametrize("engine", ENGINES)
def test_units_whose_ids_are_in_two_samples_are_told(tmp_path, engine):
    rng = np.random.default_rng(0)
    for name, ids in (("a", range(100, 140)), ("b", range(125, 170))):
        pl.DataFrame({"unit": list(ids), "x": rng.normal(size=len(ids))}).write_csv(tmp_path / f"{name}.csv")
    text = f'engine = "{engine}"\n' + "".join(
        f'[sources.{name}]\ndata = "{name}.csv"\nbias = 1\nid = "unit"\n' for name in "ab"
    )
    with pytest.warns(vardi.SharedUnitsWarning, match="^15 ids are in 'a' and in 'b'. Errors treat all") as caught:
        read(written(tmp_path, text)).fit()
    assert (caught[0].message.count, caught[0].message.samples) == (15, ("a", "b"))
    pool = pl.concat([pl.read_csv(tmp_path / f"{name}.csv").with_columns(s=pl.lit(name)) for name in "ab"])
    pool.write_csv(tmp_path / "pool.csv")
    pooled = f'engine = "{engine}"\n[pool]\ndata = "pool.csv"\nsource = "s"\nid = "unit"\n[biases]\na = 1\nb = 1\n'
    with pytest.warns(vardi.SharedUnitsWarning, match="^15 ids are in 'a' and in 'b'"):
        read(written(tmp_path, pooled)).fit()


@pytest.mark.parametrize("engine", ENGINES)
def test_ids_that_number_the_rows_of_each_file_are_no_units(tmp_path, engine):
    rng = np.random.default_rng(0)
    for name, n in (("a", 40), ("b", 30)):
        pl.DataFrame({"unit": range(1, n + 1), "x": rng.normal(size=n)}).write_csv(tmp_path / f"{name}.csv")
    text = f'engine = "{engine}"\n' + "".join(
        f'[sources.{name}]\ndata = "{name}.csv"\nbias = 1\nid = "unit"\n' for name in "ab"
    )
    read(written(tmp_path, text)).fit()


EVERYWHERE = PAIR.replace('"x"', "1")


def write_codes(folder, stray="n/a"):
    """Two files with codes, missing values as R writes them, and a column that is text for one cell of one file."""
    rng = np.random.default_rng(0)
    for name, zeros in (("a", "0"), ("b", "")):
        rows = [
            f"{zeros}96194560{i:04d},{x:.4f},{'NA' if i == 3 else i},{stray if i == 5 and zeros else i}"
            for i, x in enumerate(rng.normal(size=100))
        ]
        (folder / f"{name}.csv").write_text("\n".join(["cds,x,y,z", *rows, ""]))


@pytest.mark.parametrize("engine", ENGINES)
def test_digits_with_leading_zeros_are_text_in_every_file_and_in_outputs(tmp_path, engine):
    write_codes(tmp_path, stray=5)
    study = read(written(tmp_path, f'engine = "{engine}"\nvariables = ["x"]\n{EVERYWHERE}'))
    opened = study.open()
    write_weights(opened, opened.fit(), tmp_path / "w.parquet", with_data=True)
    found = pl.read_parquet(tmp_path / "w.parquet")["cds"]
    assert found.dtype == pl.String
    assert (found[0], found[100]) == ("0961945600000", "961945600000")
    (problem,) = problems(tmp_path, f'engine = "{engine}"\nvariables = ["cds"]\n{PAIR}')
    assert "'cds' has digits with leading zeros, which are read as text." in problem


@pytest.mark.parametrize("engine", ENGINES)
def test_a_column_of_two_kinds_does_not_take_the_others_away(tmp_path, engine):
    write_codes(tmp_path)
    fit = read(written(tmp_path, f'engine = "{engine}"\n{EVERYWHERE}')).fit()
    assert "x" in fit.numeric_columns
    assert np.isfinite(fit.check_biases().pvalue)
    said = "z (String in 'a' and Int64 in 'b'). Convert each to one type."
    assert f"Left out because their type differs between samples: {said}" in " ".join(fit.summary().split())
    assert "z: String in 'a' and Int64 in 'b' (of different types in different samples)." in fit.parts.choose()[1]


@pytest.mark.parametrize("holder", [pl.DataFrame, pl.LazyFrame, lambda rows: duckdb.from_arrow(pa.table(rows))])
def test_the_biases_are_untested_for_the_true_reason(holder):
    samples = {"a": holder({"x": [*range(100)]}), "b": holder({"x": [*map(str, range(99)), "unknown"]})}
    assert vardi.debias(samples, {"a": 1, "b": 1}).check_biases().reason == (
        "x is Int64 in 'a' and String in 'b', and no other column is numeric. Convert it to one type."
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[sources.a]\ndata = "a.csv\nbias = 1\n', 2),
        ("[sources.a]\ndata = 'a.csv\nbias = 1\n", 2),
        ('[sources.a]\ndata = "a.csv"\nbias = "x > 0', 3),
        ('title = """\nof several\nlines\n[sources.a]\n', 1),
    ],
)
def test_a_quote_that_is_not_closed(tmp_path, text, line):
    (problem,) = problems(tmp_path, text)
    assert problem == (f'line {line}: A quote is not closed. Close it on the same line, as in bias = "x <= 5".')


def test_a_text_without_quotes(tmp_path):
    (problem,) = problems(tmp_path, '[sources.a]\ndata = "a.csv"\nbias = x <= 5\n')
    assert problem == 'line 3: Invalid value. Put text in quotes, as in bias = "x <= 5".'


TRUNCATED = '[sources.seen]\ndata = "seen.csv"\nbias = "window(x, u, v)"\n'


@pytest.fixture
def truncated(tmp_path):
    design = vardi.datasets.truncation(n=150, seed=0)
    low, high = design.truth["windows"].T
    pl.DataFrame({"x": design.rows, "u": low, "v": high}).write_csv(tmp_path / "seen.csv")
    (tmp_path / "study.toml").write_text(TRUNCATED)
    return tmp_path


def test_a_window_is_a_bias_of_a_study(truncated):
    study = read(truncated / "study.toml")
    fit = study.fit()
    assert (fit.names, fit.sizes) == (("seen",), {"seen": 150})
    assert study.verdict().identified
    assert str(fit.solved.pool.biases[0]) == "window(x, u, v)"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TRUNCATED.replace("u, v", "u, w"), "reads column 'w', which no file has"),
        (TRUNCATED + '[states.other]\nbias = "x > 1"\n', "a window for each row, beside other samples"),
        ('engine = "polars"\n' + TRUNCATED, 'needs rows in memory, and the engine is polars. Write engine = "memory"'),
        ('variables = ["window(x, u, v)"]\n' + TRUNCATED, "is a window or a learned bias, which has no mean"),
        (TRUNCATED.replace("u, v", "u"), "window takes the column of the value and the two ends"),
    ],
)
def test_windows_that_a_study_cannot_have(truncated, text, problem):
    (truncated / "study.toml").write_text(text)
    with pytest.raises(vardi.StudyError) as caught:
        read(truncated / "study.toml")
    assert problem in " ".join(str(caught.value).split())


def test_a_bias_that_is_learned(tmp_path):
    rng = np.random.default_rng(0)
    for name, shift in (("survey", 0.0), ("panel", 0.5)):
        pl.DataFrame({"x": rng.normal(shift, size=60), "sex": rng.choice(["f", "m"], 60)}).write_csv(
            tmp_path / f"{name}.csv"
        )
    text = (
        '[sources.survey]\ndata = "survey.csv"\nbias = 1\n'
        '[sources.panel]\ndata = "panel.csv"\nbias = "learned(x, sex)"\n'
    )
    (tmp_path / "study.toml").write_text(text)
    fit = read(tmp_path / "study.toml").fit()
    assert fit.learned["panel"].columns == ("x", "sex")
    for wrong, problem in (
        (text.replace("learned(x, sex)", "learned(xx)"), "reads column 'xx', which no file has. Did you mean 'x'?"),
        (f'engine = "polars"\n{text}', "learned(x, sex), needs rows in memory, and the engine is polars"),
    ):
        (tmp_path / "study.toml").write_text(wrong)
        with pytest.raises(vardi.StudyError) as caught:
            read(tmp_path / "study.toml")
        assert problem in " ".join(str(caught.value).split())


def test_design_weights_of_one_source(tmp_path):
    rng = np.random.default_rng(0)
    pl.DataFrame({"x": rng.normal(size=60), "pw": rng.uniform(1, 5, 60)}).write_csv(tmp_path / "survey.csv")
    pl.DataFrame({"x": rng.normal(size=60)}).write_csv(tmp_path / "web.csv")
    (tmp_path / "study.toml").write_text(
        '[sources.survey]\ndata = "survey.csv"\nbias = "1 / pw"\n[sources.web]\ndata = "web.csv"\nbias = 1\n'
    )
    with pytest.raises(vardi.StudyError) as caught:
        read(tmp_path / "study.toml")
    said = "In place of a design weight, write one over its mean given columns that all samples have."
    assert said in " ".join(str(caught.value).split())

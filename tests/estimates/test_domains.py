"""Means, shares, totals and distributions of domains: each is the ratio of two expectations, in every respect."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest
from pools import LENGTH_BIASED, PLACES, close, numbers, places_and_years

import vardi

pytestmark = pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")


@pytest.fixture(scope="module")
def samples():
    return places_and_years()


@pytest.fixture(scope="module")
def fit(samples):
    return vardi.debias(samples, LENGTH_BIASED)


# ---------------------------------------------------------------- what a domain's number is


@pytest.mark.parametrize("values", ["y", "x", "y > 4", "x > 100", "x > 0", "seven"])
def test_a_domain_mean_is_the_ratio_of_two_expectations(fit, values):
    table = fit.expectation(values, by="region")
    for region, estimate in table.items():
        ratio = fit.expectation(f"({values}) * (region == '{region}')") / fit.expectation(f"region == '{region}'")
        close(numbers(estimate), numbers(ratio))
        assert type(estimate.law) is type(ratio.law)
        close(numbers(estimate.at(0.8)), numbers(ratio.at(0.8)))


def test_known_values_and_parameters_and_counts_have_their_part(samples):
    counts = {name: np.random.default_rng(1).integers(0, 3, len(frame)) for name, frame in samples.items()}
    known = {"x > 4": 0.24, "y": (4.5, 0.05)}
    fit = vardi.debias(samples, {"plain": 1, "seen": vardi.power("x")}, known=known, counts=counts)
    for region, estimate in fit.expectation("y", by="region").items():
        ratio = fit.expectation(f"y * (region == '{region}')") / fit.expectation(f"region == '{region}'")
        close(numbers(estimate), numbers(ratio), rtol=1e-9)


def test_differences_and_ratios_of_domains_have_the_errors_of_their_ratios(fit):
    table = fit.expectation("y", by="region")
    N, S = (fit.expectation(f"y * (region == '{one}')") / fit.expectation(f"region == '{one}'") for one in ("N", "S"))
    close(numbers(table["N"] - table["S"]), numbers(N - S))
    close(numbers(table["N"] / table["S"]), numbers(N / S))
    close(numbers(table["N"] - fit.expectation("y")), numbers(N - fit.expectation("y")))


def test_the_joint_estimates_have_the_covariance_of_all(fit):
    table = fit.expectation("y", by="region")
    joint = table.joint
    close([one.value for one in joint], [one.value for one in table.values()])
    close(joint.stderr, np.sqrt(np.diag(joint.covariance)))
    difference = table["N"] - table["S"]
    contrast = np.array([1.0, -1.0, 0.0])
    close(contrast @ joint.covariance @ contrast, difference.stderr**2)


# ---------------------------------------------------------------- shares


def test_proportions_are_the_expectations_of_their_indicators(fit):
    table = fit.proportions("region")
    for region, share in table.items():
        close(numbers(share), numbers(fit.expectation(f"region == '{region}'")))
    assert sum(share.value for share in table.values()) == pytest.approx(1.0, abs=1e-12)
    close(table.joint.covariance.sum(axis=0), 0.0)


def test_proportions_within_domains_are_ratios_and_sum_to_one_in_each(fit):
    table = fit.proportions("region", by="year")
    for (year, region), share in table.items():
        both = fit.expectation(f"region == '{region}' and year == {year}")
        close(numbers(share), numbers(both / fit.expectation(f"year == {year}")))
    for year in (2020, 2021):
        assert sum(table[year, region].value for region in "NSW") == pytest.approx(1.0, abs=1e-12)


def test_a_value_that_a_domain_lacks_has_share_0_and_a_bound():
    frame = pd.DataFrame({"g": list("aaaabb") * 20, "s": list("uvuvuu") * 20})
    share = vardi.debias({"all": frame}, {"all": 1}).proportions("s", by="g")["b", "v"]
    assert share.value == 0.0
    assert share.interval[0] == 0.0
    assert 0.0 < share.interval[1] < 0.15


def test_known_shares_of_the_domains_are_known(samples):
    fit = vardi.debias(samples, LENGTH_BIASED, known={"region": {"N": 0.3, "S": 0.2, "W": 0.5}})
    table = fit.proportions("region")
    assert str(table["N"]) == "0.3 (known, up to rounding)"
    assert str(table).splitlines()[2].split() == ["N", "0.3", "-", "known"]
    assert fit.expectation("y", by="region")["N"].stderr > 0


def test_a_domain_of_one_row_has_no_error_and_says_so(samples):
    frames = {**samples, "plain": samples["plain"].assign(region=["E", *samples["plain"]["region"][1:]])}
    for place in ("memory", "polars"):
        fit = vardi.debias(PLACES[place](frames), LENGTH_BIASED)
        with pytest.warns(
            vardi.WeakOverlapWarning, match="^No standard error is given for the mean where region = 'E'"
        ):
            table = fit.expectation("y", by="region")
        assert table["E"].value == pytest.approx(frames["plain"]["y"][0])
        assert np.isnan(table["E"].stderr)
        assert "too few rows" in str(table["E"])
        assert str(table).splitlines()[2].split()[2:] == ["-", "-"]
        assert (
            0.0
            <= fit.expectation("y > 4", by="region")["E"].interval[0]
            < fit.expectation("y > 4", by="region")["E"].interval[1]
        )


# ---------------------------------------------------------------- distributions


def test_the_distribution_of_a_domain_is_a_ratio(fit):
    cdf = fit.cdf("y", by="region")
    assert list(cdf) == ["N", "S", "W"]
    for region in cdf:
        base = fit.expectation(f"region == '{region}'")
        ratios = [fit.expectation(f"region == '{region}' and y <= {t}") / base for t in (4.0, 5.0)]
        close([numbers(one) for one in cdf[region]([4.0, 5.0])], [numbers(one) for one in ratios])


def test_the_distribution_of_one_domain_of_all_rows_is_the_distribution(samples):
    fit = vardi.debias({name: frame.assign(g="all") for name, frame in samples.items()}, LENGTH_BIASED)
    whole, part = fit.cdf("y"), fit.cdf("y", by="g")["all"]
    close(part.x, whole.x)
    close(part.heights, whole.heights)
    close(numbers(part.quantile(0.3)), numbers(whole.quantile(0.3)))
    one, other = part.band(draws=100), whole.band(draws=100)
    close([one.x, one.low, one.high], [other.x, other.low, other.high], rtol=1e-7)


def test_the_quantile_of_a_domain_is_among_its_rows(fit, samples):
    pool = pd.concat(samples.values())
    for region, cdf in fit.cdf("x", by="region").items():
        assert cdf.quantile(0.5).value in set(pool.loc[pool["region"] == region, "x"])


# ---------------------------------------------------------------- names


def test_domains_are_sorted_and_categories_keep_their_order(samples):
    def by(dtype):
        frames = {name: frame.astype({"region": dtype}) for name, frame in samples.items()}
        return list(vardi.debias(frames, LENGTH_BIASED).expectation("y", by="region"))

    assert by("str") == ["N", "S", "W"]
    assert by(pd.CategoricalDtype(["W", "none", "N", "S"])) == ["W", "N", "S"]
    assert by(pd.CategoricalDtype(["S", "W", "none", "N"], ordered=True)) == ["S", "W", "N"]


def test_several_columns_are_crossed_and_only_pairs_with_rows_are_domains(fit, samples):
    table = fit.expectation("y", by=["year", "region"])
    assert list(table) == [(year, region) for year in (2020, 2021) for region in "NSW"]
    assert table.by == ("year", "region")
    sparse = {name: frame.assign(twin=frame["region"]) for name, frame in samples.items()}
    assert list(vardi.debias(sparse, LENGTH_BIASED).expectation("y", by=["region", "twin"])) == [(r, r) for r in "NSW"]


def test_labels_may_be_an_array(fit, samples):
    labels = np.concatenate([frame["region"].to_numpy() for frame in samples.values()])
    found = fit.expectation("y", by=labels)
    close(
        [numbers(one) for one in found.values()], [numbers(one) for one in fit.expectation("y", by="region").values()]
    )
    assert found.by == ("label",)


def test_a_table_fits_80_columns_and_names_what_it_shows(fit):
    wide = np.array(
        [f"a domain with a name that is much too long to be printed in full, number {j:04d}" for j in range(40)]
    )
    table = fit.expectation("y", by=wide[np.arange(len(fit)) % 40])
    lines = str(table).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "mean of y by label"
    assert lines[-1] == "... and 20 more"
    assert table._repr_html_().count("<tr>") == 42  # 20, 20 folded away, and two headings
    assert "<summary>20 more domains</summary>" in table._repr_html_()
    assert repr(table) == "Domains(40 by 'label')"


def test_a_mapping_answers_as_mappings_do(fit):
    table = fit.expectation("y", by="region")
    assert len(table) == 3
    assert "N" in table
    assert "E" not in table
    assert table.get("E") is None
    assert table.get("N").value == table["N"].value


# ---------------------------------------------------------------- refusals


def test_a_domain_without_rows_is_named(fit):
    with pytest.raises(
        vardi.MismatchError, match="^No row of the pool is in the domain 'E' of 'region'.*'N', 'S', 'W'"
    ):
        fit.expectation("y", by="region")["E"]
    with pytest.raises(vardi.MismatchError, match="Did you mean 'north'"):
        fit.expectation("y", by=np.array(["north", "south"])[np.arange(len(fit)) % 2])["nort"]
    with pytest.raises(vardi.MismatchError, match="No row of the pool is in the domain"):
        fit.cdf("y", by="region")["E"]


@pytest.mark.parametrize("place", PLACES)
def test_what_tells_no_domains_apart_is_refused(samples, place):
    fit = vardi.debias(PLACES[place](samples), LENGTH_BIASED)
    with pytest.raises(vardi.MismatchError, match="^No column 'regoin' in every sample.*Did you mean 'region'"):
        fit.expectation("y", by="regoin")
    with pytest.raises(vardi.MismatchError, match="No column 'no'"):
        fit.proportions("no")
    with pytest.raises(vardi.MismatchError, match="No column 'no'"):
        fit.cdf("y", by=["region", "no"])
    mixed = {"plain": samples["plain"], "seen": samples["seen"].assign(year="2020")}
    with pytest.raises(vardi.MismatchError, match="^'year' is .*in 'plain' and .*in 'seen'.*Convert it to one type"):
        vardi.debias(PLACES[place](mixed), LENGTH_BIASED).expectation("y", by="year")


@pytest.mark.parametrize("place", PLACES)
def test_missing_labels_are_counted_and_missing_values_are_placed(samples, place):
    gaps = {name: frame.copy() for name, frame in samples.items()}
    gaps["plain"].loc[[1, 4, 9], "region"] = None
    fit = vardi.debias(PLACES[place](gaps), LENGTH_BIASED)
    with pytest.raises(vardi.MissingValuesError, match="^'region' is missing in 3 rows.*which domain") as caught:
        fit.expectation("y", by="region")
    assert caught.value.columns == {"region": 3}
    holes = {name: frame.copy() for name, frame in samples.items()}
    south = holes["seen"].index[holes["seen"]["region"] == "S"][:2]
    north = holes["plain"].index[holes["plain"]["region"] == "N"][:1]
    holes["seen"].loc[south, "y"] = np.nan
    holes["plain"].loc[north, "y"] = np.nan
    fit = vardi.debias(PLACES[place](holes), LENGTH_BIASED)
    place_of_all = r"They are in region = 'N' \(1\), region = 'S' \(2\)\.$"
    with pytest.raises(vardi.MissingValuesError, match=place_of_all):
        fit.expectation("y", by="region")
    with pytest.raises(vardi.MissingValuesError, match=place_of_all):
        fit.cdf("y", by="region")


@pytest.mark.parametrize("place", PLACES)
def test_more_domains_than_anyone_reads_are_refused(place):
    frame = pd.DataFrame({"x": np.ones(1001), "id": np.arange(1001), "half": np.arange(1001) // 2})
    fit = vardi.debias(PLACES[place]({"rows": frame}), {"rows": 1})
    with pytest.raises(vardi.TooLargeError, match="^'id' defines more than 1,000 domains"):
        fit.expectation("x", by="id")
    assert len(fit.expectation("x", by="half")) == 501


def test_labels_of_another_length_and_by_of_engines(fit, samples):
    with pytest.raises(vardi.MismatchError, match=r"^by has shape \(3,\), but the pool has 400 rows"):
        fit.expectation("y", by=np.array(["a", "b", "c"]))
    with pytest.raises(vardi.NeedsRowsError, match="^An answer by labels that are not a column needs rows in memory"):
        vardi.debias(PLACES["polars"](samples), LENGTH_BIASED).expectation("y", by=np.repeat(["a"], 400))
    with pytest.raises(vardi.MismatchError, match="^by= of proportions was given as labels"):
        fit.proportions("region", by=np.repeat(["a"], 400))
    with pytest.raises(vardi.MismatchError, match="^The proportions of 'region' are asked for by 'region' itself"):
        fit.proportions("region", by=["year", "region"])
    matrix = vardi.debias_matrix(np.ones((4, 1)), [0, 0, 0, 0])
    with pytest.raises(vardi.MismatchError, match="give a label for each row"):
        matrix.expectation(np.arange(4.0), by="region")


# ---------------------------------------------------------------- engines


@pytest.mark.parametrize("place", ["polars", "duckdb"])
def test_an_engine_is_asked_by_groups_not_by_domain(samples, place, monkeypatch):
    """As many queries for 20 domains as for 2."""
    asked = []
    collect = nw.LazyFrame.collect
    monkeypatch.setattr(
        nw.LazyFrame, "collect", lambda *given, **options: asked.append(1) or collect(*given, **options)
    )
    many = {name: frame.assign(two=frame.index % 2, twenty=frame.index % 20) for name, frame in samples.items()}
    fit = vardi.debias(PLACES[place](many), LENGTH_BIASED)
    fit.expectation("y")
    counts = []
    for by in ("two", "twenty"):
        asked.clear()
        assert str(fit.expectation("y", by=by))
        counts.append(len(asked))
    assert counts == [8, 8]  # four of each frame: domains, means, products with x, deviations; y was checked before


@pytest.mark.parametrize("place", ["polars", "duckdb"])
def test_an_offset_does_not_take_the_digits_of_an_error(samples, place):
    """In the engine deviations are from the means, so that 1e8 beside 1 leaves eight digits."""
    far = {name: frame.assign(far=frame["y"] + 1e8) for name, frame in samples.items()}
    memory, engine = (vardi.debias(PLACES[one](far), LENGTH_BIASED) for one in ("memory", place))
    one, other = memory.expectation("y", by="region"), engine.expectation("far", by="region")
    close([a.stderr for a in other.values()], [a.stderr for a in one.values()], rtol=1e-6)


def test_a_labelled_frame_of_an_engine_may_be_asked_by_its_label(samples):
    pool = pd.concat([frame.assign(s=name) for name, frame in samples.items()], ignore_index=True)
    memory = vardi.debias(pool, LENGTH_BIASED, source="s").expectation("y", by="s")
    engine = vardi.debias(pl.from_pandas(pool).lazy(), LENGTH_BIASED, source="s").expectation("y", by="s")
    close([numbers(a) for a in engine.values()], [numbers(a) for a in memory.values()], rtol=1e-8)


@pytest.mark.parametrize("place", ["polars", "duckdb"])
def test_labels_of_any_kind_are_the_same_in_engines(samples, place):
    kinds = {
        "flag": lambda frame: frame["x"] > 3.0,
        "number": lambda frame: (frame["year"] - 2019) / 3.0,
        "whole": lambda frame: frame["year"],
        "day": lambda frame: pd.to_datetime(frame["year"].astype(str) + "-03-01"),
        "odd name, it's": lambda frame: frame["region"] + "'\"` ",
    }
    frames = {
        name: frame.assign(**{kind: make(frame) for kind, make in kinds.items()}) for name, frame in samples.items()
    }
    memory, engine = (vardi.debias(PLACES[one](frames), LENGTH_BIASED) for one in ("memory", place))
    for kind in kinds:
        one, other = memory.expectation("y", by=kind), engine.expectation("y", by=kind)
        assert list(one) == list(other)
        close([numbers(a) for a in other.values()], [numbers(a) for a in one.values()], rtol=1e-8)
        close(
            [numbers(a) for a in engine.proportions(kind).values()],
            [numbers(a) for a in memory.proportions(kind).values()],
            rtol=1e-8,
        )


def test_an_enum_of_an_engine_keeps_its_order(samples):
    order = pl.Enum(["W", "none", "S", "N"])
    lazy = {name: frame.with_columns(pl.col("region").cast(order)) for name, frame in PLACES["polars"](samples).items()}
    assert list(vardi.debias(lazy, LENGTH_BIASED).expectation("y", by="region")) == ["W", "S", "N"]

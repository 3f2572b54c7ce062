"""The analyses of the guides, on data in the form of those they speak of: see tests/textbook.py."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from textbook import origins, read

import vardi
from vardi.learn import inference

BASAL_AREA_FACTOR, PLOTS = 6.43, 144  # of Upper Flat Creek, m2/ha; on 12 plots no tree was counted


def within(estimate, truth, level=0.95):
    low, high = estimate.at(level).interval
    return low <= truth <= high


# ---------------------------------------------------------------- surveys with clusters


@pytest.mark.parametrize("origin", origins("schools", "schools by level"))
def test_strata_with_rates_of_their_own_have_the_textbooks_error(origin):
    """Each stratum a sample of known share and finite population: sum (N_h / N)^2 (1 - f_h) s_h^2 / n_h."""
    frame = read(origin, "schools by level")
    sizes = read(origin, "schools")["stype"].value_counts().to_dict()
    N = sum(sizes.values())
    fit = vardi.debias(
        dict(list(frame.groupby("stype"))),
        {kind: f"stype == '{kind}'" for kind in sizes},
        known={kind: size / N for kind, size in sizes.items()},
        population=sizes,
    )
    for column, estimate, scale in (
        ("api00", fit.expectation("api00"), 1.0),
        ("enroll", fit.total("enroll", size=N), N),
    ):
        own = frame.groupby("stype")[column].agg(["mean", "var", "count"])
        share = pd.Series(sizes) / N
        variance = (share**2 * (1 - own["count"] / pd.Series(sizes)) * own["var"] / own["count"]).sum()
        assert_allclose([estimate.value, estimate.stderr], [scale * (share * own["mean"]).sum(), scale * variance**0.5])
    if origin == "published":
        assert sizes == {"E": 4421, "M": 1018, "H": 755}
        assert round(fit.expectation("api00").value, 2) == 662.29
        assert round(fit.expectation("api00").stderr, 4) == 9.4089
        total = fit.total("enroll", size=N)
        assert (round(total.value), round(total.stderr)) == (3687178, 114642)


@pytest.mark.parametrize("origin", origins("schools"))
def test_schools_drawn_in_two_stages_are_linearised_as_in_the_textbooks(origin):
    """Districts within levels of size, then schools: totals of w (y - mean) by district vary within the level."""
    schools = read(origin, "schools")[["cds", "dnum", "api00", "enroll"]].dropna().reset_index(drop=True)
    districts = schools.groupby("dnum").size().rename("schools").reset_index()
    districts["level"] = pd.cut(districts["schools"], [0, 3, 12, 10_000], labels=False)
    districts["districts"] = districts.groupby("level")["dnum"].transform("size")
    rng = np.random.default_rng(3)
    drawn = districts.groupby("level").sample(40, random_state=rng)
    chosen = schools.merge(drawn, on="dnum").sample(frac=1, random_state=rng).groupby("dnum").head(6)
    chance = "40 / districts * min(1, 6 / schools)"
    fit = vardi.debias({"survey": chosen}, {"survey": chance}, clusters="dnum", strata="level")
    mean = fit.expectation("api00")
    w = chosen["districts"] / 40 / np.minimum(1, 6 / chosen["schools"])
    value = np.average(chosen["api00"], weights=w)
    totals = (w * (chosen["api00"] - value) / w.sum()).groupby([chosen["level"], chosen["dnum"]]).sum()
    expected = sum(40 / 39 * ((own - own.mean()) ** 2).sum() for _, own in totals.groupby(level=0))
    assert_allclose([mean.value, mean.stderr], [value, np.sqrt(expected)])
    assert within(mean, schools["api00"].mean())
    as_random = vardi.debias({"survey": chosen}, {"survey": chance}).expectation("api00")
    assert mean.stderr > 1.3 * as_random.stderr


# ---------------------------------------------------------------- forest inventory


def stand(origin):
    frame = read(origin, "trees").rename(columns={"dbh.cm": "dbh", "height.m": "height"})
    return frame.assign(area=np.pi / 40_000 * frame["dbh"] ** 2)


@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")
@pytest.mark.parametrize("origin", origins("trees"))
def test_trees_counted_by_angle_are_thinner_than_they_look(origin):
    trees = stand(origin)
    fit = vardi.debias({"trees": trees}, {"trees": "dbh ** 2"}, clusters="plot")
    mean = fit.expectation("dbh")
    assert_allclose(mean.value, (1 / trees["dbh"]).sum() / (1 / trees["dbh"] ** 2).sum())
    if origin == "published":
        assert (round(trees["dbh"].mean(), 2), round(mean.value, 2)) == (37.41, 22.84)
    else:
        assert within(mean, 24.0)
    counted = trees["species"].value_counts()
    shares = fit.proportions("species")
    weight = (1 / trees["area"]).groupby(trees["species"]).sum()
    for species in counted.index:
        assert_allclose(shares[species].value, weight[species] / weight.sum())


@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")
@pytest.mark.parametrize("origin", origins("trees"))
def test_densities_are_the_handbooks_with_empty_plots(origin):
    """Horvitz and Thompson: factor / plots sum 1 / area, and the spread of plot totals over 144 plots as its error."""
    trees = stand(origin)
    empty = sorted(set(range(1, 1000)) - set(trees["plot"]))[: PLOTS - trees["plot"].nunique()]
    plots = [*trees["plot"].unique(), *empty]
    ground = pd.DataFrame({"plot": plots, "species": "ground", "tree": 0, "hectares": 1, "area": 0.0, "chance": 1.0})
    standing = trees.assign(tree=1, hectares=0, chance=trees["area"] / BASAL_AREA_FACTOR)
    rows = pd.concat([standing, ground], ignore_index=True)
    fit = vardi.debias({"plots": rows}, {"plots": "chance"}, clusters="plot")
    found = {
        "tree": fit.total("tree", relative_to=("hectares", 1), by="species"),
        "area": fit.total("area", relative_to=("hectares", 1), by="species"),
    }
    for column, table in found.items():
        for species in ("DF", "GF", "WC", "WL"):
            own = trees[trees["species"] == species]
            stands_for = BASAL_AREA_FACTOR / own["area"] * (own["area"] if column == "area" else 1.0)
            by_plot = stands_for.groupby(own["plot"]).sum().reindex(plots, fill_value=0.0)
            assert_allclose(table[species].value, by_plot.mean())
            assert_allclose(table[species].stderr, by_plot.std() / np.sqrt(PLOTS))
    basal_area = fit.total("area", relative_to=("hectares", 1))
    assert_allclose(basal_area.value, BASAL_AREA_FACTOR * len(trees) / PLOTS)


# ---------------------------------------------------------------- case-cohort


@pytest.fixture(params=origins("cohort"))
def origin(request):
    return request.param


@pytest.fixture
def cohort(origin):
    frame = read(origin, "cohort")
    return pd.DataFrame(
        {
            "unfavourable": (frame["histol"] == 2) * 1.0,
            "late": (frame["stage"] > 2) * 1.0,
            "years": frame["age"] / 12,
            "rel": frame["rel"] * 1.0,
            "subcohort": frame["in.subcohort"].astype(bool),
        }
    )


FORMULA = "rel ~ unfavourable + late + years"
MODEL = LogisticRegression(C=np.inf)


def measured(cohort):
    rate = cohort.loc[cohort["rel"] == 0, "subcohort"].mean()
    rows = cohort[cohort["subcohort"] | (cohort["rel"] == 1)]
    return rows, vardi.debias({"measured": rows}, {"measured": f"(rel == 1) + {rate} * (rel == 0)"})


def test_the_coefficients_of_the_whole_cohort_are_within_the_intervals(cohort, origin):
    pytest.importorskip("formulaic")
    rows, fit = measured(cohort)
    if origin == "published":
        assert (len(rows), int(cohort["rel"].sum()), int(cohort["subcohort"].sum())) == (1154, 571, 668)
    whole = inference(vardi.debias({"cohort": cohort}, {"cohort": 1}), MODEL, FORMULA)
    found = inference(fit, MODEL, FORMULA)
    assert all(within(found[name], whole[name].value) for name in whole.names)
    as_measured = inference(vardi.debias({"measured": rows}, {"measured": 1}), MODEL, FORMULA)
    assert not within(as_measured["intercept"], whole["intercept"].value, level=0.999)
    alone = cohort[cohort["subcohort"]]
    subcohort = inference(vardi.debias({"subcohort": alone}, {"subcohort": 1}), MODEL, FORMULA)
    assert all(found[name].stderr < 0.7 * subcohort[name].stderr for name in whole.names)
    samples = {"subcohort": alone, "added": cohort[~cohort["subcohort"] & (cohort["rel"] == 1)]}
    pooled = inference(vardi.debias(samples, {"subcohort": 1, "added": "rel == 1"}), MODEL, FORMULA)
    assert all(within(pooled[name], whole[name].value) for name in whole.names)


def test_shares_of_the_cohort_come_back(cohort):
    rows, fit = measured(cohort)
    share = fit.expectation("unfavourable")
    assert within(share, cohort["unfavourable"].mean())
    assert rows["unfavourable"].mean() > share.at(0.999).interval[1]
    assert_allclose(fit.expectation("rel").value, cohort["rel"].mean())  # the rate is the one that was drawn


def test_errors_of_the_cohort_itself_leave_out_its_cases(cohort):
    """Two samples of known shares with finite populations: those who relapsed are all there, and add no error."""
    rows, _ = measured(cohort)
    sizes = {"cases": int(cohort["rel"].sum()), "others": int((1 - cohort["rel"]).sum())}
    parts = {"cases": rows[rows["rel"] == 1], "others": rows[rows["rel"] == 0]}
    known = {name: size / len(cohort) for name, size in sizes.items()}
    conditions = {"cases": "rel == 1", "others": "rel == 0"}
    fit = vardi.debias(parts, conditions, known=known, population=sizes)
    share, others = fit.expectation("unfavourable"), parts["others"]["unfavourable"]
    fraction = len(others) / sizes["others"]
    expected = known["others"] * np.sqrt((1 - fraction) * others.var() / len(others))
    assert_allclose(share.stderr, expected)
    assert within(share, cohort["unfavourable"].mean())
    whole = inference(vardi.debias({"cohort": cohort}, {"cohort": 1}), MODEL, ["unfavourable", "late", "years"], "rel")
    found = inference(fit, MODEL, ["unfavourable", "late", "years"], "rel")
    wider = inference(vardi.debias(parts, conditions, known=known), MODEL, ["unfavourable", "late", "years"], "rel")
    for name in whole.names:
        assert within(found[name], whole[name].value, level=0.99)
        assert found[name].stderr < wider[name].stderr


# ---------------------------------------------------------------- an election


@pytest.mark.parametrize("origin", origins("counties", "counties drawn"))
def test_counties_drawn_by_votes_give_the_votes(origin):
    counties, every = read(origin, "counties drawn"), read(origin, "counties")
    fit = vardi.debias({"drawn": counties}, {"drawn": "votes"})
    votes = float(every["votes"].sum())
    for name in ("Bush", "Kerry", "Nader"):
        assert within(fit.total(name, relative_to=("votes", votes)), every[name].sum())
    by_p = vardi.debias({"drawn": counties}, {"drawn": "p"}).total("Bush", relative_to=("p", len(counties)))
    assert_allclose(by_p.value, (counties["Bush"] * counties["wt"]).sum())
    naive = len(every) * counties["Bush"].mean()
    if origin == "published":
        assert round(by_p.value) == 64518472
        assert naive > 10 * every["Bush"].sum()
    assert naive > 5 * every["Bush"].sum()


# ---------------------------------------------------------------- length bias, double truncation


@pytest.mark.parametrize("origin", origins("shrubs"))
@pytest.mark.parametrize(("replica", "plain", "debiased"), [("I", 1.0887, 0.7585), ("II", 0.8635, 0.5342)])
def test_shrubs_crossed_by_a_line_have_their_harmonic_mean(origin, replica, plain, debiased):
    shrubs = read(origin, "shrubs").query("Replica == @replica")
    fit = vardi.debias({"crossed": shrubs}, {"crossed": "Width"})
    assert_allclose([fit.expectation("Width").value, fit.omegas["crossed"]], 1 / (1 / shrubs["Width"]).mean())
    if origin == "published":
        assert (round(shrubs["Width"].mean(), 4), round(fit.omegas["crossed"], 4)) == (plain, debiased)
    else:
        assert within(fit.expectation("Width"), 0.8)


@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")
@pytest.mark.parametrize("origin", origins("aids"))
def test_incubations_of_a_registry_are_longer_than_they_look(origin):
    """Seen within 54 months, they last 32 months on average; both ends together say 59, and the closing alone more."""
    cases = read(origin, "aids")
    both, closing = (
        vardi.debias({"registry": cases}, {"registry": vardi.window("X", low, "V")}).expectation("X")
        for low in ("U", None)
    )
    assert cases["X"].mean() < both.interval[0]
    assert both.value < closing.value
    children = cases[cases["AGE"] < 5]
    young = vardi.debias({"registry": children}, {"registry": vardi.window("X", "U", "V")}).expectation("X")
    assert young.interval[1] < both.interval[0]


@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")
@pytest.mark.parametrize("origin", origins("quasars"))
def test_quasars_are_fainter_than_they_look(origin):
    """Most are too faint to be seen: a chance of a few percent, and a mean far below that of the seen."""
    quasars = read(origin, "quasars")
    fit = vardi.debias({"seen": quasars}, {"seen": vardi.window("y", "u", "v")})
    assert fit.expectation("y").at(0.99).interval[1] < quasars["y"].mean()
    assert fit.normalisers()["seen"].interval[1] < 0.2
    assert fit.check_biases().pvalue > 0.05

"""Tables in the form of published ones, made here by a law that is known; and the published ones, where they are.

``origins("shrubs")`` are the parameters of a test: "made" always, and "published" where the file is in ``shared/data``
beside the repository. ``read(origin, "shrubs")`` is the table. Figures that were printed hold of the published only.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.signal import lfilter
from scipy.special import ndtr

PUBLISHED = Path(__file__).parents[2] / "shared" / "data"
FILES = {
    "aids": "aids_doubly_truncated",
    "channing": "channing",
    "cohort": "nwtco",
    "counties": "election",
    "counties drawn": "election_pps",
    "quasars": "quasars",
    "schools": "apipop",
    "schools by level": "apistrat",
    "schools at random": "apisrs",
    "shrubs": "shrub",
    "trees": "ufc_trees",
    "umbrella frames": "umbrella_chi",
    "umbrella windows": "umbrella_windows",
}


def origins(*names: str) -> list[str]:
    """Return where these tables can be had from: "made", and "published" if all their files are there."""
    return ["made", *(["published"] if all(_path(name).exists() for name in names) else [])]


def read(origin: str, name: str) -> pd.DataFrame:
    if origin == "published":
        return pd.read_csv(_path(name), dtype={"cds": str})
    return MADE[name]().copy()


def _path(name: str) -> Path:
    return PUBLISHED / f"{FILES[name]}.csv"


# ---------------------------------------------------------------- schools: districts of all sizes, three levels


@cache
def _schools() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    sizes = np.ceil(rng.lognormal(1.4, 1.1, 750)).astype(int)
    district = np.repeat(np.arange(len(sizes)), sizes)
    n = len(district)
    level = rng.choice(["E", "M", "H"], n, p=[0.71, 0.17, 0.12])
    poverty = (rng.normal(0.0, 0.8, len(sizes))[district] + rng.normal(0.0, 0.6, n)).clip(-2.5, 2.5)
    pupils = rng.lognormal([{"E": 6.0, "M": 6.7, "H": 7.1}[one] for one in level], 0.5)
    index = rng.normal([{"E": 690, "M": 650, "H": 570}[one] for one in level], 70.0) - 85 * poverty
    schools = pd.DataFrame(
        {
            "cds": [f"{place:014d}" for place in range(n)],
            "stype": level,
            "dnum": district,
            "api00": index.round(),
            "meals": (100 * ndtr(poverty)).round(),
            "enroll": pupils.round(),
        }
    )
    schools.loc[rng.choice(n, 37, replace=False), "enroll"] = np.nan
    return schools


@cache
def _schools_by_level() -> pd.DataFrame:
    schools, sizes = _schools().dropna(), {"E": 100, "M": 50, "H": 50}
    drawn = [schools[schools["stype"] == level].sample(n, random_state=0) for level, n in sizes.items()]
    there = _schools()["stype"].value_counts()
    return pd.concat(drawn).assign(pw=lambda rows: rows["stype"].map(lambda level: there[level] / sizes[level]))


@cache
def _schools_at_random() -> pd.DataFrame:
    return _schools().dropna().sample(200, random_state=0)


# ---------------------------------------------------------------- a forest: trees counted by angle on plots


@cache
def _trees() -> pd.DataFrame:
    """Diameters are gamma of shape 4, so those counted, in proportion to their square, are gamma of shape 6."""
    rng = np.random.default_rng(0)
    plot = np.repeat(np.arange(1, 145), rng.poisson(2.4, 144))
    n = len(plot)
    species = rng.choice(["DF", "GF", "WC", "WL"], n, p=[0.2, 0.55, 0.15, 0.1])
    dbh = rng.gamma(6.0, 6.0, n).clip(9.0)
    height = 1.3 + 35 * (1 - np.exp(-dbh / 35)) + rng.normal(0.0, 2.0, n)
    return pd.DataFrame(
        {"plot": plot, "tree": np.arange(n), "species": species, "dbh.cm": dbh.round(1), "height.m": height.round(1)}
    )


# ---------------------------------------------------------------- a cohort: relapses, and a subcohort drawn at random


@cache
def _cohort() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 4000
    histology, stage = 1 + (rng.random(n) < 0.11), rng.choice([1, 2, 3, 4], n, p=[0.38, 0.26, 0.24, 0.12])
    age = rng.gamma(2.2, 20.0, n).round()
    score = -2.7 + 1.6 * (histology == 2) + 0.75 * (stage > 2) + 0.07 * age / 12
    return pd.DataFrame(
        {
            "seqno": rng.permutation(n) + 1,
            "histol": histology,
            "stage": stage,
            "rel": (rng.random(n) < 1 / (1 + np.exp(-score))).astype(int),
            "age": age,
            "in.subcohort": rng.permutation(n) < 500,
        }
    )


# ---------------------------------------------------------------- an election: counties, and 40 drawn by their votes


@cache
def _counties() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 4600
    votes = np.ceil(rng.lognormal(8.6, 1.7, n))
    first = rng.beta(8.0, 6.0, n) - 0.06 * np.log(votes / votes.mean()).clip(-2, 3)
    bush, nader = np.round(votes * first.clip(0.05, 0.95)), np.round(votes * rng.uniform(0.0, 0.008, n))
    counties = pd.DataFrame({"Bush": bush, "Kerry": (votes - bush - nader).clip(0), "Nader": nader})
    return counties.assign(votes=votes, p=40 * votes / votes.sum())


@cache
def _counties_drawn() -> pd.DataFrame:
    """Return a systematic draw: each county comes with the chance p."""
    counties = _counties().sample(frac=1.0, random_state=0)
    reached = np.floor(counties["p"].cumsum() + 0.5)
    drawn = counties[reached.diff().fillna(reached.iloc[0]) > 0]
    return drawn.assign(wt=1 / drawn["p"]).reset_index(drop=True)


# ---------------------------------------------------------------- length bias and truncation


@cache
def _shrubs() -> pd.DataFrame:
    """Widths are gamma of shape 5 and mean 0.8, so those crossed by a line are gamma of shape 6."""
    rng = np.random.default_rng(0)
    replica = np.repeat(["I", "II"], [46, 43])
    return pd.DataFrame({"Replica": replica, "Width": rng.gamma(6.0, 0.16, len(replica)).round(2)})


@cache
def _aids() -> pd.DataFrame:
    """Incubations in months, of which a registry of 54 months has those that ended while it was kept."""
    rng = np.random.default_rng(0)
    n = 2000
    age = np.where(rng.random(n) < 0.2, rng.integers(1, 5, n), rng.integers(5, 80, n))
    incubation = np.where(age < 5, rng.gamma(3.0, 6.0, n), rng.gamma(4.0, 15.0, n)).round()
    start = 48 - rng.gamma(3.0, 16.0, n).round()  # ever more are infected towards the end
    low = -start.clip(-48, 54)
    seen = (low <= incubation) & (incubation <= low + 54)
    rows = pd.DataFrame({"X": incubation, "U": low, "V": low + 54, "AGE": age})
    return rows[seen].head(295).reset_index(drop=True)


@cache
def _quasars() -> pd.DataFrame:
    """Log luminosities, standard normal; most windows are above them, and 4% are seen."""
    rng = np.random.default_rng(0)
    y, u = rng.normal(size=6000), rng.normal(2.6, 1.2, 6000)
    v = u + rng.uniform(1.0, 2.5, 6000)
    seen = (u <= y) & (y <= v)
    return pd.DataFrame({"y": y, "u": u, "v": v})[seen].head(210).reset_index(drop=True)


@cache
def _channing() -> pd.DataFrame:
    """Ages in months at which people entered a house, and left it or died there; five are misrecorded."""
    rng = np.random.default_rng(0)
    entry = rng.normal(900, 60, 462).round()
    stay = np.ceil(rng.exponential(80, 462))
    stay[rng.choice(462, 5, replace=False)] *= -1
    return pd.DataFrame({"entry": entry, "exit": entry + stay, "cens": (rng.random(462) < 0.4).astype(int)})


# ---------------------------------------------------------------- umbrella windows over a torsion

KT = 0.00831638 * 300.0  # kJ/mol, with the constant and the temperature of the published example
SLOW = 16  # the window whose frames depend most on one another
PERSISTENCE = {window: 0.83 if window == SLOW else 0.3 for window in range(26)}


def torsion(degrees: np.ndarray) -> np.ndarray:
    """Return the free energy of the made windows, in units of kT."""
    x = np.radians(degrees)
    return 2.5 * np.cos(3 * x) + 1.5 * np.cos(x - 0.7) + 0.5 * np.sin(2 * x)


@cache
def _umbrella_windows() -> pd.DataFrame:
    centres = np.linspace(-180.0, 180.0, 26, endpoint=False)
    return pd.DataFrame({"window": range(26), "center_deg": centres, "k_kJ_mol_rad2": 200.0, "temperature_K": 300.0})


@cache
def _umbrella_frames() -> pd.DataFrame:
    """Each window's own law by its inverse, of normal variables that follow an autoregression."""
    rng = np.random.default_rng(0)
    frames = []
    for window, centre, k, _ in _umbrella_windows().itertuples(index=False):
        x = np.linspace(centre - 90, centre + 90, 4001)
        density = np.exp(-torsion(x) - k / (2 * KT) * np.radians(x - centre) ** 2)
        rho = PERSISTENCE[window]
        noise = rng.normal(size=601) * np.sqrt(1 - rho**2)
        normal = lfilter([1.0], [1.0, -rho], noise)[100:]
        chi = np.interp(ndtr(normal), np.cumsum(density) / density.sum(), x)
        frames.append(pd.DataFrame({"window": window, "chi_deg": chi}))
    return pd.concat(frames, ignore_index=True)


MADE = {
    "aids": _aids,
    "channing": _channing,
    "cohort": _cohort,
    "counties": _counties,
    "counties drawn": _counties_drawn,
    "quasars": _quasars,
    "schools": _schools,
    "schools by level": _schools_by_level,
    "schools at random": _schools_at_random,
    "shrubs": _shrubs,
    "trees": _trees,
    "umbrella frames": _umbrella_frames,
    "umbrella windows": _umbrella_windows,
}

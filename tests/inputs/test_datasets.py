"""The shipped tables against their sources, and every simulated design against its own truth."""

from __future__ import annotations

import hashlib
import inspect
import lzma
import math
import subprocess
import sys
from importlib.resources import files

import narwhals as nw
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.sparse.csgraph import connected_components
from scipy.stats import beta

import vardi.datasets as datasets
from vardi.errors import EmptySampleError, MismatchError

FRAMES = ("pandas", "polars", "pyarrow")
DATA = files("vardi.datasets").joinpath("data")
LETTERS = "abcdefghijkl"

# ---------------------------------------------------------------- the files


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_the_shipped_files_have_their_checksums():
    lines = DATA.joinpath("SHA256SUMS").read_text().splitlines()
    assert {line.split()[1] for line in lines} == {"boston.csv", "adult.csv.xz"}
    for line in lines:
        expected, name = line.split()
        assert sha256(DATA.joinpath(name).read_bytes()) == expected


def test_sources_give_the_checksums_of_the_originals():
    sources = DATA.joinpath("SOURCES.md").read_text()
    content = lzma.decompress(DATA.joinpath("adult.csv.xz").read_bytes())
    assert sha256(content) in sources
    header, rows = DATA.joinpath("boston.csv").read_text().split("\n", 1)
    quoted = ",".join(f'"{name}"' for name in header.split(","))
    original = f"506,13{12 * ','}\n{quoted}\n{rows}"
    assert sha256(original.encode()) in sources


def test_boston_is_what_the_file_says():
    header, rows = DATA.joinpath("boston.csv").read_text().split("\n", 1)
    table = datasets.boston("numpy")
    assert header.split(",") == list(table.dtype.names)
    assert np.array_equal(
        np.loadtxt(rows.splitlines(), delimiter=","), np.column_stack([table[name] for name in table.dtype.names])
    )


@pytest.mark.parametrize(
    ("part", "before", "stop"), [("train", "", ""), ("test", "|1x3 Cross validator\n", ".")], ids=["train", "test"]
)
def test_adult_is_the_original_file(part, before, stop):
    """Its rows give the bytes that UCI publishes, whose checksums are known."""
    rows = [map(str, row) for row in datasets.adult("numpy", part=part).tolist()]
    original = before + "".join(", ".join(row) + f"{stop}\n" for row in rows) + "\n"
    assert sha256(original.encode()) in DATA.joinpath("SOURCES.md").read_text()


# ---------------------------------------------------------------- known facts


def test_boston_facts():
    table = datasets.boston("numpy")
    assert table.shape == (506,)
    assert len(table.dtype.names) == 14
    assert round(float(table["MEDV"].mean()), 4) == 22.5328
    assert (table["MEDV"] == 50).sum() == 16
    assert table["CHAS"].sum() == 35
    assert "race" in DATA.joinpath("SOURCES.md").read_text()
    assert "withdrew" in inspect.getdoc(datasets.boston)


@pytest.mark.parametrize(
    ("part", "rows", "rich", "missing", "complete"),
    [
        ("train", 32561, 7841, (1836, 1843, 583), 30162),
        ("test", 16281, 3846, (963, 966, 274), 15060),
        (None, 48842, 11687, (2799, 2809, 857), 45222),
    ],
)
def test_adult_facts(part, rows, rich, missing, complete):
    table = datasets.adult("numpy", part=part)
    unknown = np.array([table[name] == "?" for name in ("workclass", "occupation", "native-country")])
    assert len(table) == rows
    assert (table["income"] == ">50K").sum() == rich
    assert set(table["income"].tolist()) == {"<=50K", ">50K"}
    assert tuple(unknown.sum(axis=1)) == missing
    assert (~unknown.any(axis=0)).sum() == complete
    assert not any((table[name] == "?").any() for name in ("education", "marital-status", "sex", "race"))


def test_adult_parts_follow_each_other_and_keep_duplicates():
    both, train, test = (datasets.adult("numpy", part=part).tolist() for part in (None, "train", "test"))
    assert both == train + test
    assert len(train) - len(set(train)) == 24


# ---------------------------------------------------------------- backends


@pytest.mark.parametrize("backend", FRAMES)
@pytest.mark.parametrize("table", ["boston", "adult"])
def test_frames_hold_what_the_structured_array_holds(backend, table):
    load = getattr(datasets, table)
    native, array = load(backend=backend), load(backend="numpy")
    frame = nw.from_native(native, eager_only=True)
    assert type(native).__module__.split(".")[0] == backend
    assert tuple(frame.columns) == array.dtype.names
    for name in frame.columns:
        values = array[name]
        kind = {"i": nw.Int64, "f": nw.Float64, "U": nw.String}[values.dtype.kind]
        assert frame[name].dtype == kind
        if kind is nw.String:
            assert frame[name].fill_null("?").to_list() == values.tolist()
            assert frame[name].null_count() == (values == "?").sum()
        else:
            assert np.array_equal(frame[name].to_numpy(), values)


@pytest.mark.parametrize("backend", FRAMES)
def test_house_prices_draws_the_same_rows_in_every_backend(backend):
    frames, arrays = datasets.house_prices(3, backend), datasets.house_prices(3, "numpy")
    for name, rows in [*arrays.samples.items(), ("test", arrays.test)]:
        frame = nw.from_native({**frames.samples, "test": frames.test}[name], eager_only=True)
        assert frame["MEDV"].to_list() == rows["MEDV"].tolist()


def test_no_frame_library_is_needed():
    code = (
        "import sys; sys.modules.update(pandas=None, polars=None, pyarrow=None)\n"
        "from vardi.datasets import adult, boston, house_prices\n"
        "print(len(boston('numpy')), len(adult('numpy')), len(house_prices(backend='numpy').test))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["506", "48842", "100"]


@pytest.mark.parametrize("backend", FRAMES)
def test_a_missing_library_names_its_install_command(backend, monkeypatch):
    monkeypatch.setitem(sys.modules, backend, None)
    with pytest.raises(ImportError, match=rf"`pip install {backend}`.*backend='numpy'") as caught:
        datasets.boston(backend)
    assert caught.value.name == backend


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(MismatchError, match=r"'polar'. There are pandas, polars, .* Did you mean 'polars'\?"):
        datasets.boston("polar")
    with pytest.raises(MismatchError, match="no part 'valid'. Give 'train', 'test' or None"):
        datasets.adult(part="valid")
    with pytest.raises(MismatchError, match="There is no Gaussian scenario 'm'. Give a letter a to l"):
        datasets.gaussian_scenario("m")


# ---------------------------------------------------------------- house prices


@pytest.mark.parametrize("seed", range(5))
def test_house_prices_follows_the_protocol(seed):
    design = datasets.house_prices(seed, "numpy")
    agency, national = (design.samples[name].tolist() for name in ("agency", "national"))
    test = design.test.tolist()
    population = datasets.boston("numpy").tolist()
    assert (len(agency), len(national), len(test)) == (200, 100, 100)
    assert all(len(set(rows)) == len(rows) for rows in (agency, national, test, population))
    assert design.samples["agency"]["MEDV"].max() <= 22
    assert design.samples["national"]["MEDV"].max() > 22
    assert not set(test) & (set(agency) | set(national))
    assert set(agency) | set(national) | set(test) <= set(population)
    assert design.truth["Omega of agency"] == sum(row[-1] <= 22 for row in population) / 506


# ---------------------------------------------------------------- simulated designs

DESIGNS = {
    "length_bias": lambda seed, n: datasets.length_bias((n, n, n), seed),
    "strata": lambda seed, n: datasets.strata((n, n, n), seed),
    "tilts": lambda seed, n: datasets.tilts((n, n, n), seed),
    "narrow tilts": lambda seed, n: datasets.tilts((n, n), seed, centres=(-0.5, 1), width=1.5),
    "exponential_tilts": lambda seed, n: datasets.exponential_tilts((n, n, n), seed),
    "two_gaussians": lambda seed, n: datasets.two_gaussians(seed, (n, n, n)),
    "multivariate_length_bias": lambda seed, n: datasets.multivariate_length_bias(3, (n, n, n, n), seed),
} | {
    f"scenario {letter}": lambda seed, n, letter=letter: datasets.gaussian_scenario(letter, seed, n)
    for letter in LETTERS
}

FUNCTIONS = {"abs": abs, "exp": math.exp, "sqrt": math.sqrt}


def columns(rows):
    return {"x": rows} if rows.ndim == 1 else {f"x{j}": column for j, column in enumerate(rows.T)}


def omega(text, rows):
    """Evaluate a bias on every row by Python itself, apart from the library's own reader of expressions."""
    bias = eval(f"lambda {', '.join(columns(rows))}: {text}", FUNCTIONS)
    return np.array([*map(bias, *(column.tolist() for column in columns(rows).values()))], dtype=float)


def means_under_population(design, values):
    """Return mean and standard error of E_P f = sum_k lambda_k E_k [f / S], S = sum_l lambda_l omega_l / Omega_l.

    With the true Omegas the identity is exact, so it fails if an Omega, a bias or a draw is wrong.
    """
    total = sum(len(rows) for rows in design.samples.values())
    mean, variance = 0.0, 0.0
    for rows in design.samples.values():
        scale = sum(
            len(design.samples[name]) / total * omega(text, rows) / design.truth[f"Omega of {name}"]
            for name, text in design.biases.items()
        )
        share = len(rows) / total
        terms = values(rows) / scale
        mean += share * terms.mean()
        variance += share**2 * terms.var() / len(rows)
    return mean, math.sqrt(variance)


def assert_within_four_errors(estimate, truth):
    mean, error = estimate
    assert abs(mean - truth) <= 4 * error + 1e-12, f"{mean} +- {error} is far from {truth}"


@pytest.mark.parametrize("name", DESIGNS)
def test_samples_satisfy_their_biases(name):
    design = DESIGNS[name](1, 300)
    assert design.samples.keys() == design.biases.keys()
    for sample, rows in design.samples.items():
        assert rows.dtype == np.float64
        assert (omega(design.biases[sample], rows) > 0).all()


@pytest.mark.parametrize("name", DESIGNS)
def test_designs_are_functions_of_the_seed(name):
    first, again, other = DESIGNS[name](7, 200), DESIGNS[name](7, 200), DESIGNS[name](8, 200)
    for sample, rows in first.samples.items():
        assert np.array_equal(rows, again.samples[sample])
        assert not np.array_equal(rows, other.samples[sample])
    assert first.biases == again.biases
    assert first.test is None or np.array_equal(first.test, again.test)


@pytest.mark.parametrize("name", DESIGNS)
def test_the_normalisers_are_true(name):
    design = DESIGNS[name](11, 6000)
    assert_within_four_errors(means_under_population(design, lambda rows: np.ones(len(rows))), 1.0)
    for sample, text in design.biases.items():
        estimate = means_under_population(design, lambda rows, text=text: omega(text, rows))
        assert_within_four_errors(estimate, design.truth[f"Omega of {sample}"])


def test_the_normalisers_of_the_scenarios_are_shares_of_the_population():
    rows = np.random.default_rng(29).standard_normal((200_000, 3))
    masses = {}
    for design in (datasets.gaussian_scenario(letter, n=20) for letter in LETTERS):
        masses |= {text: design.truth[f"Omega of {name}"] for name, text in design.biases.items()}
    assert len(masses) == 9
    for text, mass in masses.items():
        inside = omega(text, rows)
        assert_within_four_errors((inside.mean(), inside.std() / math.sqrt(len(rows))), mass)


def norm(rows):
    return np.linalg.norm(rows, axis=1)


QUANTITIES = {"length_bias": lambda x: x, "strata": lambda rows: rows[:, 1]}


@pytest.mark.parametrize(
    "name", [name for name in DESIGNS if name not in ("two_gaussians", "multivariate_length_bias")]
)
def test_the_mean_is_true(name):
    design = DESIGNS[name](13, 6000)
    quantity = norm if name.startswith("scenario") else QUANTITIES.get(name, lambda x: x)
    assert_within_four_errors(means_under_population(design, quantity), design.truth["mean"])


@pytest.mark.parametrize("name", ["strata", "two_gaussians", "multivariate_length_bias"])
def test_the_means_of_columns_are_true(name):
    design = DESIGNS[name](17, 6000)
    for key, truth in design.truth.items():
        if key.startswith("mean of x"):
            column = int(key.removeprefix("mean of x"))
            estimate = means_under_population(design, lambda rows, column=column: rows[:, column])
            assert_within_four_errors(estimate, truth)


@pytest.mark.parametrize("name", ["length_bias", "tilts", "narrow tilts", "exponential_tilts"])
def test_the_variance_is_true(name):
    design = DESIGNS[name](19, 6000)
    estimate = means_under_population(design, lambda x: (x - design.truth["mean"]) ** 2)
    assert_within_four_errors(estimate, design.truth["variance"])


def test_the_slope_of_the_strata_is_true():
    design = DESIGNS["strata"](23, 6000)
    estimate = means_under_population(design, lambda rows: 12 * (rows[:, 0] - 0.5) * rows[:, 1])
    assert_within_four_errors(estimate, design.truth["slope"])


def test_the_default_sizes_are_those_of_the_literature():
    sizes = {
        datasets.length_bias: [80, 250, 170],
        datasets.strata: [350, 120, 130],
        datasets.tilts: [200, 150, 200],
        datasets.exponential_tilts: [200, 100, 200],
        datasets.two_gaussians: [30, 300, 30],
        datasets.multivariate_length_bias: [100, 200, 200],
    }
    for design, expected in sizes.items():
        assert [len(rows) for rows in design().samples.values()] == expected


SCENARIO_SIZES = {
    "a": [500, 500],
    "b": [900, 100],
    "c": [500, 500],
    "d": [500, 500],
    "e": [100, 900],
    "f": [500, 250, 250],
    "g": [900, 100],
    "h": [500, 500],
    "i": [500, 500],
    "j": [450, 100, 450],
    "k": [250, 500, 250],
    "l": [150, 500, 150, 200],
}


@pytest.mark.parametrize("letter", LETTERS)
def test_scenarios_have_the_sizes_of_the_protocol(letter):
    design = datasets.gaussian_scenario(letter, seed=0)
    assert [len(rows) for rows in design.samples.values()] == SCENARIO_SIZES[letter]
    assert all(rows.shape[1] == 3 for rows in design.samples.values())
    assert design.test.shape == (300, 3)
    assert np.array_equal(design.test, datasets.gaussian_scenario("a", seed=0, n=50).test)


@pytest.mark.parametrize("n", [20, 101, 777, 1003])
@pytest.mark.parametrize("letter", LETTERS)
def test_scenarios_share_out_any_number_of_rows(letter, n):
    sizes = np.array([len(rows) for rows in datasets.gaussian_scenario(letter, n=n).samples.values()])
    assert sizes.sum() == n
    assert np.abs(sizes - np.array(SCENARIO_SIZES[letter]) * n / 1000).max() <= 1


def test_test_rows_are_unbiased():
    rows = np.concatenate([datasets.gaussian_scenario("i", seed).test for seed in range(50)])
    assert_within_four_errors((norm(rows).mean(), norm(rows).std() / math.sqrt(len(rows))), 2 * math.sqrt(2 / math.pi))
    clusters = datasets.two_gaussians(0, (5000, 5000, 5000)).test
    left = clusters[clusters[:, 0] + clusters[:, 1] < 0]  # the bisector parts the clusters at 2.47 sd: few go astray
    assert clusters.shape == (15000, 2)
    assert np.abs(left.mean(axis=0) - [-1.5, -2.0]).max() < 0.05


# ---------------------------------------------------------------- matrix designs


@pytest.mark.parametrize("width", [0.2, 0.5, 1.5])
def test_truncated_rows_lie_in_their_windows(width):
    design = datasets.truncation(n=400, seed=2, width=width)
    start, end = design.truth["windows"].T
    assert design.omega.shape == (400, 400)
    assert not design.log
    assert np.array_equal(design.source, np.arange(400))
    assert ((start <= design.rows) & (design.rows <= end)).all()
    assert np.array_equal(design.omega, (start <= design.rows[:, None]) & (design.rows[:, None] <= end))
    assert np.allclose(end - start, width)
    assert ((design.truth["Omegas"] > 0) & (design.truth["Omegas"] <= 1)).all()


def test_truncation_by_default_can_be_identified():
    for seed in range(20):
        # Row i covered by window k is an edge k -> i, and row i is the whole of sample i.
        omega = datasets.truncation(seed=seed).omega
        assert connected_components(omega.T, directed=True, connection="strong")[0] == 1


def chance_to_be_seen(x, reach=0.25):
    return beta.cdf(x + reach, 1, 2) - beta.cdf(x - reach, 1, 2)


def test_truncation_has_the_laws_it_states():
    design = datasets.truncation(n=3000, seed=5)
    start, end = design.truth["windows"].clip(0, 1).T
    place = (design.rows - start) / (end - start)  # uniform on (0, 1), given the window
    for power in (1, 2, 3):
        terms = place**power
        assert_within_four_errors((terms.mean(), terms.std() / math.sqrt(3000)), 1 / (power + 1))
    plain = (design.rows.mean(), design.rows.std() / math.sqrt(3000))
    assert_within_four_errors(
        plain, quad(lambda x: x * chance_to_be_seen(x), 0, 1)[0] / quad(chance_to_be_seen, 0, 1)[0]
    )
    assert np.allclose(design.truth["Omegas"], end - start)


def test_oscillators_have_the_potentials_and_the_laws_they_state():
    design = datasets.harmonic_oscillators(states=4, rows_per_state=20_000, seed=3, spacing=0.8)
    spring = np.linspace(1, 2, 4)
    assert design.log
    assert np.bincount(design.source).tolist() == [20_000] * 4
    assert np.allclose(design.omega, -spring / 2 * (design.rows[:, None] - 0.8 * np.arange(4)) ** 2)
    differences = design.truth["log Omega differences"]
    assert np.allclose(differences, np.log(np.sqrt(2 * np.pi / spring)) - np.log(np.sqrt(2 * np.pi)))
    for k in range(3):
        # Bridge two states by bounded terms: E_{k+1}[P_k / (P_k + P_{k+1})] = E_k[P_{k+1} / (P_k + P_{k+1})].
        log_ratio = design.omega[:, k] - design.omega[:, k + 1] - (differences[k] - differences[k + 1])
        bridge = 1 / (1 + np.exp(log_ratio))
        forward, backward = 1 - bridge[design.source == k + 1], bridge[design.source == k]
        error = math.sqrt(forward.var() / 20_000 + backward.var() / 20_000)
        assert_within_four_errors((forward.mean() - backward.mean(), error), 0.0)


@pytest.mark.parametrize("make", [datasets.truncation, datasets.harmonic_oscillators])
def test_matrix_designs_are_functions_of_the_seed(make):
    first, again, other = make(seed=1), make(seed=1), make(seed=2)
    assert np.array_equal(first.omega, again.omega)
    assert np.array_equal(first.rows, again.rows)
    assert not np.array_equal(first.rows, other.rows)


# ---------------------------------------------------------------- what bad input gets


def test_sizes_that_do_not_match_name_the_samples():
    with pytest.raises(MismatchError, match=r"3 samples \(plain, length, square\), but 2 sizes were given: \(5, 5\)"):
        datasets.length_bias((5, 5))
    with pytest.raises(MismatchError, match=r"4 samples \(unbiased, by x0, by x1, by x2\), but 3 sizes"):
        datasets.multivariate_length_bias(3)
    with pytest.raises(EmptySampleError, match=r"No rows for middle among the sizes \(5, 0, 5\)") as caught:
        datasets.strata((5, 0, 5))
    assert caught.value.samples == ("middle",)
    with pytest.raises(EmptySampleError, match="No rows for unbiased"):
        datasets.gaussian_scenario("b", n=3)


def test_parameters_that_repeat_are_refused():
    with pytest.raises(MismatchError, match="same name and bias: at 1"):
        datasets.tilts((5, 5), centres=(1, 1.0))
    with pytest.raises(MismatchError, match="same name and bias: theta 0"):
        datasets.exponential_tilts((5, 5, 5), thetas=(0, 2, 0))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: datasets.truncation(n=0), "n"),
        (lambda: datasets.truncation(width=-1), "width"),
        (lambda: datasets.tilts(width=0), "width"),
        (lambda: datasets.harmonic_oscillators(states=0), "states"),
        (lambda: datasets.harmonic_oscillators(rows_per_state=0), "rows_per_state"),
        (lambda: datasets.multivariate_length_bias(0), "dimensions"),
        (lambda: datasets.gaussian_scenario("a", n=-5), "n"),
    ],
)
def test_parameters_that_must_be_positive(call, name):
    with pytest.raises(MismatchError, match=f"^{name} must be greater than 0, got"):
        call()


def test_designs_are_frozen():
    design = datasets.length_bias()
    with pytest.raises(AttributeError):
        design.samples = {}


def test_every_public_name_has_a_docstring():
    assert all(inspect.getdoc(getattr(datasets, name)) for name in datasets.__all__)

"""Surfaces against formulas that share no code with them, on states and on fits of every kind."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from sklearn.neighbors import KernelDensity

import vardi
from vardi.mbar import FES, MBAR

CENTRES = np.array([-1.0, 0.0, 1.0])
SIZES = np.array([150, 120, 130])
EDGES = np.linspace(-2.0, 2.0, 9)
MIDDLES = (EDGES[1:] + EDGES[:-1]) / 2


def umbrellas(seed=0, dims=1):
    """Windows of stiffness 2 over a landscape 0.5 x^2 in each dimension."""
    rng = np.random.default_rng(seed)
    centres = np.repeat(CENTRES, SIZES)
    x = rng.normal(2 * centres[:, None] / 3 * (np.arange(dims) == 0), 1 / np.sqrt(3), (SIZES.sum(), dims))
    landscape = 0.5 * (x**2).sum(axis=1)
    windows = ((x - CENTRES[:, None, None] * (np.arange(dims) == 0)) ** 2).sum(axis=2)
    return x if dims > 1 else x[:, 0], landscape, landscape + windows


def by_augmented_states(u_kn, u_n, masks):
    """The same as states with infinite walls around each bin, as MBAR has differences of free energies."""
    walled = np.where(masks, u_n, np.inf)
    found = MBAR(np.vstack([u_kn, walled]), np.append(SIZES, np.zeros(len(masks), int)))
    errors = found.compute_free_energy_differences()["dDelta_f"]
    return found.f_k[3:], errors[3:, 3:]


def test_bins_are_states_with_walls():
    x, u_n, u_kn = umbrellas()
    masks = (EDGES[:-1, None] <= x) & (x < EDGES[1:, None])
    f, errors = by_augmented_states(u_kn, u_n, masks)
    fes = FES(u_kn, SIZES)
    fes.generate_fes(u_n, x, histogram_parameters={"bin_edges": EDGES})
    best = int(f.argmin())
    found = fes.get_fes(MIDDLES, uncertainty_method="analytical")
    assert_allclose(found["f_i"], f - f[best], atol=1e-9)
    assert_allclose(found["df_i"], errors[best], rtol=1e-6)
    at = fes.get_fes(MIDDLES[::-1], "from-specified", MIDDLES[2], "analytical")
    assert_allclose(at["f_i"], (f - f[2])[::-1], atol=1e-9)
    assert_allclose(at["df_i"], errors[2][::-1], rtol=1e-6)
    pairs = fes.get_fes(MIDDLES, "all-differences", uncertainty_method="analytical")
    assert_allclose(pairs["df_ij"], errors, rtol=1e-6)
    total = fes.get_fes(MIDDLES, "from-normalization", uncertainty_method="analytical")
    assert_allclose(total["f_i"], f + logsumexp(-f), atol=1e-9)
    assert_allclose(np.exp(-total["f_i"]).sum(), 1.0)
    whole, inside = by_augmented_states(u_kn, u_n, np.vstack([masks, masks.any(axis=0)]))
    assert_allclose(total["df_i"], inside[-1, :-1], rtol=1e-6)
    assert "df_i" not in fes.get_fes(MIDDLES)
    assert fes.get_mbar().f_k.shape == (3,)
    assert whole.shape == (9,)


def test_outside_and_between_rows():
    x, u_n, u_kn = umbrellas()
    fes = FES(u_kn, SIZES)
    fes.generate_fes(u_n, x, histogram_parameters={"bin_edges": np.array([-3.0, 0.0, 3.0, 100.0, 101.0])})
    found = fes.get_fes([-50.0, -1.0, 50.0, 100.5, 102.0], uncertainty_method="analytical")
    assert_allclose(np.isnan(found["f_i"]), [True, False, False, False, True])
    assert np.isinf(found["f_i"][3])
    assert_allclose(np.isnan(found["df_i"]), [True, False, True, True, True])
    pairs = fes.get_fes([-50.0, -1.0, 1.0], "all-differences", uncertainty_method="analytical")["df_ij"]
    assert_allclose(np.isnan(pairs), np.array([[1, 1, 1], [1, 0, 0], [1, 0, 0]], bool))
    assert np.isnan(fes.get_fes([-50.0], uncertainty_method="analytical")["df_i"]).all()


def test_bins_in_two_dimensions():
    x, u_n, u_kn = umbrellas(dims=2)
    edges = [np.linspace(-1.5, 1.5, 4), np.linspace(-1, 1, 3)]
    points = np.array([[a, b] for a in (-1.0, 0.0, 1.0) for b in (-0.5, 0.5)])
    low, high = points - 0.5, points + 0.5
    masks = ((low[:, None] <= x) & (x < high[:, None])).all(axis=2)
    f, errors = by_augmented_states(u_kn, u_n, masks)
    fes = FES(u_kn, SIZES)
    fes.generate_fes(u_n, x, histogram_parameters={"bin_edges": edges})
    found = fes.get_fes(points, "from-specified", [0.0, 0.5], "analytical")
    assert_allclose(found["f_i"], f - f[3], atol=1e-9)
    assert_allclose(found["df_i"], errors[3], rtol=1e-6)


@pytest.mark.parametrize("kernel", ["gaussian", "tophat", "epanechnikov"])
@pytest.mark.parametrize("dims", [1, 2])
def test_kernels_are_scikit_learns(kernel, dims):
    x, u_n, u_kn = umbrellas(dims=dims)
    w = MBAR(np.vstack([u_kn, u_n]), np.append(SIZES, 0)).W_nk[:, 3]
    density = KernelDensity(bandwidth=0.4, kernel=kernel).fit(x.reshape(-1, dims), sample_weight=w)
    points = np.random.default_rng(1).uniform(-1, 1, (7, dims))
    fes = FES(u_kn, SIZES)
    fes.generate_fes(u_n, x, "kde", kde_parameters={"bandwidth": 0.4, "kernel": kernel, "leaf_size": 40})
    logs = density.score_samples(points)
    assert_allclose(fes.get_fes(points, "from-normalization")["f_i"], -logs, atol=1e-8)
    assert_allclose(fes.get_fes(points)["f_i"], logs.max() - logs, atol=1e-8)
    origin = density.score_samples(np.zeros((1, dims)))
    at = fes.get_fes(points, "from-specified", 0.0 if dims == 1 else [0.0, 0.0])
    assert_allclose(at["f_i"], origin - logs, atol=1e-8)


@pytest.mark.parametrize("named", [False, True])
def test_a_point_that_is_no_number_has_no_kernel(named):
    x, u_n, u_kn = umbrellas()
    fes = FES.of_fit(vardi.debias({"all": x}, {"all": 1})) if named else FES(u_kn, SIZES)
    fes.generate_fes(None if named else u_n, "x" if named else x, "kde", kde_parameters={"bandwidth": 0.3})
    found = fes.get_fes([0.5, np.nan, 0.0], uncertainty_method="analytical")
    expected = fes.get_fes([0.5, 0.0], uncertainty_method="analytical")
    for name in ("f_i", "df_i"):
        assert_allclose(found[name][[0, 2]], expected[name])
        assert np.isnan(found[name][1])


def test_errors_of_kernels_are_those_of_states_with_such_a_potential():
    x, u_n, u_kn = umbrellas()
    points = np.array([-1.0, 0.0, 0.7])
    kernels = 0.5 * ((x - points[:, None]) / 0.3) ** 2
    states = MBAR(np.vstack([u_kn, u_n + kernels, u_n]), np.append(SIZES, [0] * 4))
    errors = states.compute_free_energy_differences()["dDelta_f"][3:, 3:]
    fes = FES(u_kn, SIZES)
    fes.generate_fes(u_n, x, "kde", kde_parameters={"bandwidth": 0.3})
    at = fes.get_fes(points, "from-specified", 0.7, "analytical")
    assert_allclose(at["df_i"], errors[2, :3], rtol=1e-6)
    assert_allclose(fes.get_fes(points, "from-normalization", None, "analytical")["df_i"], errors[3, :3], rtol=1e-6)
    pairs = fes.get_fes(points, "all-differences", uncertainty_method="analytical")
    assert_allclose(pairs["df_ij"], errors[:3, :3], rtol=1e-6)


@pytest.mark.parametrize("kind", ["histogram", "kde"])
def test_a_period(kind):
    """Angles that are moved by whole turns, and the grid by part of one, have the same surface."""
    rng = np.random.default_rng(0)
    x = rng.vonmises(0.0, 1.0, 400)
    u_kn, N_k = np.zeros((1, 400)), [400]
    turns = 2 * np.pi * rng.integers(-2, 3, 400)
    points = np.array([-3.0, -1.0, 0.4, 3.0])
    surfaces = []
    for moved, start, at in ((x, -np.pi, points), (x + turns, np.pi, points + 4 * np.pi)):
        fes = FES(u_kn, N_k)
        bins = {"bin_edges": start + np.linspace(0, 2 * np.pi, 13), "period": 2 * np.pi}
        kernels = {"bandwidth": 0.5, "period": [2 * np.pi]}
        fes.generate_fes(np.zeros(400), moved, kind, bins, kernels)
        surfaces.append(fes.get_fes(at, "from-normalization", None, "analytical"))
    assert_allclose(surfaces[1]["f_i"], surfaces[0]["f_i"], atol=1e-9)
    assert_allclose(surfaces[1]["df_i"], surfaces[0]["df_i"], rtol=1e-7)
    if kind == "kde":  # density of the images side by side, three times as many rows
        images = np.concatenate([x - 2 * np.pi, x, x + 2 * np.pi])[:, None]
        logs = KernelDensity(bandwidth=0.5).fit(images).score_samples(points[:, None]) + np.log(3)
        assert_allclose(surfaces[0]["f_i"], -logs, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["histogram", "kde"])
def test_refits_agree_with_the_formula(kind):
    x, u_n, u_kn = umbrellas()
    fes = FES(u_kn, SIZES)
    fes.generate_fes(u_n, x, kind, {"bin_edges": EDGES[2:7]}, {"bandwidth": 0.3}, n_bootstraps=200, seed=0)
    points = MIDDLES[2:6]
    refits, formula = (fes.get_fes(points, uncertainty_method=how)["df_i"] for how in ("bootstrap", "analytical"))
    assert_allclose(refits, formula, rtol=0.2)  # the spread of 200 refits has an error of 5%
    assert_allclose(fes.get_fes(points, uncertainty_method="bootstrap")["df_i"], refits)
    pairs = fes.get_fes(points, "all-differences", uncertainty_method="bootstrap")["df_ij"]
    assert_allclose(pairs[int(fes.get_fes(points)["f_i"].argmin())], refits, rtol=1e-6)


def fits_of_umbrellas():
    """The same windows in memory, in blocks and in an engine; biases are relative to the landscape."""
    x, _, _ = umbrellas()
    source = np.repeat(np.arange(3), SIZES)
    logs = -((x[:, None] - CENTRES) ** 2)
    frames = {str(k): pl.DataFrame({"x": x[source == k]}) for k in range(3)}
    biases = {str(k): f"exp(-(x - ({c})) ** 2)" for k, c in enumerate(CENTRES)}

    def blocks():
        yield from np.array_split(logs, 4)

    yield x, vardi.debias_matrix(logs, source, log=True)
    yield x, vardi.debias_matrix(blocks, source, log=True)
    yield "x", vardi.debias(frames, biases)
    yield "x", vardi.debias({name: frame.lazy() for name, frame in frames.items()}, biases)


@pytest.mark.parametrize("kind", ["histogram", "kde"])
def test_every_holder_of_rows_gives_the_same_surface(kind):
    x, u_n, u_kn = umbrellas()
    parameters = {"bin_edges": EDGES[1:8]}, {"bandwidth": 0.3, "kernel": "gaussian"}
    states = FES(u_kn, SIZES)
    states.generate_fes(u_n, x, kind, *parameters)
    expected = states.get_fes(MIDDLES[1:7])["f_i"]
    errors = []
    for coordinate, fit in fits_of_umbrellas():
        fes = FES.of_fit(fit)
        fes.generate_fes(None, coordinate, kind, *parameters)
        found = fes.get_fes(MIDDLES[1:7], uncertainty_method="analytical")
        assert_allclose(found["f_i"], expected, atol=1e-7)
        errors.append(found["df_i"])
    assert fes.get_mbar() is None
    for one in errors[1:]:
        assert_allclose(one, errors[0], rtol=1e-5, atol=1e-9)
    formula = states.get_fes(MIDDLES[1:7], uncertainty_method="analytical")["df_i"]
    assert_allclose(errors[0], formula, rtol=0.3, atol=1e-9)  # of these rows, and of the laws that are fitted to them


@pytest.mark.parametrize("kernel", ["gaussian", "tophat", "epanechnikov"])
def test_kernels_as_expressions_are_kernels_of_arrays(kernel):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"a": rng.uniform(-3, 3, 200), "b": rng.uniform(-1, 1, 200)})
    fit = vardi.debias({"all": frame.lazy()}, {"all": 1})
    points = np.array([[-2.9, 0.0], [0.3, 0.5]])
    found = []
    for fes, u_n, x in (
        (FES.of_fit(fit), None, ["a", "b"]),
        (FES(np.zeros((1, 200)), [200]), np.zeros(200), frame.to_numpy()),
    ):
        fes.generate_fes(u_n, x, "kde", kde_parameters={"bandwidth": 0.6, "kernel": kernel, "period": [6.0, None]})
        found.append(fes.get_fes(points, "from-normalization")["f_i"])
    assert_allclose(found[0], found[1], rtol=1e-9)


def test_refits_of_a_fit():
    *_, (x, fit) = fits_of_umbrellas()
    fes = FES.of_fit(fit)
    fes.generate_fes(None, x, histogram_parameters={"bin_edges": [-1.0, 0.0, 1.0]}, n_bootstraps=50, seed=0)
    refits, formula = (fes.get_fes([-0.5, 0.5], uncertainty_method=how) for how in ("bootstrap", "analytical"))
    assert_allclose(refits["df_i"], formula["df_i"], rtol=0.4)


X, U_N, U_KN = umbrellas()
BINS = {"bin_edges": EDGES}


def made(*arguments, u_n=U_N, x_n=X, **options):
    fes = FES(U_KN, SIZES)
    fes.generate_fes(u_n, x_n, *arguments, **options)
    return fes


REFUSED = {
    "splines": (
        lambda: made("spline"),
        "fes_type is 'spline'. Splines are not supported: a kernel gives a surface without",
    ),
    "kind": (lambda: made("waffles"), "fes_type is 'waffles'. Give 'histogram' or 'kde'."),
    "no bins": (lambda: made(), "histogram_parameters has no bin_edges, but a histogram needs them."),
    "bins": (
        lambda: made(histogram_parameters={"bin_edges": [1.0, 0.0]}),
        "The bin edges are [1. 0.], but they must increase.",
    ),
    "other parameter": (
        lambda: made(histogram_parameters={**BINS, "n_bins": 3}),
        "histogram_parameters has 'n_bins', which is not one of its parameters. Give bin_edges, period.",
    ),
    "period": (
        lambda: made(histogram_parameters={**BINS, "period": 5.0}),
        "The bins go from -2 to 2, but the period is 5. Let them cover it exactly once.",
    ),
    "periods": (
        lambda: made(histogram_parameters={**BINS, "period": [4.0, 4.0]}),
        "period is [4.0, 4.0], but there is 1 dimension. Give the period of each, None where it has none.",
    ),
    "width": (lambda: made("kde", kde_parameters={"bandwidth": 0}), "The bandwidth is 0. Give a number above 0, in"),
    "wide": (
        lambda: made("kde", kde_parameters={"bandwidth": 1.0, "period": 4.0}),
        "The bandwidth 1 is more than a sixth of the period 4, so a kernel would overlap itself.",
    ),
    "kernel": (lambda: made("kde", kde_parameters={"kernel": "cosine"}), "The kernel is 'cosine'. Give one of 'gauss"),
    "coordinate": (lambda: made("kde", x_n=X[:5]), "x_n has shape (5, 1), but there are 400 rows. Give the coordinate"),
    "dimensions": (
        lambda: made(histogram_parameters=BINS, x_n=np.column_stack([X, X])),
        "x_n has shape (400, 2), but there are 400 rows and bins in 1 dimension. Give the coordinate of each row",
    ),
    "missing": (
        lambda: made("kde", x_n=np.where(X > 1, np.nan, X)),
        f"x_n is [nan] in row {int((X > 1).argmax())}, but every row needs a place on the surface. Give finite "
        "numbers.",
    ),
    "potential": (lambda: made("kde", u_n=None), "u_n is None, but a surface belongs to a state. Give the reduced"),
    "too early": (lambda: FES(U_KN, SIZES).get_fes([0.0]), "No surface has been generated. Call generate_fes first."),
    "reference": (
        lambda: made(histogram_parameters=BINS).get_fes([0.0], "from-above"),
        "reference_point is 'from-above'. Give one of 'from-lowest', 'from-specified', 'from-normalization', 'all-diff",
    ),
    "no reference": (
        lambda: made(histogram_parameters=BINS).get_fes([0.0], "from-specified"),
        "reference_point is 'from-specified', but no point was given. Give it as fes_reference.",
    ),
    "reference outside": (
        lambda: made(histogram_parameters=BINS).get_fes([0.0], "from-specified", 7.0),
        "The reference point 7.0 lies outside the bins. Give one that has rows.",
    ),
    "empty reference": (
        lambda: made(histogram_parameters={"bin_edges": [0.0, 1.0, 99.0, 100.0]}).get_fes(
            [0.5], "from-specified", 99.5
        ),
        "The reference point 99.5 lies where there are no rows. Give one that has rows.",
    ),
    "method": (
        lambda: made(histogram_parameters=BINS).get_fes([0.0], uncertainty_method="svd"),
        "uncertainty_method is 'svd'. Give None, 'analytical' or 'bootstrap'.",
    ),
    "no refits": (
        lambda: made(histogram_parameters=BINS).get_fes([0.0], uncertainty_method="bootstrap"),
        "uncertainty_method is 'bootstrap', but no refits were asked for. Write generate_fes(..., n_bootstraps=200).",
    ),
    "points": (
        lambda: made(histogram_parameters=BINS).get_fes([[0.0, 1.0]]),
        "x has shape (1, 2), but the surface has 1 dimension. Give a point in each row: an array of shape (points, 1).",
    ),
    "an expression": (
        lambda: made(histogram_parameters=BINS, x_n="x").get_fes([0.0]),
        "x_n is an expression of columns, but the rows of a simulation are given by their potentials alone.",
    ),
    "state of a fit": (
        lambda: FES.of_fit(vardi.debias_matrix(np.ones((3, 1)), [0, 0, 0])).generate_fes([0, 0, 0], [1, 2, 3], "kde"),
        "u_n is the potential of a state, but a fit has only its population. Give None, and declare the biases",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    call, text = REFUSED[case]
    with pytest.raises(vardi.MismatchError) as error:
        call()
    assert str(error.value).startswith(text)

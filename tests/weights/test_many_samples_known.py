"""Known values with hundreds of samples and more, in sparse matrices and windows: equal to what dense ones give."""

from __future__ import annotations

import numpy as np
import pytest
from many_samples import along_a_line, any_other, windows, with_columns
from scipy import sparse

import vardi

pytestmark = pytest.mark.filterwarnings("ignore::vardi.VardiWarning")  # small samples, on purpose


def a_line(K=310, per=10):
    omega, source = along_a_line(K, per)
    x = np.random.default_rng(1).standard_normal(len(source))
    return with_columns(omega, x > 0, np.exp(x), np.abs(x)), source, [0.5, np.exp(0.5), np.sqrt(2 / np.pi)], x


def two_lines(K=170, per=10):
    """Two lines that share no row, joined by the share of the second."""
    (first, source), (second, other) = along_a_line(K, per), along_a_line(K, per, seed=1)
    x = np.random.default_rng(3).standard_normal(2 * K * per)
    far = np.repeat([0.0, 1.0], K * per)
    omega = with_columns(sparse.block_diag([first, second], format="csr"), far, x > 0)
    return omega, np.concatenate([source, other + K]), [0.4, 0.5], x


DESIGNS = {
    "a factor": a_line,
    "products with the rows": any_other,
    "products with windows": windows,
    "two groups": two_lines,
}


def fitted(design, known, uncertain):
    omega, source, values, x = design
    K = omega.shape[1] - len(values)
    names = [*map(str, range(K)), *(f"known {j}" for j in range(len(values)))]
    given = {f"known {j}": (value, 0.01) if uncertain and j else value for j, value in enumerate(values[:known])}
    return vardi.debias_matrix(omega, source, names=names, known=given), x


@pytest.mark.long
@pytest.mark.parametrize(("known", "uncertain"), [(1, False), (3, False), (3, True)])
@pytest.mark.parametrize("name", DESIGNS)
def test_the_same_as_by_a_dense_matrix(name, known, uncertain):
    omega, source, values, x = DESIGNS[name]()
    fit, _ = fitted((omega, source, values, x), known, uncertain)
    dense, _ = fitted((np.asarray(omega.toarray(), float), source, values, x), known, uncertain)
    assert fit.solution.residual <= 1e-10
    np.testing.assert_allclose(fit.weights, dense.weights, rtol=1e-8)
    ours, theirs = fit.expectation(x), dense.expectation(x)
    assert ours.value == pytest.approx(theirs.value, rel=1e-8)
    assert ours.stderr == pytest.approx(theirs.stderr, rel=1e-8)
    assert fit.known.statistic == pytest.approx(dense.known.statistic, rel=1e-7, nan_ok=True)
    assert fit.known.df == dense.known.df


@pytest.mark.long
@pytest.mark.parametrize("name", ["products with the rows", "products with windows"])
def test_known_values_are_met_with_hundreds_of_samples(name):
    design = any_other(600, 6) if name == "products with the rows" else windows(600)
    fit, x = fitted(design, 3, uncertain=False)
    omega, _, values, _ = design
    columns = np.asarray(omega.toarray(), float)[:, 600:]
    np.testing.assert_allclose(fit.probabilities @ columns, values, rtol=1e-9)
    assert 0 < fit.expectation(x).stderr < vardi.debias_matrix(omega, design[1]).expectation(x).stderr
    assert fit.known.df == 3
    assert "known 2" in str(fit.known)
    assert len(str(fit).splitlines()) < 60


def test_more_biases_than_a_matrix_of_their_square_can_hold_are_refused():
    omega = sparse.csr_array(np.ones((3, 5001)))
    with pytest.raises(
        vardi.errors.TooLargeError, match=r"5,001 biases.*0\.2 GB.*Up to 5,000.*Merge samples"
    ) as refused:
        vardi.debias_matrix(omega, [0, 0, 1], known={1: 1.0})
    assert refused.value.bytes == 8 * 5001**2


# ---------------------------------------------------------------- what else is asked of thousands of samples


@pytest.mark.parametrize("name", ["a factor", "products with windows"])
def test_normalisers_by_weights_of_unsampled_states(name):
    fit, _ = fitted(DESIGNS[name](), 1, uncertain=False)
    omega = fit.solved.rows.matrix.toarray()
    np.testing.assert_allclose(list(fit.omegas.values()), fit.probabilities @ omega, rtol=1e-10)

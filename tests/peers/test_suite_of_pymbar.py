"""pymbar's own tests of MBAR and FES, with vardi.mbar in place of pymbar."""

import pytest

from tests.peers.suites import failures

pytest.importorskip("pymbar", reason="pymbar is not installed: pip install 'vardi[test]'")
pytestmark = [pytest.mark.peers, pytest.mark.long]

OF_NORMALISATION = (
    "pymbar refuses this reference and expects to; here it has an answer, which is not from the lowest point"
)
OF_SPLINES = "splines are not made: kernels have a surface without bins, with its error"
EXCEPTIONS = {
    "::test_duplicate_state": "looks for pymbar's words in the log; equal states do no harm here: they differ by 0",
    "::test_1d_fes_histogram[from-normalization]": OF_NORMALISATION,
    "::test_2d_fes_histogram[from-normalization]": OF_NORMALISATION,
    "::test_1d_fes_histogram[all-differences]": "pymbar refuses it and expects to; here errors of pairs are in df_ij",
    "::test_1d_fes_spline[from-lowest-gen_kwargs0]": OF_SPLINES,
    "::test_1d_fes_spline[from-lowest-gen_kwargs1]": OF_SPLINES,
    "::test_1d_fes_spline_bootstraped": OF_SPLINES,
}


def test_pymbars_own_tests_pass_but_for_what_is_meant_to_differ():
    modules = [f"pymbar.tests.test_{name}" for name in ("mbar", "mbar_solvers", "fes")]
    failed, ran = failures("in_place_of_pymbar", *modules)
    assert ran > 100
    assert failed == set(EXCEPTIONS)

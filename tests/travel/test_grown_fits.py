"""A fit that grows by and by is the fit of all rows, and so is what is saved of it."""

from __future__ import annotations

import fits
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import vardi


@pytest.mark.filterwarnings("ignore::vardi.VardiWarning")  # of the first rows alone
@pytest.mark.parametrize("name", ["numbers", "tilt", "cells", "both"])
def test_ten_updates_are_one_fit_of_all_rows(name, tmp_path):
    bias, chance, more = fits.FITS[name]
    samples = {"survey": pd.DataFrame(fits.people(400, 1)), "panel": pd.DataFrame(fits.drawn(600, 3, chance))}
    biases = {"survey": 1, "panel": bias}
    pieces = [{key: rows.iloc[place::11] for key, rows in samples.items()} for place in range(11)]
    fit = vardi.debias(pieces[0], biases, **more)
    for piece in pieces[1:]:
        fit = fit.update(piece)
    every = {key: pd.concat([piece[key] for piece in pieces]) for key in samples}
    whole = vardi.debias(every, biases, **more)
    assert fit.sizes == whole.sizes
    assert_allclose(fit.weights, np.asarray(whole.weights), rtol=1e-8)
    grown, once = (one.expectation("income") for one in (fit, whole))
    assert_allclose([grown.value, grown.stderr], [once.value, once.stderr], rtol=1e-8)
    rows = pd.DataFrame(fits.people(50, 9))
    loaded = vardi.load(fit.save(tmp_path / "fit.json"))
    assert_allclose(loaded.weigh(rows), np.asarray(whole.weigh(rows)), rtol=1e-8)

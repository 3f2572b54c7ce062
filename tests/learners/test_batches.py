"""Batches for deep learners, where PyTorch is not installed; tests/learners/test_torch.py has them where it is."""

from __future__ import annotations

import subprocess
import sys

import pytest

import vardi
from vardi._estimate import draws


@pytest.fixture(scope="module")
def fit():
    design = vardi.datasets.length_bias(seed=0)
    return vardi.debias(design.samples, design.biases)


def test_without_pytorch_the_extra_is_named(fit, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "torch.utils.data", None)
    for asked in (fit.torch_sampler, fit.torch_weights):
        draws._sampler_class.cache_clear()
        with pytest.raises(ImportError, match=r"need PyTorch.*pip install 'vardi\[torch\]'"):
            asked()


def test_pytorch_is_not_loaded_by_the_package():
    code = "import sys, vardi, vardi.learn, vardi._estimate.draws; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""Batches for deep learners, where PyTorch is not installed; test_torch.py has them where it is."""

from __future__ import annotations

import re
import subprocess
import sys


def python(code):
    """Run code in a Python of its own."""
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)


def test_without_pytorch_the_extra_is_named():
    code = """
import sys
sys.modules["torch"] = sys.modules["torch.utils.data"] = None
import vardi
design = vardi.datasets.length_bias(seed=0)
fit = vardi.debias(design.samples, design.biases)
for method in (fit.torch_sampler, fit.torch_weights):
    try:
        method()
    except ImportError as error:
        print(error)
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"need PyTorch.*pip install 'vardi\[torch\]'", done.stdout)) == 2


def test_pytorch_is_not_loaded_by_the_package():
    assert python("import sys, vardi, vardi.learn; sys.exit('torch' in sys.modules)").returncode == 0

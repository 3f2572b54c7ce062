"""What the property tests share: how many examples, and fits to hold them against.

``VARDI_EXAMPLES=20`` takes twenty times as many examples, still the same ones at each run.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import vardi

FACTOR = int(os.environ.get("VARDI_EXAMPLES", "1"))
CLOSE = 1e-9

settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def examples(count: int) -> settings:
    """Return the settings of a test of so many examples."""
    return settings(settings.get_profile("ci"), max_examples=count * FACTOR)


@dataclass(frozen=True)
class Case:
    """Samples of one population with their biases: drawn at random, in proportion to x, and below the middle."""

    samples: dict[str, pd.DataFrame]
    biases: dict[str, object]

    @property
    def pool(self) -> pd.DataFrame:
        return pd.concat(self.samples.values(), ignore_index=True)

    @property
    def source(self) -> np.ndarray:
        return np.repeat(list(self.samples), [len(rows) for rows in self.samples.values()])

    def fit(self, **options: object) -> vardi.DebiasedSample:
        return vardi.debias(self.samples, self.biases, **options)

    def omega(self) -> np.ndarray:
        """Return the biases on the pool, computed by hand."""
        x, cut = self.pool["x"].to_numpy(), self.cut
        return np.column_stack([np.ones(len(x)), x, x <= cut]).astype(float)

    @property
    def cut(self) -> float:
        return float(self.biases["low"].split()[-1])


def case(seed: int, scale: int = 1) -> Case:
    """Return the case of a seed; scale multiplies its numbers of rows."""
    rng = np.random.default_rng(seed)
    sizes = scale * rng.integers(15, 40, 3)
    shape = rng.uniform(2.0, 4.0)
    plain, long = rng.gamma(shape, size=sizes[0]), rng.gamma(shape + 1.0, size=sizes[1])
    cut = float(np.round(np.median(plain), 3)) + 0.001
    low = rng.gamma(shape, size=50 * sizes[2])
    low = low[low <= cut][: sizes[2]]
    parts = {"plain": plain, "long": long, "low": low}
    samples = {
        name: pd.DataFrame(
            {"x": x, "y": x + rng.normal(size=len(x)), "g": rng.choice(["a", "b"], len(x), p=[0.4, 0.6])}
        )
        for name, x in parts.items()
    }
    return Case(samples, {"plain": 1, "long": "x", "low": f"x <= {cut}"})


seeds = st.integers(0, 10_000)
cases = st.builds(case, seeds)


def close(found: object, expected: object, rtol: float = CLOSE, atol: float = 1e-12) -> None:
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), rtol=rtol, atol=atol)

"""What skada's weights say of each draw: run by its own interpreter, which has nothing of ours."""

import sys
import warnings

import numpy as np
import pandas as pd
from skada import DensityReweightAdapter, DiscriminatorReweightAdapter
from sklearn.preprocessing import StandardScaler

ADAPTERS = {
    "skada, DensityReweight": DensityReweightAdapter,
    "skada, DiscriminatorReweight": DiscriminatorReweightAdapter,
}


def asked(rows: pd.DataFrame, columns: list[str]) -> dict[str, float]:
    """Return the weighted mean of one draw, by whose weights."""
    X, panel = StandardScaler().fit_transform(rows[columns]), (rows["sample"] == "panel").to_numpy()
    y, domain = np.where(panel, rows["y"], 0.0), np.where(panel, 1, -2)  # targets are negative
    found = {}
    for who, adapter in ADAPTERS.items():
        _, given = adapter().fit_transform(X, y, sample_domain=domain)
        found[who] = np.average(y[panel], weights=np.asarray(given["sample_weight"])[panel])
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    source, target, *names = sys.argv[1:]
    lines = [
        (draw, who, value, None, None)
        for draw, rows in pd.read_csv(source).groupby("draw")
        for who, value in asked(rows, names).items()
    ]
    pd.DataFrame(lines, columns=["draw", "who", "value", "low", "high"]).to_csv(target, index=False)

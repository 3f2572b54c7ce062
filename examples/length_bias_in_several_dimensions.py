"""Length bias in several dimensions: each sample sees units in proportion to another of their sizes.

The paper's Example 1: one sample of P, and for each coordinate k a sample drawn in proportion to z_k. The means mu_k of
the coordinates solve the system

    mu_l = sum_i z_il p_i,    p_i = 1 / (n_0 + sum_k n_k z_ik / mu_k),

which has no closed form: it is Vardi's, and the mu_k are the normalisers. All samples but the first make things look
large.

    python examples/length_bias_in_several_dimensions.py [FOLDER FOR THE FIGURE]
"""

import sys
from pathlib import Path

import numpy as np

import vardi

DIMENSIONS = 3
SIZES = (100, 400, 400, 400)  # without bias, then by each coordinate


def main(folder: Path | None = None, seed: int = 0) -> dict[str, np.ndarray]:
    design = vardi.datasets.multivariate_length_bias(DIMENSIONS, SIZES, seed)
    columns = [f"x{j}" for j in range(DIMENSIONS)]
    truth = np.array([design.truth[f"mean of {column}"] for column in columns])
    pool = np.concatenate(list(design.samples.values()))
    alone = design.samples["unbiased"]

    fit = vardi.debias(design.samples, design.biases)
    mu = np.array([fit.omegas[f"by {column}"] for column in columns])
    p = 1 / (SIZES[0] + pool @ (np.array(SIZES[1:]) / mu))  # the paper's formula
    means = fit.expectations(columns)
    found = {
        "truth": truth,
        "pooled": pool.mean(axis=0),
        "unbiased": alone.mean(axis=0),
        "debiased": means.values,
        "debiased stderr": means.stderr,
        "unbiased stderr": alone.std(axis=0, ddof=1) / np.sqrt(len(alone)),
        "off": np.array([np.abs(pool.T @ p - mu).max(), np.abs(p - fit.probabilities).max()]),
    }

    print("mean    truth  pooled  unbiased sample   debiased")
    for j, column in enumerate(columns):
        clean = f"{found['unbiased'][j]:.2f} ± {found['unbiased stderr'][j]:.2f}"
        print(f"{column:<5} {truth[j]:7.2f} {found['pooled'][j]:7.2f} {clean:>16} {means[j]!s:>34}")
    print(
        f"the paper's equations hold to {found['off'][0]:.0e}, its p_i are fit.probabilities to {found['off'][1]:.0e}"
    )
    if folder is not None:
        picture(folder / "length_bias_in_several_dimensions.png", columns, found)
    return found


def picture(path: Path, columns: list[str], found: dict[str, np.ndarray]) -> None:
    from matplotlib import pyplot as plt
    from PIL import Image

    from vardi.plots import AFTER, BEFORE

    figure, ax = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
    places = np.arange(len(columns))[::-1]
    ax.scatter(found["pooled"], places, s=60, color=BEFORE, label="pooled rows", zorder=3)
    for name, colour, shift in (("unbiased", "#57606a", -0.16), ("debiased", AFTER, 0.0)):
        label = {"unbiased": "the 100 unbiased rows alone (95%)", "debiased": "debiased, all 1,300 rows (95%)"}[name]
        error = 1.96 * found[f"{name} stderr"]
        ax.errorbar(found[name], places + shift, xerr=error, fmt="o", ms=7, color=colour, capsize=4, label=label)
    ax.vlines(found["truth"], places - 0.3, places + 0.3, color="black", ls="--", label="truth")
    ax.set_yticks(places, columns)
    ax.set(xlabel="mean", ylim=(-0.5, len(columns) - 0.5), title="Means, when larger units are seen more often")
    ax.legend(loc="upper right", fontsize=9)
    figure.savefig(path, dpi=100)
    plt.close(figure)
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)  # a third of the bytes


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)

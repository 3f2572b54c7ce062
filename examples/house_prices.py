"""What does a house cost in Boston, when one of two samples holds only the cheap ones?

An agency sells houses up to 22 (thousand dollars) and gives 200 of them; a national survey gives 100 at random. The
agency's rows are many and biased, the survey's few and clean. Run it as ``make demo``, or
``python examples/house_prices.py FOLDER`` to choose where the weights and the report go.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

import vardi


def write_whole(path: Path, text: str) -> None:
    """Write a file that is there whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(temporary).replace(path)


def main(folder: Path) -> None:
    design = vardi.datasets.house_prices(seed=0)
    fit = vardi.debias(design.samples, {"agency": "MEDV <= 22", "national": 1})
    price = np.concatenate([rows["MEDV"] for rows in design.samples.values()])

    print(fit)
    print()
    print("weights of the first row of each sample")
    start = 0
    for name, size in fit.sizes.items():
        print(f"  {name:<10} {fit.weights.iloc[start]:.4f}")
        start += size
    print()
    print(f"mean price      pooled rows          {price.mean():.2f}")
    print(f"                debiased             {fit.expectation('MEDV')}")
    print(f"                all 506 houses       {design.truth['mean']:.2f}")

    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "weights.csv", fit.weights.rename_axis("row").to_csv())
    page = f"<!doctype html><meta charset=utf-8><title>House prices</title>{fit._repr_html_()}"
    write_whole(folder / "report.html", page)
    print(f"\nwrote {folder / 'weights.csv'} and {folder / 'report.html'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))

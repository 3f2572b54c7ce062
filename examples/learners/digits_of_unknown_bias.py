r"""
Digits of unknown bias
======================

Four databases of images, three of them of unknown bias, train one classifier.

Four databases of images, of which one was drawn at random. The others hold mostly low digits, mostly round ones, and
mostly even ones, and nobody has recorded that. ``vardi.learned()`` distinguishes the images of each from those of the
first by a linear classifier of their 64 pixels, and uses the odds as its bias. A classifier of digits is then
trained on all four: as they came (naive), with the biases as they were drawn (known), with the learned ones, and with
the weights that only the makers of the databases could have (oracle).
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import vardi
from vardi.plots import AFTER, BEFORE

SEED = 0
RUNS = 20
RARE = 0.02  # how likely an image is to enter a database that holds mostly others
images, digit = load_digits(return_X_y=True)
images = images / 16.0
CHANCES = {  # of each image to enter each database
    "at random": np.full(len(digit), 0.7),
    "low": np.where(digit < 4, 1.0, RARE),
    "round": np.where(np.isin(digit, [0, 3, 6, 8]), 1.0, RARE),
    "even": np.where(digit % 2 == 0, 1.0, RARE),
}


def draw(rng):
    """Part the images into a population to judge by and four that are drawn from; return the rows of each."""
    parts = np.array_split(rng.permutation(len(digit)), [600, 900, 1200, 1500])
    judged, *offered = parts
    drawn = [rows[rng.random(len(rows)) < CHANCES[name][rows]] for name, rows in zip(CHANCES, offered, strict=True)]
    return judged, dict(zip(CHANCES, drawn, strict=True))


def weights_of(drawn):
    """Return the weights of all images that were drawn, by how much is known of the databases."""
    rows = np.concatenate(list(drawn.values()))
    samples = {name: images[own] for name, own in drawn.items()}
    known = {name: chance[rows] for name, chance in CHANCES.items()}
    learned = {name: 1 if name == "at random" else vardi.learned() for name in CHANCES}
    oracle = 1 / sum(len(drawn[name]) * chance[rows] / chance.mean() for name, chance in CHANCES.items())
    return rows, {
        "naive": np.ones(len(rows)),
        "known": vardi.debias(samples, known).weights,
        "learned": vardi.debias(samples, learned).weights,
        "oracle": oracle,
    }


# %%
# Accuracy on 600 images that none of the databases has, over 20 draws.

accuracy = {}
for run in range(RUNS):
    judged, drawn = draw(np.random.default_rng(SEED + run))
    rows, weights = weights_of(drawn)
    small = LogisticRegression(max_iter=1000).fit(images[drawn["at random"]], digit[drawn["at random"]])
    accuracy.setdefault("at random only", []).append(small.score(images[judged], digit[judged]))
    for name, own in weights.items():
        model = LogisticRegression(max_iter=1000).fit(images[rows], digit[rows], sample_weight=own / own.mean())
        accuracy.setdefault(name, []).append(model.score(images[judged], digit[judged]))
accuracy = {name: np.array(found) for name, found in accuracy.items()}
print("debiased by      accuracy   less than the oracle's by")
for name, found in accuracy.items():
    gap = accuracy["oracle"] - found
    print(f"{name:<16} {found.mean():>8.2%}   {gap.mean():.2%} ± {gap.std(ddof=1) / RUNS**0.5:.2%}")

# %%
# Shares of the digits in the last draw: the population has a tenth of each.

shares = {name: np.bincount(digit[rows], own, 10) / own.sum() for name, own in weights.items()}
truth = np.bincount(digit, minlength=10) / len(digit)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
colours = {"naive": BEFORE, "known": "#8c959f", "learned": AFTER, "oracle": "#1f2328"}
places = np.arange(10)
left.plot(places, truth, color="black", lw=1, ls=":", label="population")
for name in ("naive", "known", "learned"):
    left.plot(places, shares[name], marker="o", ms=4, lw=1.5, color=colours[name], label=name)
left.set(xlabel="digit", ylabel="share of the weight", xticks=places, ylim=(0, None), title="shares of the digits")
left.legend(frameon=False)
names = list(weights)
right.boxplot(
    [accuracy[name] for name in names],
    tick_labels=names,
    medianprops={"color": "black"},
    boxprops={"color": "#57606a"},
    widths=0.5,
)
for place, name in enumerate(names, 1):
    right.scatter(np.full(RUNS, place) + 0.36, accuracy[name], s=9, color=colours[name], lw=0)
right.set(ylabel="accuracy on the population", title=f"a classifier of digits, {RUNS} draws")
plt.show()

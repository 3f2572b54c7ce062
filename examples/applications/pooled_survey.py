"""
Three surveys, one answer
=========================

A small clean survey, a register of those who work, and a panel of the old, pooled.

The people of the Adult data set stand in for a country, so that the truth is known. The register has 2,000 people who
work 35 hours a week or more, the panel 1,500 of 45 years or more, and the survey 300 of all. How many earn more than
50,000 dollars a year, and how does that depend on education? The register and the panel have seen many people, but not
the young who work part time.
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

import vardi
from vardi.plots import AFTER, BEFORE

SEED = 0
rng = np.random.default_rng(SEED)

people = vardi.datasets.adult()
people["earns"] = (people["income"] == ">50K") * 1.0
years = [0, 8, 9, 12, 16]
levels = ["no diploma", "high school", "some college", "bachelor and more"]
people["education"] = pd.cut(people["education-num"], years, labels=levels).astype(str)
people = people[["age", "hours-per-week", "education", "earns"]]


def draw(rows, n):
    """Return n of the rows, at random."""
    return rows.iloc[rng.choice(len(rows), n, replace=False)].reset_index(drop=True)


samples = {
    "register": draw(people[people["hours-per-week"] >= 35], 2000),
    "panel": draw(people[people["age"] >= 45], 1500),
    "survey": draw(people, 300),
}

# %%
# Only how each sample was collected has to be declared. Before anything is solved, ``identify`` checks whether the
# samples can be compared, and through how many rows.

biases = {"register": "`hours-per-week` >= 35", "panel": "age >= 45", "survey": 1}
print(vardi.identify(samples, biases))

# %%
# The share of people who earn more than 50,000. The pool is far off; the survey is right on average but small; the
# debiased pool is right and has a third of the survey's error.

fit = vardi.debias(samples, biases)
pool = pd.concat(samples.values())
survey = vardi.debias({"survey": samples["survey"]}, {"survey": 1})
share = {"survey alone": survey.expectation("earns"), "debiased": fit.expectation("earns")}
truth = people["earns"].mean()
print(f"pooled        {pool['earns'].mean():.3f}")
for name, estimate in share.items():
    print(f"{name:<13} {estimate}")
print(f"truth         {truth:.3f}")

# %%
# The same by education, with errors for each level.

by_level = fit.expectation("earns", by="education")
print(by_level)

# %%
# Weights correct the ages at the same time: they belong to rows, not to one question.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
bins = np.arange(17, 91, 4)
left.hist(pool["age"], bins, density=True, color=BEFORE, alpha=0.35, label="pooled")
outline = {"density": True, "histtype": "step", "lw": 2}
left.hist(pool["age"], bins, weights=fit.weights, color=AFTER, label="debiased", **outline)
left.hist(people["age"], bins, color="black", ls="--", label="all people", **outline)
left.set(xlabel="age", yticks=[], title="Age")
left.legend()

places = np.arange(len(levels))
right.plot(pool.groupby("education")["earns"].mean()[levels], places, "s", color=BEFORE, label="pooled")
right.plot(people.groupby("education")["earns"].mean()[levels], places, "k|", ms=24, label="all people")
alone = survey.expectation("earns", by="education")
for shift, table, colour, label in (
    (0.15, alone, "#57606a", "survey alone, 95%"),
    (-0.15, by_level, AFTER, "debiased, 95%"),
):
    found = [table[level] for level in levels]
    right.hlines(places + shift, *zip(*(one.interval for one in found), strict=True), color=colour, lw=2)
    right.plot([one.value for one in found], places + shift, "o", color=colour, label=label)
right.set(yticks=places, yticklabels=levels, xlabel="share that earns more than 50,000")
right.set_title("Income by education")
right.legend(loc="lower right")
plt.show()

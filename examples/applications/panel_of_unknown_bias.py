"""
A web panel that nobody designed
================================

2,000 volunteers, and a survey that did not ask the question: the panel's bias is learned.

The volunteers of a web panel have reported what they spend online a month. Nobody knows who joins such a panel. A
survey of 500 people was drawn at random, and has age, region and schooling, as the panel has, but not the spending.
The columns that the two share show how the panel differs from the population.
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

import vardi
from vardi.plots import AFTER, BEFORE

SEED = 0
rng = np.random.default_rng(SEED)
KNOWN = ["age", "region", "school"]


def people(n):
    """Return people with what they spend online: the young and the schooled spend more."""
    age, school = rng.uniform(18, 80, n), rng.integers(8, 19, n)
    region = rng.choice(["north", "south", "west"], n, p=[0.3, 0.5, 0.2])
    spent = 60 - 0.5 * age + 2 * school + 8 * (region == "north") + rng.gamma(2, 10, n)
    return pd.DataFrame({"age": age, "region": region, "school": school, "spent": spent})


country = people(100_000)
truth = country["spent"].mean()
survey = people(500)[KNOWN]
chosen = np.where(country["school"] > 12, 1.0, 0.4)
joins = chosen * np.exp(-((country["age"] - 30) ** 2) / 1200) + 0.05
panel = country[rng.random(len(country)) < 0.1 * joins].head(2000).reset_index(drop=True)

# %%
# ``vardi.learned`` compares the panel with the survey, whose bias is known, by a classifier; each row's odds come from
# models that have not seen it. Means are doubly robust: right if the odds or a model of the outcome are.

fit = vardi.debias({"survey": survey, "panel": panel}, {"survey": 1, "panel": vardi.learned(KNOWN)})
mean = fit.expectation("spent")
print(f"pooled     {panel['spent'].mean():.2f}")
print(f"debiased   {mean}")
print(f"truth      {truth:.2f}")

# %%
# How the classifier did, on rows that it had not seen.

print(fit.learned["panel"])

# %%
# That nothing else decides who joins cannot be tested. So ask how wrong the learned bias would have to be for the
# mean to be that of the panel as it came.

sensitivity = fit.sensitivity("spent", threshold=round(panel["spent"].mean(), 1))
print(sensitivity)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
ages = np.linspace(18, 80, 17)
weights = fit.among(["panel"]).weights
own = np.asarray(weights)[len(survey) :]
outline = {"density": True, "histtype": "step", "lw": 2}
left.hist(panel["age"], ages, density=True, color=BEFORE, alpha=0.35, label="panel")
left.hist(panel["age"], ages, weights=own, color=AFTER, label="panel, debiased", **outline)
left.hist(country["age"], ages, color="black", ls="--", label="country", **outline)
left.set(xlabel="age", yticks=[], title="Age")
left.legend(loc="lower left")
vardi.plots.SensitivityDisplay.from_fit(fit, "spent", threshold=round(panel["spent"].mean(), 1), ax=right)
right.set(title="If the learned bias is wrong", ylabel="mean spending")
plt.show()

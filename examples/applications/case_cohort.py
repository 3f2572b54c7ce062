"""
A case-cohort study
===================

A costly marker, measured in all who relapsed and a fifth of the others: how common is it?

In a cohort of 4,000 children the marker of a tumour is measured in everyone who relapsed, and in a random fifth of the
others. Children enter according to their outcome, so relapse is far too common among the rows, and so is everything
that goes with it.
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from sklearn.linear_model import LogisticRegression

import vardi
from vardi.plots import AFTER, BEFORE

SEED = 0
rng = np.random.default_rng(SEED)
CHILDREN, RATE = 4000, 0.2

marker = (rng.random(CHILDREN) < 0.15) * 1.0
late = (rng.random(CHILDREN) < 0.3 + 0.2 * marker) * 1.0
risk = 1 / (1 + np.exp(2.2 - 1.5 * marker - 0.7 * late))
relapse = (rng.random(CHILDREN) < risk) * 1.0
cohort = pd.DataFrame({"marker": marker, "late": late, "relapse": relapse})
measured = cohort[(cohort["relapse"] == 1) | (rng.random(CHILDREN) < RATE)]
print(f"relapsed, of the cohort: {cohort['relapse'].mean():.1%}")
print(f"relapsed, of the rows:   {measured['relapse'].mean():.1%}")

# %%
# The chance of being measured is 1 for those who relapsed and 0.2 for others: that is the bias. The same rows without a
# bias, and the whole cohort, are fitted beside it to compare.

fits = {
    "as measured": vardi.debias({"measured": measured}, {"measured": 1}),
    "debiased": vardi.debias({"measured": measured}, {"measured": f"relapse + {RATE} * (1 - relapse)"}),
    "whole cohort": vardi.debias({"cohort": cohort}, {"cohort": 1}),
}
share = {name: fit.expectation("marker") for name, fit in fits.items()}
for name, estimate in share.items():
    print(f"share of the marker, {name:<13} {estimate}")

# %%
# The risk of those with the marker and without, and a logistic regression whose errors account for the estimated
# weights. Sampling by the outcome leaves odds ratios alone and moves the intercept: risks need the weights.

risks = {name: fit.expectation("relapse", by="marker") for name, fit in fits.items()}
model = LogisticRegression(C=np.inf)
tables = {name: vardi.learn.inference(fit, model, ["marker", "late"], "relapse") for name, fit in fits.items()}
print(tables["debiased"])

# %%
# All of it side by side: a third of the children, weighted, give the same answers as the whole cohort.

rows = {
    "share of the marker": share,
    "risk with the marker": {name: table[1.0] for name, table in risks.items()},
    "risk without it": {name: table[0.0] for name, table in risks.items()},
    "log odds ratio": {name: table["marker"] for name, table in tables.items()},
}
colours = {"as measured": BEFORE, "debiased": AFTER, "whole cohort": "black"}
figure, axes = plt.subplots(2, 2, figsize=(10, 3.6), layout="constrained")
for ax, (title, found) in zip(axes.flat, rows.items(), strict=True):
    for place, (name, estimate) in enumerate(reversed(found.items())):
        ax.hlines(place, *estimate.interval, color=colours[name], lw=2)
        ax.plot(estimate.value, place, "o", color=colours[name])
    ax.set(yticks=range(3), yticklabels=list(reversed(found)), ylim=(-0.6, 2.6), title=title)
plt.show()

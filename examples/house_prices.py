"""
House prices from two samples
=============================

An agency gives 200 cheap houses, a survey 100 of all kinds: what does a house cost?

The houses are Boston's. The agency sells those up to 22 (thousand dollars) and gives 200 of them; a national survey
gives 100 at random. The agency's rows are many and biased, the survey's few and clean.
"""

import numpy as np
from matplotlib import pyplot as plt

import vardi

SEED = 0

design = vardi.datasets.house_prices(seed=SEED)
design.samples["agency"][["RM", "LSTAT", "MEDV"]].describe().round(1)

# %%
# The bias of the agency is an indicator, that of the survey a constant. That is all that is needed: where the samples
# overlap, up to 22, their rows show how large a share of the houses lies below.

fit = vardi.debias(design.samples, {"agency": "MEDV <= 22", "national": 1})
print(fit)

# %%
# The mean price of the pooled rows is far too low. The debiased one comes with an error that includes the estimation of
# the weights.

price = np.concatenate([rows["MEDV"] for rows in design.samples.values()])
mean = fit.expectation("MEDV")
print(f"pooled rows      {price.mean():.2f}")
print(f"debiased         {mean}")
print(f"all 506 houses   {design.truth['mean']:.2f}")

# %%
# The whole distribution, with a band that covers it at all points at once; and what debiasing changes.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
vardi.plots.CdfDisplay.from_fit(fit, "MEDV", ax=left)
houses = np.sort(vardi.datasets.boston()["MEDV"])
left.step(houses, np.arange(1, len(houses) + 1) / len(houses), color="black", lw=1, ls="--", label="all 506 houses")
left.legend(loc="lower right")
vardi.plots.LoveDisplay.from_fit(fit, ["MEDV", "RM", "LSTAT", "CRIM", "AGE", "TAX"], ax=right)
plt.show()

r"""
Regression with right-cut durations
===================================

Studies that stopped early saw only short durations; what is the regression for all durations?

The paper's Example 3: study k was stopped at :math:`\tau_k` and saw only what had ended by then, so that
:math:`\omega_k = 1\{T \le \tau_k\}`. Three studies, stopped after 2, 4 and 10 years (nothing lasts longer), give 600,
300 and 100 rows. The pooled rows make durations look short, and the effect of x small.
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from sklearn.linear_model import LinearRegression

import vardi
from vardi.plots import AFTER, BEFORE, CdfDisplay

SEED = 0
STOPPED = {"short": (2.0, 600), "medium": (4.0, 300), "long": (10.0, 100)}  # the study's tau, and its rows
rng = np.random.default_rng(SEED)


def population(n):
    """Draw x uniform on (0, 1), and T = 10 Beta(1 + 3 x, 3): the larger x, the longer it takes."""
    x = rng.random(n)
    return pd.DataFrame({"x": x, "time": 10 * rng.beta(1 + 3 * x, 3)})


samples = {}
for name, (tau, rows) in STOPPED.items():
    drawn = population(20 * rows)
    samples[name] = drawn[drawn["time"] <= tau].iloc[:rows].reset_index(drop=True)
pool = pd.concat(samples.values())

# %%
# Each study's bias is an ``at_most``. The shorter windows lie within the longer ones, so all can be compared.

fit = vardi.debias(samples, {name: vardi.at_most("time", tau) for name, (tau, _) in STOPPED.items()})
print(fit)

# %%
# The population's line has the slope and the mean of E[T | x] = 10 (1 + 3 x) / (4 + 3 x), by quadrature.

grid = (np.arange(100_000) + 0.5) / 100_000
conditional = 10 * (1 + 3 * grid) / (4 + 3 * grid)
slope, mean = float(12 * np.mean((grid - 0.5) * conditional)), float(conditional.mean())

pooled = LinearRegression().fit(pool[["x"]], pool["time"])
debiased = LinearRegression().fit(pool[["x"]], pool["time"], sample_weight=fit.weights)
test = population(50_000)
risk = {
    "pooled": float(np.mean((test["time"] - pooled.predict(test[["x"]])) ** 2)),
    "debiased": float(np.mean((test["time"] - debiased.predict(test[["x"]])) ** 2)),
    "least": float(np.mean((test["time"] - mean - slope * (test["x"] - 0.5)) ** 2)),
}
estimate = fit.expectation("time")
print("                         pooled   debiased   truth")
print(f"mean duration            {pool['time'].mean():6.2f} {estimate.value:10.2f} {mean:7.2f}")
print(f"slope of duration on x   {pooled.coef_[0]:6.2f} {debiased.coef_[0]:10.2f} {slope:7.2f}")
print(f"mean squared error       {risk['pooled']:6.2f} {risk['debiased']:10.2f} {risk['least']:7.2f}")
print(f"\nmean duration with its error: {estimate}")

# %%
# On the right, the band covers the whole distribution function with probability 95%.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for (name, rows), shade in zip(samples.items(), ("#d0d7de", "#8c959f", "#424a53"), strict=True):
    left.scatter(rows["x"], rows["time"], s=8, color=shade, label=f"stopped at {STOPPED[name][0]:g}: {len(rows)} rows")
x = pd.DataFrame({"x": np.linspace(0, 1, 200)})
left.plot(x["x"], pooled.predict(x), color=BEFORE, lw=2.2, label="least squares, pooled")
left.plot(x["x"], debiased.predict(x), color=AFTER, lw=2.2, label="least squares, debiased")
left.plot(x["x"], mean + slope * (x["x"] - 0.5), "--", color="black", lw=1.6, label="the population's line")
left.set(xlabel="x", ylabel="duration", ylim=(0, 14.5), title="Duration by x")
left.legend(fontsize=8, ncols=2, loc="upper left")
CdfDisplay.from_fit(fit, "time", ax=right)
right.set(title="Distribution of the durations", xlabel="duration")
plt.show()

"""
How long does unemployment last?
================================

A census encounters long spells more often than short ones; a hundred new ones correct that.

On the day of a census 400 people are out of work. They are followed until they find some, and the whole
duration is recorded. A spell of two years is twice as likely to be encountered as a spell of one: the
spells are a sample in proportion to length. An office has also followed 100 spells from their first day.
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from scipy.stats import kstest

import vardi

SEED = 0
rng = np.random.default_rng(SEED)
ENTRIES = 12_000  # spells that began in the last 40 years, at a constant rate


def spells(n):
    """Return durations in years: a month at least, most are short, some last."""
    return 1 / 12 + np.where(rng.random(n) < 0.7, rng.gamma(2.0, 0.3, n), rng.gamma(4.0, 0.4, n))


began, duration = -40 * rng.random(ENTRIES), spells(ENTRIES)
met = pd.DataFrame({"duration": duration, "lasted": -began})[duration > -began].head(400)
new = pd.DataFrame({"duration": spells(100)})
truth = 1 / 12 + 0.7 * 0.6 + 0.3 * 1.6

# %%
# If spells began at a constant rate, the day of the census falls anywhere within a spell, so that the part that had
# passed by then is uniform. This can be tested if that part was recorded.

steady = kstest(met["lasted"] / met["duration"], "uniform").pvalue
print(f"a constant rate is not contradicted: p = {steady:.2f}")

# %%
# The bias of the census is the duration itself. Alone it is enough in principle, but short spells are rare in it and
# have the largest weights, and the fit warns of it. The 100 new spells bound the weights.

fit = vardi.debias({"census": met[["duration"]], "office": new}, {"census": "duration", "office": 1})
office = vardi.debias({"office": new}, {"office": 1})
mean = {"office alone": office.expectation("duration"), "debiased": fit.expectation("duration")}
print(f"as met        {met['duration'].mean():.2f}")
for name, estimate in mean.items():
    print(f"{name:<13} {estimate}")
print(f"truth         {truth:.2f}")

# %%
# The median spell in years, and the share that lasts for more than two:

print(f"median, debiased               {fit.cdf('duration').quantile(0.5)}")
print(f"longer than 2 years, debiased  {fit.expectation('duration > 2')}")
print(f"longer than 2 years, as met    {(met['duration'] > 2).mean():.3f}")

# %%
# The distribution of spells as encountered and as they are, with a band that holds at all durations at once; and
# the weight of a spell.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
vardi.plots.CdfDisplay.from_fit(fit, "duration", ax=left)
many = np.sort(spells(20_000))
left.plot(many, np.linspace(0, 1, len(many)), "k--", lw=1, label="all spells")
left.set(xlabel="years out of work", title="Spells", xlim=(0, 6))
left.legend(loc="lower right")
length = np.linspace(0.02, 6, 200)
right.plot(length, fit.weigh(pd.DataFrame({"duration": length})), color=vardi.plots.AFTER)
right.axhline(1, color="black", lw=1, ls=":")
right.set(xlabel="years out of work", ylabel="weight", title="Short spells stand for many", ylim=(0, None))
plt.show()

r"""
Free energy of a barrier, by umbrella sampling
==============================================

A barrier that no simulation crosses, from twenty that were each held in place by a spring.

A coordinate x with two wells, 8 kT deep: a simulation of a few thousand frames never crosses. Twenty windows hold it
at places along the way by a spring, :math:`\omega_k = e^{-\frac12\kappa(x - c_k)^2}`, and each is a biased sample of
the same population. Frames follow one another in time, so errors include their autocorrelation; none is thrown away.
"""

import numpy as np
from matplotlib import pyplot as plt

import vardi
from vardi.plots import AFTER, BEFORE

SEED = 0
FRAMES, SPRING, CENTRES = 800, 60.0, np.linspace(-1.5, 1.5, 20)
rng = np.random.default_rng(SEED)


def energy(x):
    """Return 8 (x^2 - 1)^2 in kT: wells at -1 and 1, a barrier of 8 at 0."""
    return 8.0 * (x**2 - 1.0) ** 2


def simulate(steps=FRAMES, width=0.12):
    """Walk by Metropolis in all windows at once: a frame after every fifth step."""
    x, frames = CENTRES.copy(), []

    def total(x):
        return energy(x) + 0.5 * SPRING * (x - CENTRES) ** 2

    for step in range(5 * (steps + 100)):
        proposed = x + width * rng.normal(size=len(x))
        accepted = np.log(rng.random(len(x))) < total(x) - total(proposed)
        x = np.where(accepted, proposed, x)
        if step % 5 == 4:
            frames.append(x)
    return np.array(frames[100:]).T  # the first hundred are for settling


frames = simulate()
samples = {f"{centre:+.2f}": own for centre, own in zip(CENTRES, frames, strict=True)}
biases = {name: f"exp(-{SPRING / 2} * (x - {centre})**2)" for name, centre in zip(samples, CENTRES, strict=True)}

# %%
# One fit of all windows. Its population is what the coordinate does without a spring.

fit = vardi.debias(samples, biases, series=True)
worth = vardi.mbar.inefficiencies(fit)
slowest = max(worth, key=worth.get)
print(f"frames of {slowest} are the slowest: {worth[slowest]:.0f} of them are worth an independent one")

# %%
# The free energy profile, from the left well on, with 95% intervals; beside it the same from all frames as they are, as
# if no spring had held them.

edges = np.linspace(-1.5, 1.5, 31)
middles = (edges[1:] + edges[:-1]) / 2
well = middles[np.argmin(np.abs(middles + 1.0))]
surface = vardi.mbar.FES.of_fit(fit)
surface.generate_fes(None, "x", histogram_parameters={"bin_edges": edges})
found = surface.get_fes(middles, "from-specified", well, uncertainty_method="analytical")

within = np.linspace(edges[:-1], edges[1:], 201)
truth = -np.log(np.exp(-energy(within)).mean(axis=0))
truth -= truth[middles == well]
counts = np.histogram(np.concatenate(list(samples.values())), edges)[0]
pooled = -np.log(counts / counts[middles == well])

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(middles, truth, color="black", label="truth")
left.plot(middles, pooled, color=BEFORE, marker=".", ls="none", label="pooled frames")
left.errorbar(middles, found["f_i"], 1.96 * found["df_i"], color=AFTER, fmt=".", capsize=2, label="debiased, 95%")
left.set(xlabel="x", ylabel="free energy (kT)", title="From the left well on")
left.legend()
vardi.plots.OverlapDisplay.from_fit(fit, ax=right)
right.set_title("Overlap of the windows")

# %%
# The barrier, in units of chemistry at 300 K:

top = int(np.argmax(np.where(np.abs(middles) < 0.5, found["f_i"], -np.inf)))
barrier = vardi.Estimate(found["f_i"][top], found["df_i"][top])
print("barrier in kJ/mol:", barrier * vardi.mbar.kT("kJ/mol", 300))

pooled_error = float(np.sqrt(np.mean((pooled - truth) ** 2)))
debiased_error = float(np.sqrt(np.mean((found["f_i"] - truth) ** 2)))
print(f"error of the profile: {pooled_error:.2f} kT pooled, {debiased_error:.2f} kT debiased")
plt.show()

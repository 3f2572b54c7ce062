"""Umbrella windows simulated by Metropolis chains over profiles that are known."""

from __future__ import annotations

import numpy as np

from vardi.mbar import kT

FRAMES = 3000
KCAL = kT("kcal/mol", 300)
CENTRES = np.linspace(-1.6, 1.6, 9)[:, None]
SPRINGS = np.full((9, 1), 12.0)


def simulated(potential, centres, springs, beta, seed=0, period=np.inf, moves=4):
    """Return frames of Metropolis chains, of shape (windows, FRAMES, D); potential and springs in one unit."""
    rng = np.random.default_rng(seed)
    centres, springs, beta = np.asarray(centres, float), np.asarray(springs, float), np.broadcast_to(beta, len(centres))

    def energy(x):
        way = x - centres
        if np.isfinite(period):
            way -= period * np.rint(way / period)
        return beta * (potential(x) + 0.5 * (springs * way**2).sum(axis=1))

    x, frames = centres.copy(), np.empty((FRAMES, *centres.shape))
    step = 1.5 / np.sqrt(beta[:, None] * springs)
    now = energy(x)
    for place in range(-100, FRAMES):
        for _ in range(moves):
            tried = x + step * rng.uniform(-1, 1, x.shape)
            then = energy(tried)
            taken = np.log(rng.random(len(x))) < now - then
            x, now = np.where(taken[:, None], tried, x), np.where(taken, then, now)
        if place >= 0:
            frames[place] = x
    return frames.swapaxes(0, 1)


def double_well(x):
    """In kcal/mol."""
    return 1.5 * (x[..., 0] ** 2 - 1.0) ** 2


def torsion(x):
    return 1.5 * (1.0 + np.cos(2 * x[..., 0])) + np.sin(x[..., 0])


def valley(x):
    return x[..., 0] ** 2 / 2 + (x[..., 1] - 0.5 * x[..., 0]) ** 2


def truth(potential, profile, thermal):
    """Return the free energy of each bin, by a sum over points within it."""
    grids = [np.linspace(one[:-1], one[1:], 23)[1::2].T for one in profile.edges]  # (bins, points)
    shape = [len(one) for one in grids]
    weight = np.empty(shape)
    for index in np.ndindex(*shape):
        points = np.stack(np.meshgrid(*[one[i] for one, i in zip(grids, index, strict=True)]), axis=-1)
        weight[index] = np.exp(-potential(points) / thermal).mean()
    return -thermal * np.log(weight.ravel())


def deviations(profile, potential, thermal):
    """Return by how many errors each bin that has one is off the truth; the lowest is the reference."""
    expected, there = truth(potential, profile, thermal), np.isfinite(profile.f) & (profile.df > 0)
    assert there.sum() > 0.7 * len(profile.f)
    lowest = int(np.nanargmin(profile.f))
    return (profile.f - (expected - expected[lowest]))[there] / profile.df[there]

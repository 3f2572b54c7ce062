r"""The sums of one likelihood at v = (u, theta, mu, epsilon): a question, and what its answers say.

With :math:`x_i = \nabla S_i / S_i = (p_i, y_i, -R'\mu / S_i)`, where y has the parts in theta and mu, and :math:`t_k =
\nabla\log\omega_k`. A known moment that is the mean of a bias with parameters is :math:`e^o\omega_k` on the user's
scale, with gradient :math:`t_k + o'` in theta.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from vardi._rows.columns import Block, Point
from vardi._rows.contract import Coordinates, JointSums
from vardi._types import Floats


def likelihood(block: Block[Any], point: Point[Any], at: Coordinates, *, objective: bool) -> dict[Hashable, Any]:
    """Return what to sum over the rows of a block, in one pass."""
    p, y, r = point.probabilities, point.others, point.weight
    sums: dict[Hashable, Any] = {"r": block.total(r), "p": block.sum(p), "y": block.sum(y)}
    sums |= {"pp": block.square(p), "py": block.gram(p, y), "yy": block.square(y)}
    if at.uncertain:
        sums |= {"pr": block.sum(p.times(r)), "yr": block.sum(y.times(r)), "rr": block.total(r * r)}
    if objective:
        sums["log S"] = block.total(point.log_mass)
    for k in point.places:
        t, share, own = point.gradient(k), point.share(k), block.within(k, 1.0)
        sums |= {("own", k): block.sum(t.times(own)), ("t", k): block.sum(t.times(share))}
        sums |= {("tt", k): block.square(t, share), ("bend", k): point.bend(block, k, share - own)}
        if objective:
            sums["log own", k] = block.total(block.within(k, point.log_family(k)))
    for j, k in point.moving.items():
        h, t = point.users_bias(k) * r, point.gradient(k).shifted(point.users_slope(k))
        sums |= {("h", j): block.sum(t.times(h)), ("hh", j): block.square(t, h), ("h bend", j): point.bend(block, k, h)}
    return sums


def joint_sums(
    sums: Mapping[Hashable, Floats], point: Point[Any], at: Coordinates, mu: Floats, root: Floats
) -> JointSums:
    """Return the answers, each in its place; without the objective ``log_mass`` is NaN."""
    d, K, epsilon = len(at), at.samples, point.weight_of_epsilon
    inner = slice(K, at.epsilon.start)
    x = np.concatenate([sums["p"], sums["y"], epsilon * sums["r"]])
    gram, information, bend, own = np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d)), np.zeros(d)
    gram[:K, :K], gram[:K, inner] = sums["pp"], sums["py"]
    gram[inner, :K], gram[inner, inner] = sums["py"].T, sums["yy"]
    if at.uncertain:
        gram[: inner.stop, at.epsilon] = np.outer(np.concatenate([sums["pr"], sums["yr"]]), epsilon)
        gram[at.epsilon, : inner.stop] = gram[: inner.stop, at.epsilon].T
        gram[at.epsilon, at.epsilon] = np.outer(epsilon, epsilon) * sums["rr"]
        information[at.mu, at.epsilon] = -root * sums["r"]
        information[at.epsilon, at.mu] = information[at.mu, at.epsilon].T
    information[np.arange(K), np.arange(K)] = sums["p"]
    for k, place in point.places.items():
        where = slice(K + place.start, K + place.stop)
        own[where] = sums["own", k]
        information[k, where] = information[where, k] = sums["t", k]
        information[where, where], bend[where, where] = sums["tt", k], sums["bend", k]
    for j, k in point.moving.items():
        where, row = slice(K + point.places[k].start, K + point.places[k].stop), at.mu.start + j
        information[row, where] = information[where, row] = sums["h", j]
        bend[where, where] += mu[j] * (sums["hh", j] + sums["h bend", j])
    log_mass = sums.get("log S", np.nan) - sum(float(sums.get(("log own", k), 0.0)) for k in point.places)
    return JointSums(float(sums["r"]), float(log_mass), x, gram, own, information + bend, information, positive=True)

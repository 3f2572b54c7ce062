r"""The sums of one likelihood at v = (u, theta, mu, epsilon): a question.

With :math:`x_i = \nabla S_i / S_i = (p_i, y_i, -R'\mu / S_i)`, where y has the parts in theta and mu, and :math:`t_k =
\nabla\log\omega_k`. A known moment that is the mean of a bias with parameters is :math:`e^o\omega_k` on the user's
scale, with gradient :math:`t_k + o'` in theta.
"""

from __future__ import annotations

import numpy as np

from vardi._rows.contract import Block, JointSums, Question, within
from vardi._rows.point import Point


def likelihood(point: Point, *, objective: bool) -> Question[JointSums]:
    """Return the question of all sums at a point; without the objective ``log_mass`` is NaN."""

    def question(block: Block) -> JointSums:
        at, rows = point.model.coordinates, point.at(block)
        K, d, inner = at.samples, len(at), at.epsilon.start
        p, r, epsilon = rows.p, rows.weight, rows.weight_of_epsilon
        shares, inverse = block.sum(p), block.sum(r)  # type: ignore[arg-type]
        products, gram, beside = block.gram(p, p), np.zeros((d - K, d)), np.zeros((d - K, d))  # gram: beyond u
        x, own, bend = np.zeros(d), np.zeros(d), np.zeros((at.parameters, at.parameters))
        x[at.u], x[at.epsilon], log_mass = shares, epsilon * inverse, np.full(1, np.nan)
        if inner > K:
            y = rows.others
            x[K:inner], gram[: inner - K, :K] = block.sum(y), block.gram(y, p)
            gram[: inner - K, K:inner] = block.gram(y, y)
        if at.uncertain:
            gram[inner - K :] = np.outer(epsilon, rows.against(r)[:, 0])
            gram[:, at.epsilon] = gram[inner - K :, K:].T
            mu, known = slice(at.mu.start - K, at.mu.stop - K), -point.model.known.root * inverse
            beside[mu, at.epsilon], beside[inner - K :, at.mu] = known, known.T
        if objective:
            log_mass = block.sum(rows.log_mass)
        for k, place in point.model.places.items():
            where, family = slice(K + place.start, K + place.stop), rows.families[k]  # among all coordinates
            share, mine, t = p.column(k), within(block, k), family.gradient
            own[where] = block.sum(t * mine)
            beside[place, k] = block.sum(t * share)
            beside[place, where], bend[place, place] = block.gram(t * share, t), family.bend(share - mine)
            if objective:
                log_mass = log_mass - block.sum(family.log * mine)
        for j, k in point.model.known.moving.items():
            place, row = point.model.places[k], at.mu.start + j
            where = slice(K + place.start, K + place.stop)
            h, t = block.let(rows.users_bias(k) * r), rows.users_gradient(k)
            beside[row - K, where] = beside[place, row] = block.sum(t * h)
            bend[place, place] += rows.mu[j] * (block.gram(t * h, t) + rows.families[k].bend(h))
        refused = float(block.sum(rows.refused)[0]) if at.known else 0.0
        return JointSums(float(inverse[0]), float(log_mass[0]), x, products, gram, own, beside, bend, refused)

    return question

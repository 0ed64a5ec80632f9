"""L-BFGS: curvature from the last few steps."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

from sciml_par._checks import checked_integer
from sciml_par._tensorflow import tf
from sciml_par.training.optimizers.quasi_newton.method import Pair, QuasiNewton

Tensor = Any


class Pairs(NamedTuple):
    """The pairs (s, y) of the last m steps; that of step k is in place (k − 1) mod m."""

    steps: Tensor  # s, [M, m, p]
    changes: Tensor  # y, [M, m, p]
    weights: Tensor  # 1/(sᵀy), [M, m]; 0 where there is no pair
    scale: Tensor  # γ = sᵀy/(yᵀy) of the last pair, [M]


@dataclass(frozen=True)
class LBFGS(QuasiNewton):
    """L-BFGS with a strong Wolfe line search (Nocedal and Wright 2006, algorithms 7.4 and 7.5).

        θ ← θ − α H g,    H from the last m pairs (s, y) and H₀ = γ I, γ = sᵀy/(yᵀy)

    It has 2 m p numbers for each member, and is the one for networks with many parameters; for up
    to a few thousand parameters `SSBroyden` gets further. It is for points that stay the same, or
    change seldom (`Points(resample_every=…)`), in double precision, and often after some steps of
    `Adam`. With minibatches it works, and seldom pays. Learning rates of members have no meaning
    for it; it has none.

    Parameters
    ----------
    memory : m ≥ 1, pairs that are kept.
    sufficient_decrease, curvature : c₁ < c₂ of the line search's conditions, dimensionless.
    evaluations : of loss and gradient that one line search makes at most.

    Examples
    --------
    >>> from sciml_par.training import LBFGS, Adam
    >>> phases = [(Adam(1e-3), 1_000), (LBFGS(), 500)]
    """

    _: KW_ONLY
    memory: int = 50
    sufficient_decrease: float = 1e-4
    curvature: float = 0.9
    evaluations: int = 25

    def __post_init__(self) -> None:
        checked_integer(self.memory, "LBFGS: memory", least=1)
        self._check_line_search()

    def start(self, parameters: Tensor) -> Pairs:
        members, size = parameters.shape
        none = tf.zeros([members, self.memory, size], parameters.dtype)
        weights = tf.zeros([members, self.memory], parameters.dtype)
        return Pairs(none, none, weights, tf.ones([members], parameters.dtype))

    def direction(self, memory: Pairs, gradient: Tensor, number: Tensor) -> Tensor:
        """See `QuasiNewton`: the two loops, through the pairs that there are."""
        there = tf.minimum(number - 1, self.memory)
        dtype = gradient.dtype

        def pair(age: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
            place = (number - 2 - age) % self.memory
            parts = (memory.steps, memory.changes, memory.weights)
            return place, *(tf.gather(part, place, axis=1) for part in parts)

        def back(age: Tensor, q: Tensor, shares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            place, s, y, weight = pair(age)
            share = weight * tf.reduce_sum(s * q, axis=1)
            shares = tf.tensor_scatter_nd_update(shares, [[place]], share[None])
            return age + 1, q - share[:, None] * y, shares

        def forth(age: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
            place, s, y, weight = pair(age)
            share = tf.gather(shares, place) - weight * tf.reduce_sum(y * r, axis=1)
            return age - 1, r + share[:, None] * s

        begin = (tf.constant(0), gradient, tf.zeros([self.memory, gradient.shape[0]], dtype))
        _, q, shares = tf.while_loop(lambda age, *_: age < there, back, begin)
        r = memory.scale[:, None] * q
        _, r = tf.while_loop(lambda age, _: age >= 0, forth, (there - 1, r))
        return -r

    def learn(self, memory: Pairs, pair: Pair, number: Tensor) -> Pairs:
        """See `QuasiNewton`: the pair takes the place of the oldest."""
        s, y, good = pair.step, pair.change, pair.good
        one, zero = tf.ones_like(memory.scale), tf.zeros_like(memory.scale)
        product = tf.where(good, tf.reduce_sum(s * y, axis=1), one)
        square = tf.where(good, tf.reduce_sum(y * y, axis=1), one)
        here = tf.range(self.memory) == (number - 1) % self.memory
        weights = tf.where(pair.fresh[:, None], tf.zeros_like(memory.weights), memory.weights)

        def written(values: Tensor, new: Tensor) -> Tensor:
            # A pair that is not used must have numbers: zero times no number is none.
            new = tf.where(good[:, None], new, tf.zeros_like(new))
            return tf.where(here[None, :, None], new[:, None], values)

        return Pairs(
            steps=written(memory.steps, s),
            changes=written(memory.changes, y),
            weights=tf.where(here[None], tf.where(good, 1 / product, zero)[:, None], weights),
            scale=tf.where(good, product / square, memory.scale),
        )

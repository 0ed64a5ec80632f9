"""Weights of terms: from their gradients, their kernels, and the decrease of their losses."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.training.weights.loss_weights import (
    LossAt,
    LossWeights,
    State,
    TermsOfLoss,
    where_positive,
)

Tensor = Any


@dataclass(frozen=True)
class GradientAnnealing(LossWeights):
    """Conditions whose gradients are as large as those of the equations.

        λ̂_t = max_j |∂L_r/∂θ_j| / mean_j |∂(λ_t L_t)/∂θ_j|        λ_t ← m λ_t + (1 − m) λ̂_t

    for conditions t, with L_r the sum of the equations' terms and λ = 1 for these (Wang, Teng and
    Perdikaris 2021, arXiv:2001.04536, algorithm 1, where 1 − m is called α; the gradient below the
    line is that of the weighted term, as in the authors' program).

    Parameters
    ----------
    memory : m, in [0, 1), dimensionless.
    every : λ changes every `every` steps.
    """

    limited: ClassVar[tuple[str, ...]] = ("memory",)

    _: KW_ONLY
    memory: float = 0.9
    every: int = 10

    def check(self, terms: TermsOfLoss) -> None:
        if len(terms.names) == terms.equations:
            raise InputError(
                "GradientAnnealing: the problem has no conditions to weigh against equations. Use "
                "GradientNorm() or NTKWeights() for several equations."
            )

    def update(self, state: State, loss: LossAt, number: Tensor) -> State:
        factors, gradients = state["factors"], loss.gradients()
        whole = tf.reduce_sum(gradients[:, : loss.terms.equations], axis=1)
        largest = tf.reduce_max(tf.abs(whole), axis=1, keepdims=True)
        means = factors * tf.reduce_mean(tf.abs(gradients), axis=2)
        now = where_positive(means, lambda mean: largest / mean, factors)
        conditions = tf.range(len(loss.terms.names)) >= loss.terms.equations
        mean = self.memory * factors + (1 - self.memory) * now
        return {"factors": tf.where(conditions, mean, factors)}


@dataclass(frozen=True)
class GradientNorm(LossWeights):
    """Terms that all have gradients of the same norm.

        λ̂_t = Σ_s ‖∇L_s‖ / ‖∇L_t‖        λ_t ← m λ_t + (1 − m) λ̂_t

    over all terms s, equations and conditions (Wang, Sankaran, Wang and Perdikaris 2023,
    arXiv:2308.08468, algorithm 1, where m is called α). The weights of residuals and conditions
    themselves, which L_t has, cancel, but for a common factor.

    Parameters
    ----------
    memory : m, in [0, 1), dimensionless.
    every : λ changes every `every` steps; the paper has 1000.
    """

    limited: ClassVar[tuple[str, ...]] = ("memory",)

    _: KW_ONLY
    memory: float = 0.9
    every: int = 100

    def update(self, state: State, loss: LossAt, number: Tensor) -> State:
        return _balanced(state, tf.norm(loss.gradients(), axis=2), self.memory)


@dataclass(frozen=True)
class NTKWeights(LossWeights):
    """Terms whose residuals decrease at the same mean rate under gradient descent.

        λ̂_t = tr K / tr K_tt        λ_t ← m λ_t + (1 − m) λ̂_t

    with K_tt = J_t J_tᵀ the neural tangent kernel of term t and tr K = Σ_t tr K_tt (Wang, Yu and
    Perdikaris 2022, arXiv:2007.14527, algorithm 1, which has m = 0). The traces are computed,
    not estimated: tr K_tt = Σ_i ‖∂ρ_i/∂θ‖² over the points of all ranks, with
    ρ = √(w/N) r what the loss sums the squares of. So they are means over points, where the paper
    has sums, and do not depend on how many points a term has.

    Parameters
    ----------
    memory : m, in [0, 1), dimensionless.
    every : λ changes every `every` steps. A change costs the derivatives of all residuals by all
        parameters, and memory for them on each rank: its own residuals times parameters.
    """

    limited: ClassVar[tuple[str, ...]] = ("memory",)
    needs_jacobian: ClassVar[bool] = True

    _: KW_ONLY
    memory: float = 0.0
    every: int = 100

    def update(self, state: State, loss: LossAt, number: Tensor) -> State:
        return _balanced(state, loss.kernel_traces(), self.memory)


def _balanced(state: State, sizes: Tensor, memory: float) -> State:
    """Return the running mean of the factors that make all terms as large as their sum."""
    factors, total = state["factors"], tf.reduce_sum(sizes, axis=1, keepdims=True)
    now = where_positive(sizes, lambda size: total / size, factors)
    return {"factors": memory * factors + (1 - memory) * now}


@dataclass(frozen=True)
class ReLoBRaLo(LossWeights):
    """Give the largest weights to the terms that have decreased the least.

        b_t(k; k') = T softmax_t [L_t(k) / (τ L_t(k'))]
        λ_t(k) = α [ρ λ_t(k−1) + (1 − ρ) b_t(k; 0)] + (1 − α) b_t(k; k−1)

    over T terms, with ρ drawn at random, 1 with a given probability and else 0 (Bischof and Kraus
    2021, arXiv:2110.09813, section 3, ReLoBRaLo). The sum of all λ is T. All members share the
    draws, which depend on the seed and the number of the step alone.

    Parameters
    ----------
    temperature : τ, positive, dimensionless: small ones make λ of one term T and the others 0.
    memory : α, in [0, 1), dimensionless.
    lookback : the probability of ρ = 1, in [0, 1]; else the losses are compared with the first.
    seed : of the draws, an integer ≥ 0.
    every : λ changes every `every` steps.
    """

    limited: ClassVar[tuple[str, ...]] = ("temperature", "memory", "lookback", "seed")

    _: KW_ONLY
    temperature: float = 0.1
    memory: float = 0.999
    lookback: float = 0.999
    seed: int = 0
    every: int = 1

    def start(self, terms: TermsOfLoss, members: int, dtype: Any) -> State:
        zeros = tf.zeros([members, len(terms.names)], dtype)
        # The terms of the loss at the first change, and at the last.
        return super().start(terms, members, dtype) | {"first": zeros, "last": zeros}

    def update(self, state: State, loss: LossAt, number: Tensor) -> State:
        now, factors = loss.values, state["factors"]
        # At the first change there is nothing to compare with but the loss itself.
        new = tf.reduce_all(state["first"] == 0, axis=1, keepdims=True)
        first, last = (tf.where(new, now, state[name]) for name in ("first", "last"))

        def balance(then: Tensor) -> Tensor:
            scaled = self.temperature * then
            ratio = where_positive(scaled, lambda divisor: now / divisor, tf.zeros_like(now))
            return now.shape[1] * tf.nn.softmax(ratio, axis=1)

        draw = tf.random.stateless_uniform([], [self.seed, number], dtype=now.dtype, alg="philox")
        kept = tf.where(draw < self.lookback, factors, balance(first))
        factors = self.memory * kept + (1 - self.memory) * balance(last)
        return {"factors": factors, "first": first, "last": now}

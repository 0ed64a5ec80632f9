"""The strategies: weights of terms by gradients, kernels and losses, and weights of points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.training.weights.loss_weights import (
    POSITIVE,
    LossAt,
    LossWeights,
    State,
    TermsOfLoss,
    quotient,
)

Tensor = Any
_BETA_1, _BETA_2, _EPSILON = 0.99, 0.999, 1e-7  # of Adam


@dataclass(frozen=True, kw_only=True)
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
        now = quotient(largest, means, factors)
        conditions = tf.range(len(loss.terms.names)) >= loss.terms.equations
        mean = self.memory * factors + (1 - self.memory) * now
        return {"factors": tf.where(conditions, mean, factors)}


@dataclass(frozen=True, kw_only=True)
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

    memory: float = 0.9
    every: int = 100

    def update(self, state: State, loss: LossAt, number: Tensor) -> State:
        return _balanced(state, tf.norm(loss.gradients(), axis=2), self.memory)


@dataclass(frozen=True, kw_only=True)
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

    needs_jacobian: ClassVar[bool] = True

    memory: float = 0.0
    every: int = 100

    def update(self, state: State, loss: LossAt, number: Tensor) -> State:
        return _balanced(state, loss.kernel_traces(), self.memory)


def _balanced(state: State, sizes: Tensor, memory: float) -> State:
    """Return the running mean of the factors that make all terms as large as their sum."""
    factors, total = state["factors"], tf.reduce_sum(sizes, axis=1, keepdims=True)
    now = quotient(total, sizes, factors)
    return {"factors": memory * factors + (1 - memory) * now}


@dataclass(frozen=True, kw_only=True)
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
            ratio = quotient(now, self.temperature * then, tf.zeros_like(now))
            return now.shape[1] * tf.nn.softmax(ratio, axis=1)

        draw = tf.random.stateless_uniform([], [self.seed, number], dtype=now.dtype, alg="philox")
        kept = tf.where(draw < self.lookback, factors, balance(first))
        factors = self.memory * kept + (1 - self.memory) * balance(last)
        return {"factors": factors, "first": first, "last": now}


@dataclass(frozen=True, kw_only=True)
class _OfPoints(LossWeights):
    """A number a for each point of the terms that are weighed; 1 for the others."""

    of_points: ClassVar[bool] = True
    of_conditions: ClassVar[bool] = True
    """Whether conditions are weighed as well where no terms are named."""

    rate: float
    initial: float = 1.0
    terms: Sequence[str] | None = None
    every: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.terms, str) or not isinstance(self.terms, tuple | list | None):
            raise InputError(
                f"{type(self).__name__}: expected terms to be names of terms of the loss, such as "
                f"('residual',); got {self.terms!r}."
            )

    def check(self, terms: TermsOfLoss) -> None:
        for name in self.terms or ():
            if name not in terms.names:
                raise InputError(
                    f"{type(self).__name__}: the loss has no term {name!r}; its terms are "
                    f"{', '.join(map(repr, terms.names))}."
                )

    def weighed(self, terms: TermsOfLoss) -> list[bool]:
        """Return of each term whether its points are weighed."""
        usual = terms.names if self.of_conditions else terms.names[: terms.equations]
        chosen = usual if self.terms is None else self.terms
        return [name in chosen for name in terms.names]

    def start(self, terms: TermsOfLoss, members: int, dtype: Any) -> State:
        of_terms = zip(terms.points, self.weighed(terms), strict=True)
        first = [(n, self.initial if weighed else 1.0) for n, weighed in of_terms]
        return {"a": tuple(tf.fill([members, n], tf.constant(a, dtype)) for n, a in first)}


@dataclass(frozen=True, kw_only=True)
class SelfAdaptive(_OfPoints):
    """Points whose weights grow as long as their residuals are not zero.

        L_λ = Σ_t (w_t/N_t) Σ_i m(a_ti) |r_t(x_i)|²,    m(a) = a^q
        g_ti = m'(a_ti) |r_t(x_i)|²

    so that the loss is minimized over θ and maximized over the a (McClenny and Braga-Neto 2023,
    arXiv:2009.04544, the section on self-adaptive networks). The ascent is Adam's, as in the
    authors' program, before the step of θ. Its averages of g and g² make an a rise by about η in a
    step, whatever the size of g. An a never falls.

    The weights belong to points: all steps must have the same ones.

    Parameters
    ----------
    rate : η, positive, dimensionless.
    initial : a before the first step, positive.
    power : q, positive.
    terms : the names of the terms whose points have weights; by default all.
    every : λ changes every `every` steps.
    """

    limits: ClassVar[Mapping[str, Any]] = {**LossWeights.limits, "initial": POSITIVE}

    rate: float = 5e-3
    power: float = 2.0

    def start(self, terms: TermsOfLoss, members: int, dtype: Any) -> State:
        state = super().start(terms, members, dtype)
        none = tuple(map(tf.zeros_like, state["a"]))
        return state | {"mean": none, "mean_square": none}

    def update(self, state: State, loss: LossAt, number: Tensor) -> State:
        count = tf.cast(number // self.every + 1, loss.values.dtype)
        # The averages begin at zero: Kingma and Ba 2015, algorithm 1.
        unbias = tf.sqrt(1 - _BETA_2**count) / (1 - _BETA_1**count)
        squares, found = loss.squares(), []
        for t, weighed in enumerate(self.weighed(loss.terms)):
            a, mean, mean_square = (state[name][t] for name in ("a", "mean", "mean_square"))
            if weighed:
                slope = self.power * a ** (self.power - 1) * squares[t]
                mean = _BETA_1 * mean + (1 - _BETA_1) * slope
                mean_square = _BETA_2 * mean_square + (1 - _BETA_2) * slope**2
                a += self.rate * unbias * mean / (tf.sqrt(mean_square) + _EPSILON)
            found.append((a, mean, mean_square))
        return dict(zip(("a", "mean", "mean_square"), zip(*found, strict=True), strict=True))

    def multipliers(self, state: State, loss: LossAt) -> list[Tensor]:
        return [a**self.power for a in state["a"]]


@dataclass(frozen=True, kw_only=True)
class ResidualBasedAttention(_OfPoints):
    """Points whose residuals stay large among those of their term count most.

        a_ti ← γ a_ti + η |r_t(x_i)| / max_j |r_t(x_j)|        λ_ti = a_ti²

    with the largest residual of all ranks (Anagnostopoulos, Toscano, Stergiopulos and Karniadakis
    2024, arXiv:2307.00379, the update rule of the RBA weights). No a comes to exceed η / (1 − γ).

    The weights belong to points: all steps must have the same ones.

    Parameters
    ----------
    decay : γ, in [0, 1), dimensionless.
    rate : η, positive, dimensionless.
    initial : a before the first step, at least 0.
    terms : the names of the terms whose points have weights; by default the equations.
    every : λ changes every `every` steps.
    """

    of_conditions: ClassVar[bool] = False

    rate: float = 0.01
    decay: float = 0.999

    def update(self, state: State, loss: LossAt, number: Tensor) -> State:
        sizes = [tf.sqrt(squares) for squares in loss.squares()]
        zero = tf.zeros([sizes[0].shape[0], 1], sizes[0].dtype)
        # A rank without points of a term has zero there, which is at most any residual.
        own = [tf.reduce_max(tf.concat([zero, size], axis=1), axis=1) for size in sizes]
        largest = loss.ranks.largest(tf.stack(own, axis=1))
        found = []
        for t, weighed in enumerate(self.weighed(loss.terms)):
            a, size = state["a"][t], sizes[t]
            share = quotient(size, largest[:, t : t + 1], size)
            found.append(self.decay * a + self.rate * share if weighed else a)
        return {"a": tuple(found)}

    def multipliers(self, state: State, loss: LossAt) -> list[Tensor]:
        return [tf.square(a) for a in state["a"]]


@dataclass(frozen=True, kw_only=True)
class Causal(LossWeights):
    """Weigh equations at a time by how well they hold at all times before.

        λ_i = exp(−ε Σ_{k<i} L_k)

    for points in slice i of S slices of equal length of the time of the domain, with L_k the sum
    over the equations of their mean squares, with their weights, in slice k (Wang, Sankaran and
    Perdikaris 2024, arXiv:2203.07404, algorithm 1). Conditions have λ = 1. ε is the first of a
    sequence until the smallest λ exceeds a tolerance δ, and then the next.

    Parameters
    ----------
    epsilon : ε, positive, in units of 1/L, or an ascending sequence of these.
    tolerance : δ, in (0, 1), dimensionless.
    slices : S, at least 2. A slice without points has L_k = 0.
    coordinate : the name of the coordinate that is the time.
    every : λ changes every `every` steps.
    """

    epsilon: float | Sequence[float] = (1e-2, 1e-1, 1.0, 1e1, 1e2)
    tolerance: float = 0.99
    slices: int = 32
    coordinate: str = "t"
    every: int = 1

    def check(self, terms: TermsOfLoss) -> None:
        if self.coordinate not in terms.coordinates:
            raise InputError(
                f"Causal: the problem has no coordinate {self.coordinate!r}; its coordinates are "
                f"{', '.join(map(repr, terms.coordinates))}. Name the time in the domain, as "
                f"Box(…, names=('x', 't')), or write Causal(coordinate={terms.coordinates[-1]!r})."
            )

    def start(self, terms: TermsOfLoss, members: int, dtype: Any) -> State:
        # The weights of the slices, and which ε holds.
        ones = tf.ones([members, self.slices], dtype)
        return {"slices": ones, "stage": tf.zeros([members], tf.int32)}

    def update(self, state: State, loss: LossAt, number: Tensor) -> State:
        parts = []
        for squares, own in zip(loss.weighted_squares(), self._slices_of(loss), strict=False):
            inside = tf.one_hot(own, self.slices, dtype=squares.dtype)
            inside = tf.broadcast_to(inside, [*squares.shape, self.slices])
            parts += [tf.einsum("mn,mns->ms", squares, inside), tf.reduce_sum(inside, axis=1)]
        sums = loss.ranks.sum(tf.stack(parts))
        losses = tf.reduce_sum(sums[0::2] / tf.maximum(sums[1::2], 1), axis=0)
        given: Any = self.epsilon
        epsilons = tf.constant(given if isinstance(given, tuple | list) else [given], losses.dtype)
        earlier = tf.cumsum(losses, axis=1, exclusive=True)
        weights = tf.exp(-tf.gather(epsilons, state["stage"])[:, None] * earlier)
        solved = tf.reduce_min(weights, axis=1) > self.tolerance
        stage = tf.minimum(state["stage"] + tf.cast(solved, tf.int32), epsilons.shape[0] - 1)
        return {"slices": weights, "stage": stage}

    def multipliers(self, state: State, loss: LossAt) -> list[Tensor]:
        weights, numbers = state["slices"], self._slices_of(loss)
        found = [tf.gather(weights, n, axis=1, batch_dims=n.shape.rank - 1) for n in numbers]
        ones = tf.ones([weights.shape[0]], weights.dtype)
        return found + [ones] * (len(loss.terms.names) - len(found))

    def _slices_of(self, loss: LossAt) -> list[Tensor]:
        """Return the slice of each point of the equations, [n_t] or [M, n_t] each."""
        axis = loss.terms.coordinates.index(self.coordinate)
        spans = [
            (a[axis], b[axis]) for a, b in zip(loss.terms.lower, loss.terms.upper, strict=True)
        ]
        found = []
        for times in loss.coordinate(axis)[: loss.terms.equations]:
            begin, end = spans[0]
            if len(set(spans)) > 1:
                begin, end = tf.unstack(tf.constant(spans, times.dtype)[:, :, None], axis=1)
            place = tf.floor((times - begin) / (end - begin) * self.slices)
            found.append(tf.cast(tf.clip_by_value(place, 0, self.slices - 1), tf.int32))
        return found

"""The strategies for the weights of a loss once more, in NumPy and for one model on one rank.

The model is u(t) = tanh(t W + b) V + c. Derivatives by its parameters are complex steps, which are
exact to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from sciml_par.problems import Dirichlet, Interval, Neumann, Problem, derivative
from sciml_par.training import (
    Causal,
    GradientAnnealing,
    GradientNorm,
    NTKWeights,
    ReLoBRaLo,
    ResidualBasedAttention,
    SelfAdaptive,
)

Array = npt.NDArray[Any]
WIDTH, BEGIN, END = 3, 0.0, 2.0
TIMES = np.array([[0.1], [0.35], [0.5], [0.9], [1.3], [1.55], [1.9]])
WEIGHTS = (1.0, 3.0, 0.5)
DOMAIN = Interval(BEGIN, END, name="t")


def residual(u: Any, t: Any) -> Any:
    """Two components, one of them not linear."""
    return tf.concat([derivative(u, t, 0) + u(t) ** 2 - tf.cos(t), 0.5 * t * u(t)], axis=1)


def problem() -> Problem:
    """Of an equation and two conditions, each of which has a point."""
    return Problem(
        DOMAIN,
        residual,
        conditions=[
            Dirichlet(0.3, where=lambda x: x[:, 0] == BEGIN, weight=WEIGHTS[1]),
            Neumann(0.1, where=lambda x: x[:, 0] == END, weight=WEIGHTS[2]),
        ],
    )


def residuals(theta: Array) -> list[Array]:
    """r of the three terms at their points, [n, k] each."""
    w, b, v, c = np.split(theta, np.cumsum([WIDTH, WIDTH, WIDTH]))

    def u(t: Array) -> tuple[Array, Array]:
        h = np.tanh(t * w + b)
        return (h @ v + c)[:, None], ((1 - h**2) * w @ v)[:, None]

    value, slope = u(TIMES)
    equation = np.concatenate([slope + value**2 - np.cos(TIMES), 0.5 * TIMES * value], axis=1)
    return [equation, u(np.array([[BEGIN]]))[0] - 0.3, u(np.array([[END]]))[1] - 0.1]


def jacobians(theta: Array) -> list[Array]:
    """∂r/∂θ of the three terms, [n, k, p] each."""
    h = 1e-30
    steps = [residuals(theta + 1j * h * e) for e in np.eye(len(theta))]
    return [np.stack([step[t].imag / h for step in steps], axis=-1) for t in range(3)]


def losses(theta: Array) -> Array:
    """The terms of the loss, [T]."""
    return np.array(
        [w * np.sum(r**2) / len(r) for w, r in zip(WEIGHTS, residuals(theta), strict=True)]
    )


def gradients(theta: Array, factors: Any = (1.0, 1.0, 1.0)) -> Array:
    """The gradients of the terms [T, p], where terms or points have these multipliers."""
    found = []
    for w, r, slopes, factor in zip(
        WEIGHTS, residuals(theta), jacobians(theta), factors, strict=True
    ):
        of_points = np.broadcast_to(factor, len(r))
        found.append(2 * w / len(r) * np.einsum("i,ik,ikp->p", of_points, r, slopes))
    return np.array(found)


class Ones:
    """λ = 1; the others change it."""

    def __init__(self, given: Any) -> None:
        self.given, self.factors = given, [np.ones(()) for _ in WEIGHTS]

    def update(self, theta: Array, number: int) -> None:
        raise NotImplementedError


class PlainAnnealing(Ones):
    def update(self, theta: Array, number: int) -> None:
        slopes, m = np.abs(gradients(theta)), self.given.memory
        for t in (1, 2):
            factor = self.factors[t]
            self.factors[t] = m * factor + (1 - m) * slopes[0].max() / (factor * slopes[t].mean())


class PlainNorm(Ones):
    def update(self, theta: Array, number: int) -> None:
        norms, m = np.linalg.norm(gradients(theta), axis=1), self.given.memory
        for t in range(3):
            self.factors[t] = m * self.factors[t] + (1 - m) * norms.sum() / norms[t]


class PlainNTK(Ones):
    def update(self, theta: Array, number: int) -> None:
        m = self.given.memory
        traces = [w * np.sum(j**2) / len(j) for w, j in zip(WEIGHTS, jacobians(theta), strict=True)]
        for t in range(3):
            self.factors[t] = m * self.factors[t] + (1 - m) * sum(traces) / traces[t]


class PlainReLoBRaLo(Ones):
    first: Any = None
    last: Any = None

    def update(self, theta: Array, number: int) -> None:
        given, now = self.given, losses(theta)
        first = now if self.first is None else self.first
        last = now if self.last is None else self.last

        def balance(then: Array) -> Array:
            powers = np.exp((now / then - np.max(now / then)) / given.temperature)
            return 3 * powers / powers.sum()

        draw = tf.random.stateless_uniform([], [given.seed, number], dtype="float64", alg="philox")
        kept = np.array(self.factors) if draw < given.lookback else balance(first)
        self.factors = list(given.memory * kept + (1 - given.memory) * balance(last))
        self.first, self.last = first, now


class PlainSelfAdaptive(Ones):
    def __init__(self, given: Any) -> None:
        super().__init__(given)
        self.a = [np.full(n, given.initial) for n in (len(TIMES), 1, 1)]
        self.mean, self.mean_square = ([np.zeros(len(a)) for a in self.a] for _ in range(2))
        self.count = 0

    def update(self, theta: Array, number: int) -> None:
        q, b, c = self.given.power, 0.99, 0.999
        self.count += 1
        for t, r in enumerate(residuals(theta)):
            g = q * self.a[t] ** (q - 1) * np.sum(r**2, axis=1)
            self.mean[t] = b * self.mean[t] + (1 - b) * g
            self.mean_square[t] = c * self.mean_square[t] + (1 - c) * g**2
            rate = self.given.rate * np.sqrt(1 - c**self.count) / (1 - b**self.count)
            self.a[t] = self.a[t] + rate * self.mean[t] / (np.sqrt(self.mean_square[t]) + 1e-7)
        self.factors = [a**q for a in self.a]


class PlainAttention(Ones):
    def __init__(self, given: Any) -> None:
        super().__init__(given)
        self.a = np.full(len(TIMES), given.initial)

    def update(self, theta: Array, number: int) -> None:
        sizes = np.linalg.norm(residuals(theta)[0], axis=1)
        self.a = self.given.decay * self.a + self.given.rate * sizes / sizes.max()
        self.factors[0] = self.a**2


class PlainCausal(Ones):
    stage = 0

    def update(self, theta: Array, number: int) -> None:
        given, r = self.given, residuals(theta)[0]
        slices = np.floor(TIMES[:, 0] / (END - BEGIN) * given.slices).astype(int)
        weights, sum_before = [], 0.0
        for k in range(given.slices):
            weights.append(np.exp(-given.epsilon[self.stage] * sum_before))
            inside = r[slices == k]
            sum_before += WEIGHTS[0] * np.mean(np.sum(inside**2, axis=1)) if len(inside) else 0.0
        self.factors[0] = np.array(weights)[slices]
        if min(weights) > given.tolerance and self.stage + 1 < len(given.epsilon):
            self.stage += 1


PLAIN: dict[str, tuple[Any, Callable[[Any], Ones]]] = {
    "annealing": (GradientAnnealing(every=3), PlainAnnealing),
    "norm": (GradientNorm(every=3), PlainNorm),
    "ntk": (NTKWeights(every=4, memory=0.3), PlainNTK),
    "relobralo": (ReLoBRaLo(lookback=0.5, memory=0.9, temperature=0.5), PlainReLoBRaLo),
    "self-adaptive": (SelfAdaptive(rate=0.05, every=2), PlainSelfAdaptive),
    "attention": (ResidualBasedAttention(decay=0.9, rate=0.5), PlainAttention),
    "causal": (Causal(epsilon=(0.01, 0.1, 1.0), tolerance=0.5, slices=5), PlainCausal),
}


def trained(name: str, theta: Array, *, steps: int, rate: float) -> tuple[Array, list[Array]]:
    """θ after so many steps of gradient descent, and the multipliers of each step."""
    given, make = PLAIN[name]
    plain, seen = make(given), []
    for number in range(steps):
        if number % given.every == 0:
            plain.update(theta, number)
        seen.append([np.array(factor) for factor in plain.factors])
        theta = theta - rate * gradients(theta, plain.factors).sum(axis=0)
    return theta, seen

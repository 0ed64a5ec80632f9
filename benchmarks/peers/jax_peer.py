"""JAX: the residual in two forms, the loop compiled as a whole or step by step.

The forms are what one writes first, forward over reverse (a directional derivative of the
gradient, at each point, mapped over the points), and what an expert writes: the network's value,
first derivatives and Laplacian carried forward together through the layers (Li et al. 2023,
arXiv:2307.08214).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from _peer import BETA_1, BETA_2, EPSILON, LEARNING_RATE, Case, serve
from jax.flatten_util import ravel_pytree

Array = Any
Parameters = Sequence[tuple[Array, Array]]
Laplacian = Callable[[Parameters, Array], Array]


def network(parameters: Parameters, x: Array) -> Array:
    """Return u at points [n, d], or at one point [d]: [n, 1], or [1]."""
    *hidden, (weight, bias) = parameters
    for w, b in hidden:
        x = jnp.tanh(x @ w + b)
    return x @ weight + bias


def forward_over_reverse(parameters: Parameters, x: Array) -> Array:
    """Compute Δu: [n, 1]."""

    def at_a_point(point: Array) -> Array:
        slope = jax.grad(lambda z: network(parameters, z)[0])
        directions = jnp.eye(point.size, dtype=point.dtype)
        return sum(jax.jvp(slope, (point,), (e,))[1][i] for i, e in enumerate(directions))

    return jax.vmap(at_a_point)(x)[:, None]


def forward_laplacian(parameters: Parameters, x: Array) -> Array:
    """Compute Δu: [n, 1], with separate products of a layer."""
    (weight, bias), *hidden, (last, _) = parameters
    a, first, laplacian = first_layer(weight, bias, x)
    for weight, bias in hidden:
        z, dz, lz = a @ weight + bias, [part @ weight for part in first], laplacian @ weight
        a, first, laplacian = activate(z, dz, lz)
    return laplacian @ last


def forward_laplacian_in_one(parameters: Parameters, x: Array) -> Array:
    """Compute Δu: [n, 1], with one product a layer of all parts stacked."""
    (weight, bias), *hidden, (last, _) = parameters
    a, first, laplacian = first_layer(weight, bias, x)
    for weight, bias in hidden:
        rows = jnp.concatenate([a, *first, laplacian])
        z, *dz, lz = jnp.split(rows @ weight, len(first) + 2)
        a, first, laplacian = activate(z + bias, dz, lz)
    return laplacian @ last


def first_layer(weight: Array, bias: Array, x: Array) -> tuple[Array, list[Array], Array]:
    """Return value, first derivatives and Laplacian, each [n, w], after the first layer."""
    a = jnp.tanh(x @ weight + bias)
    slope = 1 - a * a
    rows = list(weight)
    return a, [slope * row for row in rows], -2 * a * slope * sum(row * row for row in rows)


def activate(z: Array, dz: list[Array], lz: Array) -> tuple[Array, list[Array], Array]:
    """Return the same behind an activation."""
    a = jnp.tanh(z)
    slope = 1 - a * a
    laplacian = slope * lz - 2 * a * slope * sum(part * part for part in dz)
    return a, [slope * part for part in dz], laplacian


def make_step(case: Case, laplacian: Laplacian) -> tuple[Any, Callable[..., Any], Any]:
    """Return the state before the first step, a step of Adam, and the loss of a state."""
    pairs = list(zip(case.weights[0::2], case.weights[1::2], strict=True))
    start, unravel = ravel_pytree([(jnp.asarray(w), jnp.asarray(b)) for w, b in pairs])

    def loss(flat: Array, data: Any) -> Array:
        x, f, boundary = data
        parameters = unravel(flat)
        residual = laplacian(parameters, x) + f
        edge = network(parameters, boundary)
        return jnp.mean(residual**2) + case.weight * jnp.mean(edge**2)

    def step(state: Any, data: Any) -> Any:
        number, flat, m, v = state
        gradient = jax.grad(loss)(flat, data)
        m = BETA_1 * m + (1 - BETA_1) * gradient
        v = BETA_2 * v + (1 - BETA_2) * gradient * gradient
        t = (number + 1).astype(flat.dtype)
        rate = LEARNING_RATE * jnp.sqrt(1 - BETA_2**t) / (1 - BETA_1**t)
        return number + 1, flat - rate * m / (jnp.sqrt(v) + EPSILON), m, v

    state = (jnp.zeros([], jnp.int32), start, jnp.zeros_like(start), jnp.zeros_like(start))
    return state, step, loss


class JaxTraining:
    """A training whose loop is compiled as a whole, or whose steps are, one by one."""

    def __init__(self, case: Case, laplacian: Laplacian, *, whole_loop: bool) -> None:
        jax.config.update("jax_enable_x64", case.dtype == "float64")
        # An argument, not a constant: the compiler folds constants for minutes.
        self._data = tuple(jnp.asarray(a) for a in (case.x, case.f, case.boundary))
        self._state, step, loss = make_step(case, laplacian)
        self._loss = jax.jit(loss)
        self._step = jax.jit(step, donate_argnums=0)

        def steps(state: Any, data: Any, count: Array) -> Any:
            return jax.lax.fori_loop(0, count, lambda _, s: step(s, data), state)

        self._steps = jax.jit(steps, donate_argnums=0)
        self._whole_loop = whole_loop

    def advance(self, steps: int) -> None:
        if self._whole_loop:
            self._state = self._steps(self._state, self._data, np.int32(steps))
        else:
            for _ in range(steps):
                self._state = self._step(self._state, self._data)
        jax.block_until_ready(self._state)

    def loss(self) -> float:
        return float(self._loss(self._state[1], self._data))


def trainings() -> dict[str, Callable[[Case], JaxTraining]]:
    def training(laplacian: Laplacian, whole_loop: bool) -> Callable[[Case], JaxTraining]:
        return lambda case: JaxTraining(case, laplacian, whole_loop=whole_loop)

    return {
        "JAX fori_loop, forward over reverse": training(forward_over_reverse, True),
        "JAX fori_loop, forward Laplacian": training(forward_laplacian, True),
        "JAX fori_loop, forward Laplacian in one": training(forward_laplacian_in_one, True),
        "JAX jit of a step, forward over reverse": training(forward_over_reverse, False),
        "JAX jit of a step, forward Laplacian in one": training(forward_laplacian_in_one, False),
    }


if __name__ == "__main__":
    serve(trainings(), {"jax": jax.__version__})

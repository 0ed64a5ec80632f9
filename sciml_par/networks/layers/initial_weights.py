"""Initial weights of dense networks: by the variance of kernels, or with centres in a box."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import import_module
from sciml_par.errors import InputError

BoxBounds = tuple[tuple[float, ...], tuple[float, ...]]

GLOROT, CENTRES, HE, SIREN = "glorot", "centres", "he", "siren"
INITIAL_WEIGHTS = (GLOROT, CENTRES, HE, SIREN)

# Norms of the weights at most, in coordinates that measure a box in its sides. By experiment: 3 on
# [0, 1]², 4 on [−1, 1], whose side is 2, and between 1.5 and 2.5 in more dimensions.
_STEEPEST = {1: 8.0, 2: 3.0}
_STEEPEST_OTHERWISE = 2.0
_FLATTEST = 0.3
_HIDDEN_BIAS = 0.5


def checked_initial_weights(
    value: Any, *, model: str = "MLP", without_box: bool = False
) -> str | None:
    """Return the name of initial weights, or None; raise if it is unknown."""
    known = [name for name in INITIAL_WEIGHTS if not (without_box and name == CENTRES)]
    if value is None or (isinstance(value, str) and value in known):
        return value
    raise InputError(
        f"{model}: initial_weights must be one of {', '.join(map(repr, known))}, or None for the "
        f"default, got {value!r}"
    )


def check_initial_weights(name: Any, bounds: Any, activation: str) -> None:
    """Check the initial weights of an `MLP`, which need a box or an activation."""
    checked_initial_weights(name)
    if name == CENTRES and bounds is None:
        raise InputError(
            f"MLP: initial_weights={CENTRES!r} needs the box in which the points lie: "
            f"box=(lower, upper), or box=problem.domain"
        )
    if name == SIREN and activation != "sin":
        raise InputError(
            f"MLP: initial_weights={SIREN!r} are for activation='sin', got {activation!r}; for "
            f"others choose {GLOROT!r}"
        )


def initializers_of(model: Any) -> list[tuple[Any, Any]]:
    """Return the initializers of kernel and bias of each layer of an `MLP`."""
    widths = [model.embedded_size, *[model.width] * model.depth]
    drawn = Drawn(model.initial_weights or GLOROT, seed=model.seed, omega=model.omega)
    of_x, dtype = model.embedding is None, model.dtype_policy.name
    found = [drawn.layer(w, first=of_x and k == 0) for k, w in enumerate(widths)]
    if model.box is None:
        return found
    keras: Any = import_module("keras")
    constant = keras.initializers.Constant
    rng = np.random.default_rng(np.random.SeedSequence(model.seed).spawn(1)[0])
    box = model.box if of_x else model.embedding.box_of(model.box)
    kernel, bias = first_layer(box, model.width, rng=rng, dtype=dtype)
    found[0] = (constant(kernel), constant(bias))
    for number in range(1, model.depth):
        biases = rng.uniform(-_HIDDEN_BIAS, _HIDDEN_BIAS, model.width).astype(dtype)
        found[number] = (found[number][0], constant(biases))
    return found


class Drawn:
    """Initial kernels and biases of dense layers, layer after layer, by the rules of `MLP`."""

    def __init__(self, kind: str, *, seed: int, omega: float = 1.0) -> None:
        self._kind, self._omega = kind, omega
        self._sequence, self._count = np.random.SeedSequence(seed), 0

    def layer(self, inputs: int, *, first: bool = False) -> tuple[Any, Any]:
        """Return the initializers of kernel and bias of the next layer, as Keras takes them."""
        keras: Any = import_module("keras")
        self._count += 1
        # The k-th number of a longer sequence is that of a shorter one.
        seed = int(self._sequence.generate_state(self._count)[-1])
        initial = keras.initializers
        if self._kind == HE:
            return initial.HeNormal(seed=seed), "zeros"
        if self._kind != SIREN:
            return initial.GlorotNormal(seed=seed), "zeros"
        most = 1 / inputs if first else math.sqrt(6 / inputs) / self._omega
        of_bias = 1 / math.sqrt(inputs)
        return (
            initial.RandomUniform(-most, most, seed=seed),
            initial.RandomUniform(-of_bias, of_bias, seed=seed + 1),
        )


def checked_box(box: Any, d: int) -> BoxBounds:
    """Return the corners of a box, given as a pair or by an object with `lower` and `upper`."""
    corners = (box.lower, box.upper) if hasattr(box, "lower") and hasattr(box, "upper") else box
    if not isinstance(corners, tuple | list | np.ndarray) or len(corners) != 2:
        raise InputError(
            f"MLP: box must be a pair (lower, upper) of {d} numbers each, or a Box, got {box!r}"
        )
    lower, upper = (_corner(corner, d, box) for corner in corners)
    if not all(low < high for low, high in zip(lower, upper, strict=True)):
        raise InputError(
            f"MLP: lower must be below upper on every axis of the box, got {list(lower)} and "
            f"{list(upper)}"
        )
    return lower, upper


def _corner(values: Any, d: int, box: Any) -> tuple[float, ...]:
    """Return one number for each axis; a single one is that of all axes."""
    if isinstance(values, Real):
        values = [values] * d
    try:
        corner = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        corner = np.empty(0)
    if corner.shape != (d,) or not np.all(np.isfinite(corner)):
        raise InputError(
            f"MLP: the corners of the box must be {d} finite numbers each, one for each of the "
            f"network's inputs, got {box!r}"
        )
    return tuple(map(float, corner))


def first_layer(
    box: BoxBounds, units: int, *, rng: np.random.Generator, dtype: str
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Draw weights [d, units] and biases [units] of units whose centres lie in a box.

    In coordinates z = (x − lower) / (upper − lower) unit j is σ(s_j e_j · (z − z_j)) with a random
    direction e_j, a steepness s_j from U(0.3 s, s) and a centre z_j from U([0, 1]^d), which is

        w_ij = s_j e_ij / (upper_i − lower_i)        b_j = −Σ_i w_ij x_ij,   x_j the centre in x.

    So what the units are in the box depends neither on the units of x nor on its origin. The
    steepness s is 8 for d = 1, 3 for d = 2, and 2 otherwise, dimensionless.
    """
    lower, upper = (np.array(corner) for corner in box)
    d = len(lower)
    directions = rng.normal(size=(units, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    steepness = _STEEPEST.get(d, _STEEPEST_OTHERWISE) * rng.uniform(_FLATTEST, 1.0, (units, 1))
    share = rng.uniform(size=(units, d))
    centres = (1 - share) * lower + share * upper
    with np.errstate(over="ignore"):
        weights = (steepness * directions / (upper - lower)).T.astype(dtype)
        # Of the rounded weights, so that the centres are where they were drawn in any precision.
        biases = -np.sum(weights.T.astype(np.float64) * centres, axis=1).astype(dtype)
    if not (np.all(np.isfinite(weights)) and np.all(np.isfinite(biases))):
        raise InputError(
            f"MLP: with centres in the box {list(box)} the initial weights are out of the range "
            f"of {dtype}; choose other units, or let the problem scale its inputs: "
            f"Problem(..., input_scaling=True)"
        )
    return weights, biases

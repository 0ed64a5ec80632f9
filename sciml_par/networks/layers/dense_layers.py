"""The dense layers of an `MLP`: their initial weights, and the slopes of their activations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sciml_par._tensorflow import import_module
from sciml_par.errors import InputError
from sciml_par.networks.layers.initial_weights import (
    CENTRES,
    GLOROT,
    SIREN,
    Drawn,
    checked_initial_weights,
    first_layer,
    hidden_biases,
)
from sciml_par.networks.layers.model_arguments import checked_factor


def dense_layers(model: Any, dtype: str) -> list[Any]:
    """Those of the hidden layers and of the output, not built yet."""
    units = [model.width] * model.depth + [model.output_size]
    names = [f"hidden_{i + 1}" for i in range(model.depth)] + ["output"]
    keras: Any = import_module("keras")
    return [
        keras.layers.Dense(
            size, kernel_initializer=kernel, bias_initializer=bias, name=name, dtype=dtype
        )
        for size, name, (kernel, bias) in zip(
            units, names, _initializers(model, dtype), strict=True
        )
    ]


def check_initial_weights(name: Any, bounds: Any, activation: str) -> None:
    """Check the name of initial weights, which need a box or an activation."""
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


def _initializers(model: Any, dtype: str) -> list[tuple[Any, Any]]:
    """What kernel and bias of each layer begin with, as Keras takes it."""
    seen = model.input_size if model.embedding is None else model.embedding.units
    widths = [seen, *[model.width] * model.depth]
    drawn = Drawn(model.initial_weights or GLOROT, seed=model.seed, omega=model.omega)
    of_x = model.embedding is None
    found = [drawn.layer(w, first=of_x and k == 0) for k, w in enumerate(widths)]
    if model.box is None:
        return found
    sequence = np.random.SeedSequence(model.seed)
    keras: Any = import_module("keras")
    constant, rng = keras.initializers.Constant, np.random.default_rng(sequence.spawn(1)[0])
    box = model.box if model.embedding is None else model.embedding.box_of(model.box)
    kernel, bias = first_layer(box, model.width, rng=rng, dtype=dtype)
    found[0] = (constant(kernel), constant(bias))
    for number in range(1, model.depth):
        biases = hidden_biases(model.width, rng=rng, dtype=dtype)
        found[number] = (found[number][0], constant(biases))
    return found


LAYER, UNIT = "layer", "unit"


@dataclass(frozen=True)
class Slopes:
    """Which slopes a model has.

    Attributes
    ----------
    kind : "layer", "unit" or None.
    factor : n.
    """

    kind: str | None
    factor: float

    @classmethod
    def checked(cls, kind: Any, factor: Any) -> Slopes:
        """Let a kind and a factor through."""
        if kind is not None and kind not in (LAYER, UNIT):
            raise InputError(f"MLP: adaptive must be {LAYER!r}, {UNIT!r} or None, got {kind!r}")
        n = checked_factor("MLP", "slope_factor", factor)
        if kind is None and n != 1.0:
            raise InputError(
                f"MLP: slope_factor={factor!r} is for trained slopes; add adaptive={LAYER!r}, or "
                f"give omega= for a slope that stays"
            )
        return cls(kind, n)

    def weights(self, model: Any) -> list[Any]:
        """Return the slopes of a model's hidden layers, which begin at 1/n."""
        keras: Any = import_module("keras")
        shape = () if self.kind == LAYER else (model.width,)
        initial = keras.initializers.Constant(1 / self.factor)
        return [
            model.add_weight(shape=shape, initializer=initial, name=f"slope_{k}")
            for k in range(1, model.depth + 1 if self.kind else 1)
        ]

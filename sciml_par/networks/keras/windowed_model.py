"""The Keras model of networks in overlapping windows; see `Windows`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.networks.layers.activation import activation_named, stretched
from sciml_par.networks.layers.initial_weights import checked_box
from sciml_par.networks.layers.quiet_keras import keras
from sciml_par.networks.models.mlp import MLP
from sciml_par.networks.models.random_features import RandomFeatures
from sciml_par.networks.propagation.own_model import OwnModel
from sciml_par.networks.propagation.partition import Pairs, Partition
from sciml_par.networks.propagation.propagated_model import PropagatedModel
from sciml_par.networks.propagation.propagation import Propagated, in_parts, joined
from sciml_par.networks.propagation.refined_partition import RefinedPartition
from sciml_par.networks.propagation.weights_of import WeightsOf

_LARGEST = 1 << 22
"""Numbers of units at points that are computed at once."""


@keras.saving.register_keras_serializable(package="sciml_par")
class WindowedModel(PropagatedModel):
    """The Keras model that `Windows` makes.

    Its weights are those of all windows, kernels [K, w, w′] and biases [K, w′], layer by layer.
    Windows with fewer features than others have weights of zero in place of those that they lack.

    inner : the network of one window, whose architecture all have; each has a separate seed.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        inner: Any,
        parts: int | Sequence[int],
        overlap: float,
        box: Any,
        splits: Sequence[int] = (),
        unused: Sequence[int] = (),
        enriched: Sequence[int] = (),
        seed: int = 0,
        dtype: str = "float64",
        name: str | None = None,
    ) -> None:
        if isinstance(inner, dict):
            inner = keras.saving.deserialize_keras_object(inner)
        if not isinstance(inner, MLP) or inner.embedding is not None or inner.adaptive is not None:
            raise InputError(
                f"Windows: the network of a window is a RandomFeatures, or an MLP without "
                f"embedding and adaptive slopes; got {type(inner).__name__}."
            )
        OwnModel.__init__(
            self,
            inputs,
            outputs,
            width=inner.width,
            depth=inner.depth,
            activation=inner.activation,
            omega=inner.omega,
            seed=seed,
            dtype=dtype,
            name=name,
        )
        corners = checked_box(box, inputs)
        self.partition = partition_of(parts, overlap, corners, splits, unused, enriched)
        self.has_random_features = isinstance(inner, RandomFeatures)
        if enriched and not self.has_random_features:
            raise InputError(
                f"Windows: only windows of RandomFeatures can be enriched, and these are of "
                f"{type(inner).__name__}; leave out enriched=, or split the parts."
            )
        self._inner = keras.saving.serialize_keras_object(inner)
        self._function = stretched(activation_named(inner.activation), inner.omega)
        self._make()
        self.built = True

    def _make(self) -> None:
        template = keras.saving.deserialize_keras_object(self._inner)
        drawn = [self._drawn_for(template, window) for window in range(self.partition.count)]
        self._layers_of_windows = []
        for number in range(0, len(drawn[0]), 2):
            both = []
            for at, kind in ((number, "kernel"), (number + 1, "bias")):
                values = np.stack([each[at] for each in drawn])
                variable = self.add_weight(shape=values.shape, name=f"{kind}_{number // 2 + 1}")
                variable.assign(values)
                both.append(variable)
            self._layers_of_windows.append(tuple(both))

    def _drawn_for(self, template: Any, window: int) -> list[Any]:
        """Return the initial weights of one window."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(window,))
        seed = int(sequence.generate_state(1)[0])
        if isinstance(template, RandomFeatures):
            each = self.features_of_windows
            return template.drawn(seed, int(each[window]), int(each.max()))
        made = type(template).from_config({**template.get_config(), "seed": seed})
        return [np.asarray(variable) for variable in made.variables]

    @property
    def features_of_windows(self) -> npt.NDArray[np.int64]:
        """The number of units of each window in a hidden layer, [K]."""
        return self.width * self.partition.richness

    @property
    def frozen_variables(self) -> list[Any]:
        """The variables of hidden layers, if the windows have random features."""
        return [v for pair in self.hidden_layers for v in pair] if self.has_random_features else []

    @property
    def linear_variables(self) -> list[Any]:
        """The variables of the output layers, in which the network is linear."""
        return list(self._layers_of_windows[-1])

    @property
    def network_key(self) -> tuple[Any, ...]:
        """Hashable; models of equal keys are the same functions of their weights."""
        return (type(self), self.partition, self.activation, self.omega, self.width, self.depth)

    def propagate(self, of: WeightsOf, x: Propagated) -> Propagated:
        n, units = x.value.shape[1], len(self.partition.slots) * self.width
        at_once = max(_LARGEST // units, 1)
        # What is recorded has all points; whoever records has few.
        if n is None or n <= at_once or of.records:
            return self._propagate(of, x)
        return in_parts(lambda part: self._propagate(of, part), x, n, at_once)

    def _propagate(self, of: WeightsOf, x: Propagated) -> Propagated:
        pairs = self.partition.pairs(x)
        a = pairs.inside
        for number, (kernel, bias) in enumerate(self._layers_of_windows):
            a = _dense(of, kernel, bias, a, pairs)
            if number < len(self._layers_of_windows) - 1:
                a = a.activate(self._function)
        count = len(self.partition.slots)
        return (pairs.weight * a).mapped(lambda p: tf.add_n(tf.split(p, count, axis=1)))

    def features(self, place: Any, hidden: Sequence[tuple[Any, Any]], x: Propagated) -> Propagated:
        """Return what the output layer of a window multiplies at points in it: [w + 1, n] (local).

        The last one belongs to its bias. All are multiplied by the weight of the window, whose
        `place` is as the partition gives it.
        """
        weight, a = self.partition.in_window(place, x)
        for kernel, bias in hidden:
            a = a.dense(kernel, bias).activate(self._function)
        return joined([weight * a, weight], 0)

    @property
    def hidden_layers(self) -> list[tuple[Any, Any]]:
        """Kernels [K, w, w′] and biases [K, w′] of the hidden layers."""
        return list(self._layers_of_windows[:-1])

    def jet(  # type: ignore[override]
        self, parameters: Sequence[Any], x: tf.Tensor, second: Any, record_of: Any = None
    ) -> tuple[tf.Tensor, ...]:
        """Compute as `MLP.jet` up to the second order (pure, local)."""
        return super().jet(parameters, x, second, record_of)

    def get_config(self) -> dict[str, Any]:
        return {
            "inputs": self.input_size,
            "outputs": self.output_size,
            "inner": self._inner,
            "parts": list(self.partition.parts),
            "overlap": self.partition.overlap,
            "splits": list(self.partition.splits),
            "unused": list(self.partition.unused),
            "enriched": list(self.partition.enriched),
            "box": [list(self.partition.lower), list(self.partition.upper)],
            "seed": self.seed,
            "dtype": self.dtype_policy.name,
            "name": self.name,
        }


def partition_of(
    parts: Any,
    overlap: float,
    box: Any,
    splits: Sequence[int] = (),
    unused: Sequence[int] = (),
    enriched: Sequence[int] = (),
) -> Partition:
    """Return the partition of a box that `Windows` asks for."""
    lower, upper = (tuple(map(float, each)) for each in box)
    several = tuple(parts) if isinstance(parts, Sequence) else (parts,) * len(lower)
    if len(several) != len(lower):
        raise InputError(
            f"Windows: parts={several} has {len(several)} numbers, and the points have "
            f"{len(lower)} coordinates; give one number for each coordinate."
        )
    count = math.prod(several)
    for number in splits:
        _check_part(number, "split", count)
        count += 2 ** len(lower) - 1
    for number in enriched:
        _check_part(number, "enrich", count)
    kind = RefinedPartition if splits or unused else Partition
    return kind(lower, upper, several, overlap, tuple(splits), tuple(unused), tuple(enriched))


def _check_part(number: int, what: str, count: int) -> None:
    if number >= count:
        raise InputError(
            f"Windows: the part {number} to {what} does not exist; the parts have the numbers 0 to "
            f"{count - 1}."
        )


def _dense(of: WeightsOf, kernel: Any, bias: Any, a: Propagated, pairs: Pairs) -> Propagated:
    """Return a W_k + b_k, with the weights of the window of each pair."""
    weight = tf.gather(of(kernel), pairs.numbers)

    def products(parts: list[Any]) -> list[Any]:
        """Multiply a: [w, P], or [w, 1], with weights [P, w, w′] of each pair -> [w′, P]."""
        return [
            tf.einsum("pab,a->bp", weight, part[:, 0])
            if part.shape[1] == 1
            else tf.einsum("pab,ap->bp", weight, part)
            for part in parts
        ]

    z = a.linear(products, of.record(kernel, bias, windows=pairs.numbers))
    return z.shifted(tf.transpose(tf.gather(of(bias), pairs.numbers)))

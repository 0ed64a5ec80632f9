"""Networks one after another in time: one that is moved, and all of them as one model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from sciml_par._partial_operators import scaled
from sciml_par._tensorflow import tf
from sciml_par.networks.keras.from_model import as_network
from sciml_par.networks.keras.network import Network
from sciml_par.networks.layers.quiet_keras import keras
from sciml_par.networks.propagation.interpreted import Asked
from sciml_par.networks.propagation.own_model import BuiltModel


@keras.saving.register_keras_serializable(package="sciml_par")
class Moved(BuiltModel):
    """u(x) = N(x − s) of a network N, with s: [d] a variable that no training changes.

    Slabs of time that differ in s alone are the same computation, so that one program serves all.
    """

    def __init__(
        self, network: Any, inputs: int, outputs: int, shift: Any, *, name: str | None = None
    ) -> None:
        dtype = str(tf.as_dtype(network.trainable_variables[0].dtype).name)
        super().__init__(name=name, dtype=dtype)
        self.network = network
        self.input_size, self.output_size = int(inputs), int(outputs)
        self._inner = as_network(network, self.input_size, self.output_size, dtype=dtype)
        start = keras.initializers.Constant(np.asarray(shift, np.float64))
        self.shift = self.add_weight(shape=(self.input_size,), initializer=start, name="shift")
        self.built = True

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Evaluate the network: x: [n, d] -> [n, m]."""
        return self.network(inputs - tf.convert_to_tensor(self.shift))

    @property
    def network_key(self) -> Any:
        """Hashable; models of equal keys are the same functions of their weights."""
        return (type(self), self._inner.key)

    @property
    def frozen_variables(self) -> list[Any]:
        """The shift, and those of the network."""
        return [self.shift, *(self._inner.trainable_variables[i] for i in self._inner.frozen)]

    @property
    def linear_variables(self) -> list[Any]:
        """Those of the network."""
        return [self._inner.trainable_variables[i] for i in self._inner.linear or ()]

    def records(self) -> Moved | None:
        """Return what can be asked for records of its products; None if nothing can."""
        return self if self._inner.chain is not None else None

    def interpret(
        self, parameters: Sequence[Any], x: tf.Tensor, asked: Asked
    ) -> tuple[tf.Tensor, ...]:
        """Return what the network does at x − s, with a record of its products (local)."""
        shift, *own = parameters
        return self._inner.interpret(own, x - tf.convert_to_tensor(shift), asked.behind(1))

    def get_config(self) -> dict[str, Any]:
        return {
            "network": keras.saving.serialize_keras_object(self.network),
            "inputs": self.input_size,
            "outputs": self.output_size,
            "shift": np.asarray(self.shift, np.float64).tolist(),
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Moved:
        network = keras.saving.deserialize_keras_object(config["network"])
        return cls(**{**config, "network": network})


@keras.saving.register_keras_serializable(package="sciml_par")
class InSlabs(BuiltModel):
    """u(x) = N_k((x − c_k) f_k) for t_k < t ≤ t_{k+1}, with t the last coordinate of x.

    At a time between two slabs the earlier one answers; before the first and after the last slab,
    these do. times : between the slabs, K − 1 increasing numbers; centers, factors : c, f, [K, d].
    """

    def __init__(
        self,
        networks: Sequence[Any],
        inputs: int,
        outputs: int,
        *,
        times: Any,
        centers: Any,
        factors: Any,
        name: str | None = None,
    ) -> None:
        dtype = str(tf.as_dtype(networks[0].trainable_variables[0].dtype).name)
        super().__init__(name=name, dtype=dtype)
        self.networks = list(networks)
        self.input_size, self.output_size = int(inputs), int(outputs)
        self._times = np.asarray(times, np.float64)
        self._centers, self._factors = (np.asarray(each, np.float64) for each in (centers, factors))
        sizes = self.input_size, self.output_size
        self._inner = [as_network(each, *sizes, dtype=dtype) for each in self.networks]
        counts = [len(each.trainable_variables) for each in self._inner]
        self._parts = [slice(*ends) for ends in pairwise(accumulate(counts, initial=0))]
        groups: dict[Any, list[int]] = {}
        for k, (network, f) in enumerate(zip(self._inner, self._factors, strict=True)):
            shapes = tuple(tuple(v.shape) for v in network.trainable_variables)
            groups.setdefault((network.key, shapes, tuple(f.tolist())), []).append(k)
        self._groups = list(groups.values())
        self.built = True

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Evaluate the networks: x: [n, d] -> [n, m]."""
        return self.apply([tf.convert_to_tensor(v) for v in self.trainable_variables], inputs)

    @property
    def network_key(self) -> Any:
        """Hashable; models of equal keys are the same functions of their weights."""
        arrays = self._times, self._centers, self._factors
        return (type(self), *(each.key for each in self._inner), *(a.tobytes() for a in arrays))

    @property
    def frozen_variables(self) -> list[Any]:
        """Those of the networks."""
        return [each.trainable_variables[i] for each in self._inner for i in each.frozen]

    def interpret(
        self, parameters: Sequence[Any], x: tf.Tensor, asked: Asked
    ) -> tuple[tf.Tensor, ...]:
        """Return what the network of the slab of each point does there (local)."""

        def of_network(network: Network, own: Any, z: tf.Tensor, f: Any) -> tuple[tf.Tensor, ...]:
            if asked.second is None:
                return network.interpret(own, z, asked)
            above = tuple(scaled(each, f) for each in asked.higher)
            of_z = asked._replace(second=asked.second * np.outer(f, f), higher=above)
            u, du, *others = network.interpret(own, z, of_z)
            return (u, du * tf.constant(f, z.dtype), *others)

        later = x[:, -1:] > tf.constant(self._times, x.dtype)
        slab = tf.reduce_sum(tf.cast(later, tf.int32), axis=1)
        found: tuple[Any, ...] = ()
        for members in self._groups:
            found = self._of_group(members, parameters, x, slab, of_network, found)
        return found

    def _of_group(
        self,
        members: Sequence[int],
        parameters: Sequence[Any],
        x: tf.Tensor,
        slab: tf.Tensor,
        function: Any,
        found: tuple[Any, ...],
    ) -> tuple[Any, ...]:
        """Return what was found with the values of networks that differ in their weights alone.

        The points are sorted by slab. A loop takes blocks of n/K points for K slabs, of which the
        network of the first one gives values for those in its slab. So shapes are known, as XLA
        needs, and the cost is at most that of 2 n points, rather than of K n.
        """
        count = len(members)
        network, f = self._inner[members[0]], self._factors[members[0]]
        weights = zip(*(parameters[self._parts[k]] for k in members), strict=True)
        stacked = [tf.stack([tf.convert_to_tensor(each) for each in of]) for of in weights]
        centers = tf.constant(self._centers[members], x.dtype)
        places = np.full(len(self._inner), count, np.int32)
        places[list(members)] = np.arange(count)
        place = tf.gather(tf.constant(places), slab)
        n = tf.shape(x)[0] if x.shape[0] is None else x.shape[0]
        size = (n + count - 1) // count
        order = tf.argsort(place, stable=True)
        # Behind the points there is a block of none, whose values go to a row n.
        rows = tf.concat([order, tf.fill([size], n)], axis=0)
        of_rows = tf.concat([tf.gather(place, order), tf.fill([size], count)], axis=0)
        points = tf.concat([x, x[:1]], axis=0)

        def block(first: Any) -> tuple[Any, Any, tuple[Any, ...]]:
            at = first + tf.range(size)
            of_block = tf.gather(of_rows, at)
            k = tf.reduce_min(tf.concat([of_block, [count - 1]], axis=0))
            here = of_block == k
            own = tf.where(here, tf.gather(rows, at), n)
            z = (tf.gather(points, own) - tf.gather(centers, k)) * tf.constant(f, x.dtype)
            # Far outside of its slab a network may overflow.
            z = tf.where(here[:, None], z, tf.zeros_like(z))
            values = function(network, [tf.gather(each, k) for each in stacked], z, f)
            return tf.reduce_sum(tf.cast(here, tf.int32)), own[:, None], tuple(values)

        def step(first: Any, *before: Any) -> tuple[Any, ...]:
            done, own, values = block(first)
            pairs = zip(before, values, strict=True)
            return first + done, *(_scattered(b, own, v) for b, v in pairs)

        _, _, like = block(0)
        nothing = [tf.zeros([n + 1, *each.shape[1:]], each.dtype) for each in like]
        inside = place < count
        total = tf.reduce_sum(tf.cast(inside, tf.int32))
        _, *padded = tf.while_loop(
            lambda first, *_: first < total,
            step,
            (tf.constant(0), *nothing),
            maximum_iterations=2 * count,
        )
        values = tuple(each[:-1] for each in padded)
        pairs = zip(values, found or values, strict=True)
        return tuple(
            tf.where(tf.reshape(inside, [-1] + [1] * (a.shape.rank - 1)), a, b) for a, b in pairs
        )

    def get_config(self) -> dict[str, Any]:
        return {
            "networks": [keras.saving.serialize_keras_object(each) for each in self.networks],
            "inputs": self.input_size,
            "outputs": self.output_size,
            "times": self._times.tolist(),
            "centers": self._centers.tolist(),
            "factors": self._factors.tolist(),
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> InSlabs:
        networks = [keras.saving.deserialize_keras_object(each) for each in config["networks"]]
        return cls(**{**config, "networks": networks})


def _scattered(before: tf.Tensor, rows: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Return tensors [n, …] with values in some rows; TensorFlow refuses those without numbers."""
    empty = 0 in before.shape.as_list()[1:]
    return before if empty else tf.tensor_scatter_nd_update(before, rows, values)

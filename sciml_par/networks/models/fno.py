"""The Fourier neural operator: a network from functions on a grid to functions on the same grid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sciml_par._other_names import by_name
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.networks.layers.initial_weights import Drawn
from sciml_par.networks.layers.model_arguments import check_arguments
from sciml_par.networks.layers.quiet_keras import keras

_HIDDEN = 128
"""Units of the last hidden layer, as in the paper."""


class SpectralConvolution(keras.layers.Layer):
    """v ↦ F⁻¹(R F v) for v: [B, *grid, c]: a matrix [c, c] for each of the low frequencies."""

    def __init__(self, width: int, modes: int, dimension: int, seed: int, **options: Any) -> None:
        super().__init__(**options)
        self.modes, self.dimension = modes, dimension
        count = modes * (2 * modes if dimension == 2 else 1)
        # A complex sum over the channels then keeps the mean square.
        normal = keras.initializers.RandomNormal(0.0, 1 / math.sqrt(2 * width), seed=seed)
        shape = (2, count, width, width)
        self.matrices = self.add_weight(shape=shape, initializer=normal, name="matrices")
        self.built = True

    def call(self, v: tf.Tensor) -> tf.Tensor:
        """Return the convolution of v: [B, *grid, c]."""
        m, sizes, axes = self.modes, v.shape[1:-1], range(2, 2 + self.dimension)
        v = tf.transpose(v, [0, 1 + self.dimension, *range(1, 1 + self.dimension)])
        if self.dimension == 1:
            low = tf.signal.rfft(v)[..., :m]
        else:
            low = tf.signal.rfft2d(v)[..., :m]
            low = tf.concat([low[:, :, :m], low[:, :, -m:]], axis=2)
        shape, (_, count, width, _) = tf.shape(low), self.matrices.shape
        low = tf.reshape(low, [-1, width, count])
        matrices = tf.complex(*tf.unstack(tf.convert_to_tensor(self.matrices)))
        low = tf.reshape(tf.einsum("bik,kio->bok", low, matrices), shape)
        high = [[0, 0]] * (1 + self.dimension) + [[0, sizes[-1] // 2 + 1 - m]]
        if self.dimension == 1:
            v = tf.signal.irfft(tf.pad(low, high), sizes)
        else:
            between = [[0, 0], [0, 0], [0, sizes[0] - 2 * m], [0, 0]]
            low = tf.concat([tf.pad(low[:, :, :m], between), low[:, :, m:]], axis=2)
            v = tf.signal.irfft2d(tf.pad(low, high), sizes)
        return tf.transpose(v, [0, *axes, 1])


@keras.saving.register_keras_serializable(package="sciml_par")
class FNO(keras.Model):
    """A Fourier neural operator (Li et al. 2021, arXiv:2010.08895): a: [B, *grid, c] -> u.

        v₀ = P(a, x)        v_{l+1} = gelu(W_l v_l + F⁻¹(R_l F v_l))        u = Q(v_L)

    with a dense P, a Q of one hidden layer of 128 units, and coordinates x from 0 to 1 as further
    channels. A plain Keras 3 model, for `compile` and `fit`; weights do not depend on the grid, so
    that it may be called on a finer one. The last block has no gelu.

    Parameters
    ----------
    inputs, outputs : int
        Components of a and of u.
    dimension : int
        1 or 2, of the space; a grid has equal steps.
    modes : int
        Low frequencies along each axis that the convolutions change, at most half of the grid's
        points.
    width, depth : int
        Channels of v, and number L of blocks.
    seed : int
        The same seed gives the same initial weights.
    dtype : {"float32", "float64"}
    name : str, optional
        Name of the Keras model.

    Raises
    ------
    InputError
        A size is below 1, the dimension is above 2, or a grid is too coarse for the modes.

    Examples
    --------
    >>> import numpy as np
    >>> from sciml_par.networks import FNO
    >>> FNO(1, 1, width=8, depth=2)(np.zeros((5, 64, 1), "float32")).shape
    TensorShape([5, 64, 1])
    """

    @by_name
    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        dimension: int = 1,
        modes: int = 12,
        width: int = 32,
        depth: int = 4,
        seed: int = 0,
        dtype: str = "float32",
        name: str | None = None,
    ) -> None:
        sizes = {"inputs": inputs, "outputs": outputs, "dimension": dimension}
        sizes |= {"modes": modes, "width": width, "depth": depth}
        check_arguments("FNO", sizes, seed, dtype, name)
        if dimension > 2:
            raise InputError(f"FNO: expected a dimension of 1 or 2; got {dimension}.")
        super().__init__(name=name, dtype=dtype)
        self._config = {**{k: int(size) for k, size in sizes.items()}, "seed": int(seed)}
        self.dimension, self.modes, self.depth = dimension, modes, depth
        drawn = Drawn("glorot", seed=seed)

        def dense(units: int, columns: int, name: str) -> Any:
            kernel, bias = drawn.layer(columns)
            layer = keras.layers.Dense(units, None, True, kernel, bias, name=name, dtype=dtype)
            layer.build((None, columns))
            return layer

        self.lift = dense(width, inputs + dimension, "lift")
        self.local = [dense(width, width, f"local_{k}") for k in range(depth)]
        of = (width, modes, dimension)
        self.spectral = [SpectralConvolution(*of, seed + k, dtype=dtype) for k in range(depth)]
        self.hidden = dense(_HIDDEN, width, "hidden")
        self.projection = dense(outputs, _HIDDEN, "projection")
        self.built = True

    def build(self, input_shape: Any) -> None:
        """Do nothing: the weights exist from construction on."""
        self.built = True

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return u at the points of the grid: [B, *grid, c] -> [B, *grid, m]."""
        a = tf.convert_to_tensor(inputs, self.dtype_policy.name)
        sizes = a.shape[1:-1].as_list()
        if len(sizes) != self.dimension or min(sizes) < 2 * self.modes:
            raise InputError(
                f"FNO: expected inputs of the shape [B, *grid, c] with a grid of {self.dimension} "
                f"axes of at least {2 * self.modes} points, for modes={self.modes}; got "
                f"{a.shape.as_list()}."
            )
        axes = [np.arange(size) / size for size in sizes]
        x = tf.constant(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1), a.dtype)
        x = tf.broadcast_to(x, tf.concat([tf.shape(a)[:-1], [self.dimension]], axis=0))
        v = self.lift(tf.concat([a, x], axis=-1))
        for number, (local, spectral) in enumerate(zip(self.local, self.spectral, strict=True)):
            v = local(v) + spectral(v)
            v = tf.nn.gelu(v) if number < self.depth - 1 else v
        return self.projection(tf.nn.gelu(self.hidden(v)))

    def get_config(self) -> dict[str, Any]:
        return {**self._config, "dtype": self.dtype_policy.name, "name": self.name}

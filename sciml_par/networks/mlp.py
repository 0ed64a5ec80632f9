"""The multilayer perceptron: a Keras model with pure functions for compiled loops."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import checked_operators
from sciml_par._tensorflow import import_module, tf
from sciml_par.errors import InputError
from sciml_par.networks import taylor, taylor_higher
from sciml_par.networks.activation import activation_named
from sciml_par.networks.initial_weights import (
    CENTRES,
    checked_box,
    checked_initial_weights,
    first_layer,
    hidden_biases,
)

# A Keras model needs Keras when it is defined; this way it comes without TensorFlow's messages.
if TYPE_CHECKING:
    import keras
else:
    keras = import_module("keras")

DTYPES = ("float32", "float64")


@keras.saving.register_keras_serializable(package="sciml_par")
class MLP(keras.Model):
    r"""A dense network u(x) = W_{D+1} σ(W_D … σ(W_1 x + b_1) … + b_D) + b_{D+1}.

    A plain Keras 3 model: it is called, compiled, saved and loaded as any other. Its weights exist
    from construction on, in the order W1, b1, W2, b2, …

    Parameters
    ----------
    inputs : int
        Dimension d of the points.
    outputs : int
        Number m of components of the field.
    width : int
        Neurons of a hidden layer.
    depth : int
        Hidden layers, at least 1.
    activation : str
        One of `sciml_par.networks.ACTIVATIONS`; the output layer is linear.
    seed : int
        Non-negative. The same seed gives the same weights; layers draw from seeds of their own.
    initial_weights : {"glorot", "centres"}, optional
        "glorot": kernels are drawn by Glorot and Bengio's normal rule (2010, eq. 12 in its
        truncated normal form), biases are zero. "centres": the units of the first layer are
        σ(w·(x − x₀)), w of random directions and x₀, their centres, uniform in `box`; the larger
        its side, the smaller is w, so that the units of x do not matter. Later kernels are
        Glorot's, later hidden biases from U(−0.5, 0.5), and that of the output is zero. By default
        "glorot", unless an optimizer of `sciml_par.train` prefers the other.
    box : pair (lower, upper) of sequences of d numbers, optional
        The corners of the box of the points x, or a `sciml_par.problems.Box`. "centres" needs it,
        and no other initial weights depend on it. `sciml_par.train` gives it to networks that it
        makes.
    dtype : {"float32", "float64"}
    name : str, optional
        Name of the Keras model.

    Raises
    ------
    InputError
        A size below 1, an unknown activation, a negative seed, another dtype, unknown initial
        weights, or centres without a box.

    Examples
    --------
    >>> import numpy as np
    >>> from sciml_par.networks import MLP
    >>> model = MLP(1, 1, width=16, depth=2)
    >>> model(np.zeros((5, 1), "float32")).shape
    TensorShape([5, 1])
    >>> model.count_params()
    321
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        width: int = 16,
        depth: int = 2,
        activation: str = "tanh",
        seed: int = 0,
        initial_weights: str | None = None,
        box: Any = None,
        dtype: str = "float32",
        name: str | None = None,
    ) -> None:
        self._check_arguments(
            {"inputs": inputs, "outputs": outputs, "width": width, "depth": depth}, seed, dtype
        )
        function = activation_named(activation)
        bounds = None if box is None else checked_box(box, int(inputs))
        if checked_initial_weights(initial_weights) == CENTRES and bounds is None:
            raise InputError(
                f"MLP: initial_weights={CENTRES!r} needs the box in which the points lie: "
                f"box=(lower, upper), or box=problem.domain"
            )
        super().__init__(name=name, dtype=dtype)
        self.input_size, self.output_size = int(inputs), int(outputs)
        self.width, self.depth, self.seed = int(width), int(depth), int(seed)
        self.activation = function.name
        self._activation = function
        self.initial_weights = initial_weights
        self.box = bounds if initial_weights == CENTRES else None
        self._dense = _dense_layers(self, dtype)
        self.build((None, self.input_size))

    @staticmethod
    def _check_arguments(sizes: dict[str, Any], seed: Any, dtype: Any) -> None:
        if keras.backend.backend() != "tensorflow":
            raise InputError(
                f"MLP needs Keras on TensorFlow, but Keras runs on {keras.backend.backend()!r}; "
                f"set KERAS_BACKEND=tensorflow before Keras is imported"
            )
        for name, size in sizes.items():
            if not _is_integer(size) or size < 1:
                raise InputError(f"MLP: {name} must be an integer of at least 1, got {size!r}")
        if not _is_integer(seed) or seed < 0:
            raise InputError(f"MLP: seed must be a non-negative integer, got {seed!r}")
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise InputError(f"MLP: dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")

    def build(self, input_shape: Any) -> None:
        """Create the weights; the constructor has done it, so this has nothing left to do."""
        width = self.input_size
        for layer in self._dense:
            if not layer.built:
                layer.build((None, width))
            width = layer.units
        self.built = True

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Evaluate the network: x: [n, d] -> [n, m]."""
        return self.apply([v.value for layer in self._dense for v in layer.variables], inputs)

    def apply(self, parameters: Sequence[tf.Tensor], x: tf.Tensor) -> tf.Tensor:
        """Evaluate the network with the parameters given (pure, local).

        Parameters
        ----------
        parameters : sequence of tensors
            In the order of `trainable_variables`: W1, b1, W2, b2, …
        x : tensor [n, d]
            Of the parameters' dtype; n may be 0.

        Returns
        -------
        u : tensor [n, m]

        Raises
        ------
        InputError
            Another number of parameters, or another shape or dtype of x.
        """
        tensors = self._checked(parameters, x)
        a = x
        for weight, bias in zip(tensors[0:-2:2], tensors[1:-2:2], strict=True):
            a = self._activation.value(tf.linalg.matmul(a, weight) + bias)
        return tf.linalg.matmul(a, tensors[-2]) + tensors[-1]

    def jet(
        self,
        parameters: Sequence[tf.Tensor],
        x: tf.Tensor,
        second: npt.ArrayLike,
        *,
        higher: Sequence[Any] = (),
    ) -> tuple[tf.Tensor, ...]:
        """Value, first derivatives and operators up to order four by Taylor propagation.

        Pure and local.

        Parameters
        ----------
        parameters : sequence of tensors
            In the order of `trainable_variables`: W1, b1, W2, b2, …
        x : tensor [n, d]
        second : array [K, d, d]
            Symmetric coefficient matrices C_k of the operators
            L_k = Σ_ij C_k[i,j] ∂²/∂x_i∂x_j; K may be 0.
        higher : sequence of Q mappings {axes: coefficient}
            Operators H_q = Σ c ∂^axes, each of third or of fourth order, such as
            ``{(0, 0, 0): 1.0}``; Q may be 0.

        Returns
        -------
        u : tensor [n, m]
        du : tensor [n, m, d]
        L : tensor [n, m, K]
        H : tensor [n, m, Q]
            Not where Q is 0.

        Raises
        ------
        InputError
            As `apply`, or `second` has another shape, or `higher` is something else.

        Examples
        --------
        >>> import numpy as np, tensorflow as tf
        >>> from sciml_par.networks import MLP
        >>> model = MLP(2, 1)
        >>> laplacian = np.eye(2)[None]
        >>> u, du, L = model.jet(model.trainable_variables, tf.zeros([5, 2]), laplacian)
        >>> u.shape, du.shape, L.shape
        (TensorShape([5, 1]), TensorShape([5, 1, 2]), TensorShape([5, 1, 1]))
        """
        tensors = self._checked(parameters, x)
        matrices = np.asarray(second, dtype=np.float64)
        if matrices.ndim != 3 or matrices.shape[1:] != (self.input_size, self.input_size):
            d = self.input_size
            raise InputError(
                f"MLP.jet: second must have the shape [K, {d}, {d}], got {list(matrices.shape)}"
            )
        if not higher:
            return taylor.jet(tensors, x, matrices, self._activation)
        operators = checked_operators(higher, self.input_size, "MLP.jet")
        layers = taylor.dense_layers(tensors, self._activation)
        return taylor_higher.jet_of_layers(layers, x, matrices, operators)

    def _checked(self, parameters: Sequence[Any], x: tf.Tensor) -> list[tf.Tensor]:
        """The parameters as tensors, Keras variables included, once they and x fit the model."""
        if len(parameters) != 2 * (self.depth + 1):
            raise InputError(
                f"MLP of depth {self.depth} has {2 * (self.depth + 1)} parameters "
                f"(W1, b1, ..., as in trainable_variables), got {len(parameters)}"
            )
        if x.shape.rank != 2 or x.shape[1] != self.input_size:
            raise InputError(
                f"MLP expects points x of shape [n, {self.input_size}], got {x.shape.as_list()}; "
                f"a slice x[:, i:i+1] keeps both axes, x[:, i] does not"
            )
        tensors = [tf.convert_to_tensor(p) for p in parameters]
        if x.dtype != tensors[0].dtype:
            raise InputError(
                f"MLP: x is {x.dtype.name}, the parameters are {tensors[0].dtype.name}; "
                f"cast x with tf.cast, or make the model with dtype={x.dtype.name!r}"
            )
        return tensors

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments, as Keras saves them."""
        return {
            "inputs": self.input_size,
            "outputs": self.output_size,
            "width": self.width,
            "depth": self.depth,
            "activation": self.activation,
            "seed": self.seed,
            "dtype": self.dtype_policy.name,
            "name": self.name,
            # Left out where they are not given, which constructors of subclasses may not know.
            **({"initial_weights": self.initial_weights} if self.initial_weights else {}),
            **({"box": [list(corner) for corner in self.box]} if self.box else {}),
        }


def _dense_layers(model: MLP, dtype: str) -> list[keras.layers.Dense]:
    units = [model.width] * model.depth + [model.output_size]
    names = [f"hidden_{i + 1}" for i in range(model.depth)] + ["output"]
    return [
        keras.layers.Dense(
            size, kernel_initializer=kernel, bias_initializer=bias, name=name, dtype=dtype
        )
        for size, name, (kernel, bias) in zip(
            units, names, _initializers(model, dtype), strict=True
        )
    ]


def _initializers(model: MLP, dtype: str) -> list[tuple[Any, Any]]:
    """What kernel and bias of each layer begin with, as Keras takes it."""
    sequence = np.random.SeedSequence(model.seed)
    seeds = sequence.generate_state(model.depth + 1)
    found = [(keras.initializers.GlorotNormal(seed=int(seed)), "zeros") for seed in seeds]
    if model.box is None:
        return found
    constant, rng = keras.initializers.Constant, np.random.default_rng(sequence.spawn(1)[0])
    kernel, bias = first_layer(model.box, model.width, rng=rng, dtype=dtype)
    found[0] = (constant(kernel), constant(bias))
    for number in range(1, model.depth):
        biases = hidden_biases(model.width, rng=rng, dtype=dtype)
        found[number] = (found[number][0], constant(biases))
    return found


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)

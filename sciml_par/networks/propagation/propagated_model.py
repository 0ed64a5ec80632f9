"""Keras models that are written once, on propagated quantities, for values and derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sciml_par._other_names import by_name
from sciml_par._tensorflow import import_module, tf
from sciml_par.errors import InputError
from sciml_par.networks.layers.activation import activation_named, stretched
from sciml_par.networks.layers.initial_weights import Drawn, checked_initial_weights
from sciml_par.networks.layers.model_arguments import check_arguments, checked_factor, own_embedding
from sciml_par.networks.propagation.dense_chain import RecordOf
from sciml_par.networks.propagation.propagation import Propagated
from sciml_par.networks.propagation.weights_of import WeightsOf

if TYPE_CHECKING:
    import keras
else:
    keras = import_module("keras")

Jet = tuple[tf.Tensor, tf.Tensor, tf.Tensor]


class PropagatedModel(keras.Model):
    """A Keras model whose subclasses write one function, `propagate`; to be subclassed.

    Parameters
    ----------
    inputs, outputs : int
        Dimension d of the points, and number m of components of the field.
    width, depth : int
        Units of a hidden layer, and how many of these or of blocks there are.
    activation : str
        One of `sciml_par.networks.ACTIVATIONS`.
    omega : float
        The activation is σ(omega z).
    embedding : FourierFeatures or PeriodicEmbedding, optional
        The first layer. The model has a copy of it.
    initial_weights : str
        "glorot", "he" or "siren".
    seed, dtype, name : as of `MLP`.
    """

    _takes_scaled_inputs = False  # of a subclass that has formulas of its own in x
    only_dense = True
    """Whether all that is trained behind the embedding is kernels and biases of dense layers."""

    @by_name
    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        width: int = 16,
        depth: int = 2,
        activation: str = "tanh",
        omega: float = 1.0,
        embedding: Any = None,
        initial_weights: str = "glorot",
        seed: int = 0,
        dtype: str = "float32",
        name: str | None = None,
    ) -> None:
        kind = type(self).__name__
        sizes = {"inputs": inputs, "outputs": outputs, "width": width, "depth": depth}
        check_arguments(kind, sizes, seed, dtype, name)
        function = activation_named(activation)
        checked_initial_weights(initial_weights, model=kind, without_box=True)
        omega = checked_factor(kind, "omega", omega)
        embedding = own_embedding(kind, embedding, dtype)
        super().__init__(name=name, dtype=dtype)
        self.input_size, self.output_size = int(inputs), int(outputs)
        self.width, self.depth, self.seed = int(width), int(depth), int(seed)
        self.activation, self.omega, self.initial_weights = function.name, omega, initial_weights
        self._activation = stretched(function, omega)
        self.embedding = embedding
        if embedding is not None:
            embedding.build((None, self.input_size))
        self._drawn = Drawn(initial_weights or "glorot", seed=self.seed, omega=omega)
        self._make()
        self.built = True

    def _make(self) -> None:
        """Make the layers, by `_dense`, and other weights."""
        raise NotImplementedError

    def records(self) -> RecordedModel | None:
        """What records the products of all layers; None where others than these are trained."""
        trained = [] if self.embedding is None else self.embedding.trainable_variables
        return RecordedModel(self) if self.only_dense and not trained else None

    def propagate(self, of: WeightsOf, x: Propagated) -> Propagated:
        """Return the network's output for a propagated x, with these weights (local)."""
        raise NotImplementedError

    def _dense(self, name: str, inputs: int, units: int, *, first: bool = False) -> Any:
        """Return a dense layer with its initial weights."""
        kernel, bias = self._drawn.layer(inputs, first=first)
        layer = keras.layers.Dense(
            units,
            kernel_initializer=kernel,
            bias_initializer=bias,
            name=name,
            dtype=self.dtype_policy.name,
        )
        layer.build((None, inputs))
        return layer

    @property
    def embedded_size(self) -> int:
        """How many quantities the layers behind the embedding see."""
        return self.input_size if self.embedding is None else int(self.embedding.units)

    def embed(self, of: WeightsOf, x: Propagated) -> Propagated:
        """What the layers behind the embedding see (local)."""
        return x if self.embedding is None else self.embedding.propagate(of, x)

    @property
    def sees_scaled_inputs(self) -> bool:
        """Whether a problem may scale the inputs: not where periods are in units of x."""
        return self._takes_scaled_inputs and not hasattr(self.embedding, "periods")

    def build(self, input_shape: Any) -> None:
        """Create the weights; the constructor has done it, so this has nothing left to do."""
        self.built = True

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Evaluate the network: x: [n, d] -> [n, m]."""
        return tf.transpose(self.propagate(WeightsOf.now(), Propagated.values_at(inputs)).value)

    def apply(
        self, parameters: Sequence[tf.Tensor], x: tf.Tensor, *, record_of: RecordOf | None = None
    ) -> tf.Tensor:
        """Evaluate with the parameters given, as `MLP.apply` does (pure, local).

        Parameters
        ----------
        parameters : sequence of tensors
            In the order of `trainable_variables`.
        x : tensor [n, d]
        record_of : makes a record of the products of each dense layer.
        """
        of = self._weights_of(parameters, x, record_of)
        return tf.transpose(self.propagate(of, Propagated.values_at(x)).value)

    def jet(
        self,
        parameters: Sequence[tf.Tensor],
        x: tf.Tensor,
        second: npt.ArrayLike,
        record_of: RecordOf | None = None,
    ) -> Jet:
        """Value, first derivatives and second-order operators, as `MLP.jet` (pure, local).

        Parameters
        ----------
        parameters, x, record_of : as of `apply`.
        second : array [K, d, d]
            Symmetric coefficient matrices; K may be 0.

        Returns
        -------
        u, du, L : tensors [n, m], [n, m, d], [n, m, K]
        """
        of = self._weights_of(parameters, x, record_of)
        matrices = np.asarray(second, dtype=np.float64)
        d = self.input_size
        if matrices.ndim != 3 or matrices.shape[1:] != (d, d):
            raise InputError(
                f"{type(self).__name__}.jet: second must have the shape [K, {d}, {d}], got "
                f"{list(matrices.shape)}"
            )
        return self.propagate(of, Propagated.at(x, matrices)).results()

    def _weights_of(
        self, parameters: Sequence[Any], x: tf.Tensor, record_of: RecordOf | None
    ) -> WeightsOf:
        if x.shape.rank != 2 or x.shape[1] != self.input_size:
            raise InputError(
                f"{type(self).__name__} expects points x of shape [n, {self.input_size}], got "
                f"{x.shape.as_list()}; a slice x[:, i:i+1] keeps both axes, x[:, i] does not"
            )
        return WeightsOf.given(self, parameters, x, record_of=record_of)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments, as Keras saves them."""
        embedding = self.embedding
        return {
            "inputs": self.input_size,
            "outputs": self.output_size,
            "width": self.width,
            "depth": self.depth,
            "activation": self.activation,
            "omega": self.omega,
            "embedding": None if embedding is None else keras.layers.serialize(embedding),
            "initial_weights": self.initial_weights,
            "seed": self.seed,
            "dtype": self.dtype_policy.name,
            "name": self.name,
        }


class RecordedModel:
    """A model whose trained weights are all of dense layers, with records of their products.

    It has what `DenseChain` has for methods of least squares.
    """

    def __init__(self, model: PropagatedModel) -> None:
        self.recorded_apply: Callable[..., tf.Tensor] = lambda parameters, x, record_of: (
            model.apply(parameters, x, record_of=record_of)
        )
        self.jet: Callable[..., Jet] = model.jet

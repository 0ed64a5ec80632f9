"""The base of this package's models: checked arguments, an embedding, and dense layers."""

from __future__ import annotations

from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.networks.layers.activation import activation_named, stretched
from sciml_par.networks.layers.model_arguments import check_arguments, checked_factor, own_embedding
from sciml_par.networks.layers.quiet_keras import keras
from sciml_par.networks.propagation.interpreted import Interpreted
from sciml_par.networks.propagation.propagation import Propagated, transposed
from sciml_par.networks.propagation.weights_of import WeightsOf


class BuiltModel(Interpreted, keras.Model):
    """A Keras model that needs no call to be built."""

    def build(self, input_shape: Any) -> None:
        self.built = True

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Export as Keras does, without the call by which Keras would learn the shape [n, d]."""
        points = [keras.InputSpec(dtype=self.input_dtype, shape=(None, self.input_size))]
        super().export(filepath, format, verbose, input_signature or points, **kwargs)


class OwnModel(BuiltModel):
    """A Keras model whose weights exist from construction on."""

    _takes_scaled_inputs = False  # set by each class itself: a subclass may have formulas in x

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        width: int,
        seed: int,
        dtype: str,
        name: str | None,
        depth: int = 1,
        activation: str = "tanh",
        omega: float = 1.0,
        embedding: Any = None,
    ) -> None:
        kind = type(self).__name__
        sizes = {"inputs": inputs, "outputs": outputs, "width": width, "depth": depth}
        check_arguments(kind, sizes, seed, dtype, name)
        function, omega = activation_named(activation), checked_factor(kind, "omega", omega)
        embedding = own_embedding(kind, embedding, dtype)
        super().__init__(name=name, dtype=dtype)
        self.input_size, self.output_size = int(inputs), int(outputs)
        self.width, self.depth, self.seed = int(width), int(depth), int(seed)
        self.activation, self.omega = function.name, omega
        self._activation = stretched(function, omega)
        self.embedding = embedding
        if embedding is not None:
            embedding.build((None, self.input_size))

    @property
    def embedded_size(self) -> int:
        """How many quantities the layers behind the embedding see."""
        return self.input_size if self.embedding is None else int(self.embedding.units)

    @property
    def sees_scaled_inputs(self) -> bool:
        """Whether a problem may scale the inputs: not where periods are in units of x."""
        own = vars(type(self)).get("_takes_scaled_inputs", False)
        return bool(own) and not hasattr(self.embedding, "periods")

    def _built_layer(self, name: str, inputs: int, units: int, initial: tuple[Any, Any]) -> Any:
        """Return a dense layer with weights, of the initializers of kernel and bias."""
        kernel, bias = initial
        layer = keras.layers.Dense(
            units,
            kernel_initializer=kernel,
            bias_initializer=bias,
            name=name,
            dtype=self.dtype_policy.name,
        )
        layer.build((None, inputs))
        return layer

    def embed(self, of: WeightsOf, x: Propagated) -> Propagated:
        """Return the input of the layers behind the embedding (local)."""
        return x if self.embedding is None else self.embedding.propagate(of, x)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Evaluate the network: x: [n, d] -> [n, m]."""
        self._check_points(inputs)
        return transposed(self.propagate(WeightsOf.now(), Propagated.values_at(inputs)).value)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments that all models have, as Keras saves them."""
        embedding = self.embedding
        given = {"omega": self.omega} if self.omega != 1.0 else {}
        # Arguments with defaults are left out, which constructors of subclasses may not know.
        return {
            "inputs": self.input_size,
            "outputs": self.output_size,
            "width": self.width,
            "depth": self.depth,
            "activation": self.activation,
            "seed": self.seed,
            "dtype": self.dtype_policy.name,
            "name": self.name,
            **given,
            **({} if embedding is None else {"embedding": keras.layers.serialize(embedding)}),
        }

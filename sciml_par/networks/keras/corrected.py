"""The sum of a network with fixed weights and of one that is trained."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.networks.keras.dense_model import dense_chain
from sciml_par.networks.keras.from_model import as_network
from sciml_par.networks.layers.quiet_keras import keras
from sciml_par.networks.propagation.dense_chain import DenseChain
from sciml_par.networks.propagation.interpreted import Asked
from sciml_par.networks.propagation.own_model import BuiltModel


@keras.saving.register_keras_serializable(package="sciml_par")
class Corrected(BuiltModel):
    """A network u(x) = a(x) + b(x), of which training changes b only.

    Parameters
    ----------
    base : Keras 3 model
        a, with the weights that it has; any model that `train` takes.
    correction : MLP or RandomFeatures
        b, for the same points and components.
    name : str, optional
        Name of the Keras model.

    Raises
    ------
    InputError
        The correction is another model; or the base is one that `train` refuses, has another
        number of inputs or outputs, or computes in another precision.

    Examples
    --------
    >>> from sciml_par.networks import MLP, Corrected, RandomFeatures
    >>> base = MLP(2, 1, dtype="float64")
    >>> Corrected(base, RandomFeatures(2, 1, features=100)).output_size
    1
    """

    def __init__(self, base: Any, correction: Any, *, name: str | None = None) -> None:
        chain = dense_chain(correction) if isinstance(correction, keras.Model) else None
        if chain is None or not hasattr(correction, "output_size"):
            raise InputError(
                f"Corrected: expected the correction to be a network of sciml_par, such as MLP or "
                f"RandomFeatures; got {type(correction).__name__}."
            )
        if not isinstance(base, keras.Model):
            raise InputError(
                f"Corrected: expected the base to be a Keras 3 model; got {type(base).__name__}."
            )
        dtype = correction.dtype_policy.name
        super().__init__(name=name, dtype=dtype)
        self.base, self.correction = base, correction
        self.input_size, self.output_size = correction.input_size, correction.output_size
        self._of_base = as_network(base, self.input_size, self.output_size, dtype=dtype)
        self._chain: DenseChain = chain
        self.built = True

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Evaluate the network: x: [n, d] -> [n, m]."""
        return self.base(inputs) + self.correction(inputs)

    @property
    def network_key(self) -> Any:
        """Hashable; models of equal keys are the same functions of their weights."""
        sizes = self.input_size, self.output_size
        correction = as_network(self.correction, *sizes, dtype=self.dtype_policy.name)
        return (type(self), self._of_base.key, correction.key)

    @property
    def frozen_variables(self) -> list[Any]:
        """All of the base, and those of the correction that stay as they are drawn."""
        return [*self.base.trainable_variables, *getattr(self.correction, "frozen_variables", ())]

    @property
    def linear_variables(self) -> list[Any]:
        """Those of the output layer of the correction."""
        return list(self.correction.linear_variables)

    def records(self) -> Corrected:
        """Return what can be asked for records of its products: this model."""
        return self

    def interpret(
        self, parameters: Sequence[Any], x: tf.Tensor, asked: Asked
    ) -> tuple[tf.Tensor, ...]:
        """Return the sum of both networks, with a record of the correction's products (local)."""
        count = len(self.base.trainable_variables)
        base = self._of_base.interpret(parameters[:count], x, asked._replace(record_of=None))
        correction = self._chain.interpret(parameters[count:], x, asked.behind(count))
        return tuple(map(add, base, correction))

    def get_config(self) -> dict[str, Any]:
        base, correction = map(keras.saving.serialize_keras_object, (self.base, self.correction))
        return {"base": base, "correction": correction, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Corrected:
        parts = (config["base"], config["correction"])
        return cls(*map(keras.saving.deserialize_keras_object, parts), name=config["name"])

"""The sum of a network with fixed weights and of one that is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sciml_par._tensorflow import import_module, tf
from sciml_par.errors import InputError
from sciml_par.networks.keras.dense_model import dense_chain
from sciml_par.networks.layers.model_arguments import checked_factor
from sciml_par.networks.propagation.dense_chain import DenseChain, RecordOf

if TYPE_CHECKING:
    import keras
else:
    keras = import_module("keras")

_SIZES = ("input_size", "output_size")


@keras.saving.register_keras_serializable(package="sciml_par")
class Corrected(keras.Model):
    """A network u(x) = a(x) + s b(x), of which training changes b only.

    Parameters
    ----------
    base : a model with `apply` and `jet`, such as `MLP`, `RandomFeatures` or another `Corrected`
        a, with the weights that it has.
    correction : MLP or RandomFeatures
        b, for the same points and components.
    scale : float
        Factor s of the correction, positive and dimensionless: about the size of what it corrects,
        so that b is of size one.
    name : str, optional
        Name of the Keras model.

    Raises
    ------
    InputError
        A model without `apply` and `jet`, or another number of inputs or outputs.

    Examples
    --------
    >>> from sciml_par.networks import MLP, Corrected, RandomFeatures
    >>> base = MLP(2, 1, dtype="float64")
    >>> Corrected(base, RandomFeatures(2, 1, features=100)).output_size
    1
    """

    sees_scaled_inputs = False

    def __init__(
        self, base: Any, correction: Any, *, scale: float = 1.0, name: str | None = None
    ) -> None:
        chain = dense_chain(correction)
        sizes = [tuple(getattr(m, n, 0) for n in _SIZES) for m in (base, correction)]
        if chain is None or sizes[0] != sizes[1] or not hasattr(base, "jet"):
            raise InputError(
                f"Corrected: expected two networks of sciml_par with the same inputs and outputs, "
                f"such as MLP and RandomFeatures; got {type(base).__name__} and "
                f"{type(correction).__name__}."
            )
        super().__init__(name=name, dtype=correction.dtype_policy.name)
        self.base, self.correction = base, correction
        self.scale = checked_factor("Corrected", "scale", scale)
        self.input_size, self.output_size = sizes[0]
        self._chain: DenseChain = chain
        self.built = True

    def build(self, input_shape: Any) -> None:
        """Create the weights; both networks have theirs, so this has nothing left to do."""
        self.built = True

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Evaluate the network: x: [n, d] -> [n, m]."""
        return self.base(inputs) + self.scale * self.correction(inputs)

    @property
    def summands(self) -> tuple[Any, Any]:
        """Both networks."""
        return self.base, self.correction

    @property
    def frozen_variables(self) -> list[Any]:
        """All of the base, and those of the correction that stay as they are drawn."""
        return [*self.base.trainable_variables, *getattr(self.correction, "frozen_variables", ())]

    @property
    def linear_variables(self) -> list[Any]:
        """Those of the output layer of the correction."""
        return list(self.correction.linear_variables)

    def records(self) -> Corrected:
        """Return what has `recorded_apply` and `jet` as a `DenseChain`: this model."""
        return self

    def apply(self, parameters: Sequence[Any], x: tf.Tensor) -> tf.Tensor:
        """Evaluate with the parameters given, as `MLP.apply` does (pure, local)."""
        of_base, of_correction = self._parts(parameters)
        return self.base.apply(of_base, x) + self.scale * self.correction.apply(of_correction, x)

    def recorded_apply(
        self, parameters: Sequence[Any], x: tf.Tensor, record_of: RecordOf | None = None
    ) -> tf.Tensor:
        """Evaluate as `apply`; `record_of` makes a record of the correction's products."""
        of_base, of_correction = self._parts(parameters)
        own = self._chain.recorded_apply(of_correction, x, self._shifted(record_of))
        return self.base.apply(of_base, x) + self.scale * own

    def jet(
        self,
        parameters: Sequence[Any],
        x: tf.Tensor,
        second: Any,
        record_of: RecordOf | None = None,
        *,
        higher: Sequence[Any] = (),
    ) -> tuple[tf.Tensor, ...]:
        """Compute value and derivatives, as `MLP.jet` (pure, local)."""
        of_base, of_correction = self._parts(parameters)
        more = {"higher": higher} if higher else {}
        shifted = self._shifted(record_of)
        both = (
            self.base.jet(of_base, x, second, **more),
            self._chain.jet(of_correction, x, second, shifted, **more),
        )
        return tuple(a + self.scale * b for a, b in zip(*both, strict=True))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments, as Keras saves them."""
        base, correction = map(keras.saving.serialize_keras_object, self.summands)
        return {"base": base, "correction": correction, "scale": self.scale, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Corrected:
        """Return a model of what `get_config` gives."""
        parts = (config["base"], config["correction"])
        scale = config.get("scale", 1.0)
        parts = map(keras.saving.deserialize_keras_object, parts)
        return cls(*parts, scale=scale, name=config["name"])

    def _parts(self, parameters: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        count = len(self.base.trainable_variables)
        return parameters[:count], parameters[count:]

    def _shifted(self, record_of: RecordOf | None) -> RecordOf | None:
        """Return records of layers whose weights stand behind those of the base."""
        if record_of is None:
            return None
        first = len(self.base.trainable_variables)

        def place(number: Any) -> Any:
            return number + first if isinstance(number, int) else number

        return lambda layer: record_of(
            replace(layer, weight=place(layer.weight), bias=place(layer.bias))
        )

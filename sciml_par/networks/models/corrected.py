"""A network that is the sum of one that stays as it is and of another that is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sciml_par._tensorflow import import_module, tf
from sciml_par.networks.keras.dense_model import dense_chain

if TYPE_CHECKING:
    import keras
else:
    keras = import_module("keras")


@keras.saving.register_keras_serializable(package="sciml_par")
class Corrected(keras.Model):
    """u(x) = a(x) + b(x), where only b is trained."""

    def __init__(
        self, base: Any, correction: Any, *, name: str | None = None, **others: Any
    ) -> None:
        super().__init__(name=name, dtype=correction.dtype_policy.name)
        if isinstance(base, dict):
            base, correction = map(keras.saving.deserialize_keras_object, (base, correction))
        self.base, self.correction = base, correction
        self.input_size, self.output_size = correction.input_size, correction.output_size
        self.built = True

    sees_scaled_inputs = False

    def build(self, input_shape: Any) -> None:
        self.built = True

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return self.base(inputs) + self.correction(inputs)

    @property
    def summands(self) -> tuple[Any, Any]:
        """The network that stays and the one that is trained."""
        return self.base, self.correction

    @property
    def frozen_variables(self) -> list[Any]:
        return [*self.base.trainable_variables, *getattr(self.correction, "frozen_variables", ())]

    @property
    def linear_variables(self) -> list[Any]:
        return list(getattr(self.correction, "linear_variables", ()))

    def _parts(self, parameters: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        count = len(self.base.trainable_variables)
        return parameters[:count], parameters[count:]

    def apply(self, parameters: Sequence[Any], x: tf.Tensor) -> tf.Tensor:
        a, b = self._parts(parameters)
        return self.base.apply(a, x) + self.correction.apply(b, x)

    def jet(self, parameters: Sequence[Any], x: tf.Tensor, second: Any, *, higher: Any = ()) -> Any:
        a, b = self._parts(parameters)
        more = {"higher": higher} if higher else {}
        return _sum(self.base.jet(a, x, second, **more), self.correction.jet(b, x, second, **more))

    def records(self) -> Any:
        return _RecordedSum(self)

    def get_config(self) -> dict[str, Any]:
        parts = (self.base, self.correction)
        base, correction = map(keras.saving.serialize_keras_object, parts)
        return {"base": base, "correction": correction, "name": self.name}


class _RecordedSum:
    """The sum with records of the products of the correction's layers."""

    def __init__(self, model: Corrected) -> None:
        self._model = model
        self._first = len(model.base.trainable_variables)
        self._chain = dense_chain(model.correction)

    def recorded_apply(self, parameters: Any, x: Any, record_of: Any = None) -> Any:
        a, b = self._model._parts(parameters)
        return self._model.base.apply(a, x) + self._chain.recorded_apply(
            b, x, self._shifted(record_of)
        )

    def apply(self, parameters: Any, x: Any) -> Any:
        return self._model.apply(parameters, x)

    def jet(
        self, parameters: Any, x: Any, second: Any, record_of: Any = None, *, higher: Any = ()
    ) -> Any:
        a, b = self._model._parts(parameters)
        more = {"higher": higher} if higher else {}
        own = self._chain.jet(b, x, second, self._shifted(record_of), **more)
        return _sum(self._model.base.jet(a, x, second, **more), own)

    def _shifted(self, record_of: Any) -> Any:
        if record_of is None:
            return None

        def place(number: Any) -> Any:
            return number + self._first if isinstance(number, int) else number

        return lambda layer: record_of(
            replace(layer, weight=place(layer.weight), bias=place(layer.bias))
        )


def _sum(a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(u + v for u, v in zip(a, b, strict=True))

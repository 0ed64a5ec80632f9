"""The tensors of a model's variables while a function of its weights is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.networks.layers.activation import LINEAR, Activation
from sciml_par.networks.propagation.propagation import Propagated, Record

FloatArray = npt.NDArray[np.float64]
Tensor = Any
RecordOf = Callable[["DenseLayer"], Record]
"""Makes the record of a layer's products."""

Place = int | FloatArray
"""A tensor as its number among the parameters, or as a constant value."""


@dataclass(frozen=True)
class DenseLayer:
    """a ← σ(a W + b), with the places of W and b among the parameters.

    windows : for a layer with a W_k and a b_k for each of K windows, the number k of the window of
        each column of a, [S n]: S windows that may cover each of n points, one after the other.
    """

    weight: Place
    bias: Place | None
    activation: Activation
    windows: Any = None


class WeightsOf:
    """The tensors of a model's variables, and its dense layers with them.

    Parameters
    ----------
    tensor_of : gives the tensor for a Keras variable.
    places : numbers of the trained variables among the parameters, by their identities.
    record_of : makes a record of the products of each dense layer.
    """

    def __init__(
        self,
        tensor_of: Callable[[Any], Tensor],
        *,
        places: dict[int, int] | None = None,
        record_of: RecordOf | None = None,
    ) -> None:
        self._tensor_of, self._places, self._record_of = tensor_of, places or {}, record_of

    @classmethod
    def now(cls) -> WeightsOf:
        """Return the variables' values, or their tensors while Keras traces a model (local)."""
        return cls(lambda variable: variable.value)

    @classmethod
    def given(
        cls, model: Any, parameters: Sequence[Any], x: Tensor, *, record_of: RecordOf | None = None
    ) -> WeightsOf:
        """Take parameters in the order of `trainable_variables`; others as they are (local).

        Raises
        ------
        InputError
            Another number of parameters, or another dtype than that of x.
        """
        variables = model.trainable_variables
        tensors = checked_parameters(type(model).__name__, parameters, len(variables), x)
        places = {id(variable): i for i, variable in enumerate(variables)}

        def tensor_of(variable: Any) -> Tensor:
            at = places.get(id(variable))
            if at is not None:
                return tensors[at]
            with tf.init_scope():  # as a number, not as a variable that a compiled loop reads
                value = np.asarray(variable)
            return tf.constant(value, x.dtype)

        return cls(tensor_of, places=places, record_of=record_of)

    def __call__(self, variable: Any) -> Tensor:
        """Return the tensor of a variable (local)."""
        return self._tensor_of(variable)

    def dense(self, layer: Any, a: Propagated, *, last: bool = False) -> Propagated:
        """Apply a `keras.layers.Dense` without its activation (local).

        last : whether this is the last layer; see `Propagated.dense`.
        """
        return self.multiplied(layer.kernel, layer.bias, a, last=last)

    def multiplied(self, kernel: Any, bias: Any, a: Propagated, *, last: bool) -> Propagated:
        """Return a W + b, with a record of its products if one is wanted (local)."""
        b, record = None if bias is None else self(bias), self.record(kernel, bias)
        return a.dense(self(kernel), b, record=record, last=last)

    @property
    def records(self) -> bool:
        """Whether the products of layers are recorded."""
        return self._record_of is not None

    def record(self, kernel: Any, bias: Any, *, windows: Any = None) -> Record | None:
        """Return the record of a layer with these variables, if one is wanted (local)."""
        if self._record_of is None:
            return None
        layer = DenseLayer(self._place(kernel), self._place(bias), LINEAR, windows)
        return self._record_of(layer)

    def _place(self, variable: Any) -> Any:
        """Return the number of a parameter, of a chain or of a model; or an array for others."""
        if isinstance(variable, int):
            return variable
        return self._places.get(id(variable), np.empty(0))


def checked_parameters(name: str, parameters: Sequence[Any], count: int, x: Tensor) -> list[Tensor]:
    """Return the parameters as tensors, once their number is `count` and their dtype that of x."""
    if len(parameters) != count:
        raise InputError(
            f"{name} has {count} parameters, as in trainable_variables, got {len(parameters)}"
        )
    tensors = [tf.convert_to_tensor(p) for p in parameters]
    if x.dtype != tensors[0].dtype:
        raise InputError(
            f"{name}: x is {x.dtype.name}, the parameters are {tensors[0].dtype.name}; "
            f"cast x with tf.cast, or make the model with dtype={x.dtype.name!r}"
        )
    return tensors

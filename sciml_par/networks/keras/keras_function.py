"""A Keras model as a pure function of its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.networks.layers.quiet_keras import keras

Tensor = Any


@dataclass(frozen=True)
class KerasFunction:
    """u(x) of a built Keras model with given weights.

    `frozen` has the values of `model.non_trainable_variables`, layer statistics included.
    """

    model: Any
    frozen: tuple[Any, ...]

    @classmethod
    def of(cls, model: Any) -> KerasFunction:
        """Return the function of a model as it is."""
        return cls(model, tuple(np.asarray(v) for v in model.non_trainable_variables))

    def __call__(self, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
        """Return u(x): [n, d] -> [n, m] (pure, local)."""
        return self.with_states(parameters, x, training=False)[0]

    def with_states(
        self, parameters: Sequence[Tensor], x: Tensor, *, training: bool
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the output, and the variables that are not trained as they are afterwards.

        This is what Keras' `stateless_call` does, but by `__call__`, which hands `training` down
        to the layers of models whose `call` does not take it.
        """
        held = [tf.convert_to_tensor(value) for value in self.frozen]
        mapping = [
            *zip(self.model.trainable_variables, parameters, strict=True),
            *zip(self.model.non_trainable_variables, held, strict=True),
        ]
        with keras.StatelessScope(state_mapping=mapping) as scope:
            output = self.model(x, training=training)
        states = [scope.get_current_value(v) for v in self.model.non_trainable_variables]
        # Where nothing has been assigned, Keras answers None.
        after = [h if s is None else s for h, s in zip(held, states, strict=True)]
        return output, after

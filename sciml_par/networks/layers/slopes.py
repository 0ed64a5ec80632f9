"""Trained slopes of activations: σ(n s z), one for each layer or for each unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sciml_par._tensorflow import import_module
from sciml_par.errors import InputError
from sciml_par.networks.layers.model_arguments import checked_factor

LAYER, UNIT = "layer", "unit"


@dataclass(frozen=True)
class Slopes:
    """Which slopes a model has.

    Attributes
    ----------
    kind : "layer", "unit" or None.
    factor : n.
    """

    kind: str | None
    factor: float

    @classmethod
    def checked(cls, kind: Any, factor: Any) -> Slopes:
        """Let a kind and a factor through."""
        if kind is not None and kind not in (LAYER, UNIT):
            raise InputError(f"MLP: adaptive must be {LAYER!r}, {UNIT!r} or None, got {kind!r}")
        n = checked_factor("MLP", "slope_factor", factor)
        if kind is None and n != 1.0:
            raise InputError(
                f"MLP: slope_factor={factor!r} is for trained slopes; add adaptive={LAYER!r}, or "
                f"give omega= for a slope that stays"
            )
        return cls(kind, n)

    def weights(self, model: Any) -> list[Any]:
        """Return the slopes of a model's hidden layers, which begin at 1/n."""
        keras: Any = import_module("keras")
        shape = () if self.kind == LAYER else (model.width,)
        initial = keras.initializers.Constant(1 / self.factor)
        return [
            model.add_weight(shape=shape, initializer=initial, name=f"slope_{k}")
            for k in range(1, model.depth + 1 if self.kind else 1)
        ]

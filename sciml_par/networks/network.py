"""What the engine needs of a network: pure functions of its weights."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

Tensor = Any


@dataclass(frozen=True)
class Network:
    """A model's field as pure functions of its weights.

    Attributes
    ----------
    model : the model itself, which training leaves with the weights that it found.
    trainable_variables : of the model, in the order in which the functions take their values.
    apply : (parameters, x: [n, d]) -> u: [n, m].
    jet : (parameters, x: [n, d], second: [K, d, d]) -> (u: [n, m], du: [n, m, d], L: [n, m, K]), as
        `sciml_par.networks.MLP.jet`; None where derivatives are to come from nested tapes.
    key : hashable; networks of equal keys have the same functions, so that one compiled loop
        serves them, and they can be stacked.
    notes : sentences for the user, about what was chosen for him.
    chain : the model as a `sciml_par.networks.dense_chain.DenseChain`, where it is one; a module
        that imports TensorFlow, so that it is not named as a type here.
    remarks : sentences for the user, about what is not used or may not be meant.
    """

    model: Any
    trainable_variables: tuple[Any, ...]
    apply: Callable[..., Tensor]
    jet: Callable[..., tuple[Tensor, Tensor, Tensor]] | None
    key: Hashable
    remarks: tuple[str, ...] = field(default=(), compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)
    chain: Any = field(default=None, compare=False)


class Identity:
    """A key that is equal to that of the same object only, and keeps the object alive."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other._value is self._value

    def __hash__(self) -> int:
        return id(self._value)

    def __repr__(self) -> str:
        return f"Identity({type(self._value).__name__} at {id(self._value):#x})"

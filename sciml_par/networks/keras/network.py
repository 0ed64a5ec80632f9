"""A network as pure functions of its weights."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from sciml_par import _tape

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
    chain : the model as a `DenseChain`, where it is one; its module imports TensorFlow,
        hence no type here.
    remarks : sentences for the user, about what is not used or may not be meant.
    frozen : numbers of the variables that stay as they are in every training.
    linear : numbers of the variables in which the output is linear once the others are fixed;
        those of the output layer. None where they are not known.
    others : networks that are trained with it, such as those of unknown functions. Their variables
        stand behind its own in `trainable_variables`, in their order; `apply`, `jet` and `chain`
        are its own, and take the first of the `parts` of all parameters.
    """

    model: Any
    trainable_variables: tuple[Any, ...]
    apply: Callable[..., Tensor]
    jet: Callable[..., tuple[Tensor, Tensor, Tensor]] | None
    key: Hashable
    remarks: tuple[str, ...] = field(default=(), compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)
    chain: Any = field(default=None, compare=False)
    frozen: tuple[int, ...] = ()
    linear: tuple[int, ...] | None = field(default=None, compare=False)
    others: tuple[Network, ...] = ()

    def interpret(self, parameters: Sequence[Tensor], x: Tensor, asked: Any) -> tuple[Tensor, ...]:
        """Return what is `Asked`, by nested tapes where there is no jet (local)."""
        if asked.record_of is not None:
            return tuple(self.chain.interpret(parameters, x, asked))
        value, own = partial(self.apply, parameters), self.jet and partial(self.jet, parameters)
        if asked.second is None:
            return (value(x),)
        return _tape.jet_at(value, own, x, asked.second, asked.higher)

    @property
    def own_variables(self) -> tuple[Any, ...]:
        """The variables of the model itself, without those of `others`."""
        behind = sum(len(each.trainable_variables) for each in self.others)
        return self.trainable_variables[: len(self.trainable_variables) - behind]

    def parts(self, parameters: Sequence[Tensor]) -> list[Sequence[Tensor]]:
        """Split parameters into those of the model, of each of `others`, and the rest (local)."""
        counts = [len(self.own_variables), *(len(e.trainable_variables) for e in self.others)]
        ends = [*accumulate(counts, initial=0), None]
        return [parameters[begin:end] for begin, end in pairwise(ends)]

    def with_others(self, others: Sequence[Network]) -> Network:
        """Return the same, to be trained together with these (local)."""
        if not others:
            return self
        variables, frozen, linear = list(self.trainable_variables), list(self.frozen), self.linear
        for each in others:
            first = len(variables)
            variables += each.trainable_variables
            frozen += [first + number for number in each.frozen]
            if linear is not None and each.linear is not None:
                linear = (*linear, *(first + number for number in each.linear))
        return replace(
            self,
            trainable_variables=tuple(variables),
            frozen=tuple(frozen),
            linear=linear,
            key=(self.key, *(each.key for each in others)),
            remarks=(*self.remarks, *(remark for each in others for remark in each.remarks)),
            notes=(*self.notes, *(note for each in others for note in each.notes)),
            others=tuple(others),
        )

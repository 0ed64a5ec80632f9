"""What a collective is carried out with: the ranks, its placement in the program, its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sciml_par._tensorflow import is_recorded, tf
from sciml_par.errors import InputError
from sciml_par.parallel.collectives.arguments import tensor_of, unknown_shape
from sciml_par.parallel.execution.custom_gradient import custom_gradient
from sciml_par.parallel.execution.dispatch import Placement, check_device, perform
from sciml_par.parallel.execution.input_pipeline import name_in_pipeline
from sciml_par.parallel.execution.unknown_shapes import at_run_time, may_have_unknown_shapes
from sciml_par.parallel.execution.vectorized import AllPasses
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import current_world
from sciml_par.parallel.requests.element_type import element_type
from sciml_par.parallel.requests.request import Request, Shape
from sciml_par.parallel.tensors.shapes import shape_of

Tensor = Any
"""A `tf.Tensor`, or what `tf.convert_to_tensor` takes."""

Again = Callable[["Tensor", "CallOptions"], "Tensor"]
"""A collective with its gradient, of a tensor and of options made where it is called."""

AgainTogether = Callable[[list["Tensor"], "CallOptions"], Sequence["Tensor"]]
"""The same of tensors, with what else the collective finds after its results."""

Gradient = Callable[[Tensor], Tensor]
"""Takes ḡ, the gradient by a result, and gives that by what it was made of."""


def communicator_of(communicator: Communicator | None, where: str) -> Communicator:
    """Return the ranks that a user has given, all by default; or `InputError`."""
    if communicator is None:
        return current_world().communicator
    if not isinstance(communicator, Communicator):
        raise InputError(
            f"{where}: expected communicator to be a Communicator, as .split() makes one, or None; "
            f"got {communicator!r}."
        )
    return communicator


def gradient_name(name: str | None) -> str | None:
    """Return the name of the gradient of what the user calls `name`."""
    return None if name is None else f"gradient of {name}"


class CallOptions:
    """What the collectives of one call share with those of its gradient."""

    __slots__ = ("group", "kind", "name", "placement")

    def __init__(
        self, group: Communicator, placement: Placement, kind: str, name: str | None
    ) -> None:
        self.group = group
        self.placement = placement
        self.kind = kind
        self.name = name

    @classmethod
    def of(
        cls, kind: str, name: str | None, communicator: Communicator | None, device: str | None
    ) -> CallOptions:
        """Return the options that a user has given, checked."""
        group = communicator_of(communicator, kind)
        if name is not None and not isinstance(name, str):
            raise InputError(f"{kind}: expected name to be a text or None; got {name!r}.")
        check_device(device, kind)
        return cls(group, Placement(group, device), kind, name_in_pipeline(kind, name))

    def tensor(self, value: Tensor) -> Tensor:
        """`value` as a tensor whose elements can be carried."""
        # To convert a tensor takes TensorFlow as long as a short transfer.
        x = value if isinstance(value, tf.Tensor) else tensor_of(value, self.kind)
        element_type(x.dtype.name, where=self.kind)
        return x

    def of_gradient(self) -> CallOptions:
        """Return the options of the gradient, to be called where that is built."""
        return CallOptions(
            self.group, self.placement.resumed(), self.kind, gradient_name(self.name)
        )

    def has_unknown_shape(self, x: Tensor) -> bool:
        """Return whether the shape of `x` is known only when the graph runs; or `InputError`.

        XLA compiles for known shapes.
        """
        if x.shape.is_fully_defined():
            return False
        if not may_have_unknown_shapes():
            raise unknown_shape(x, self.kind)
        return True

    def perform(
        self,
        x: Tensor,
        request_of: Callable[[Shape], Request],
        again: Again,
        *,
        by_rows: bool = False,
        shape: Any = None,
    ) -> Tensor:
        """Carry out on `x` the request that `request_of` makes for its shape (collective)."""
        if not self.has_unknown_shape(x):
            all_passes = self.all_passes(lambda xs, now: [again(xs[0], now)], by_rows=by_rows)
            return perform(self.group, request_of(shape_of(x)), x, self.placement, all_passes)
        if self.group.size == 1:
            return tf.identity(x)
        spec = tf.TensorSpec(x.shape if shape is None else shape, x.dtype)
        return self.at_run_time(
            lambda perform, x: [perform(request_of(shape_of(x)), x)],
            [x],
            [spec],
            lambda xs, now: [again(xs[0], now)],
            by_rows=by_rows,
        )[0]

    def differentiable(
        self, collective: Callable[[Tensor], tuple[Tensor, Gradient]], x: Tensor
    ) -> Tensor:
        """y of `collective(x)`, which returns y and the function ḡ ↦ the gradient by x."""
        # Making y differentiable takes several times as long as a short transfer.
        if self.placement.eager and not is_recorded():
            return collective(x)[0]
        return custom_gradient(collective, x)

    def at_run_time(
        self,
        run: Callable[..., Sequence[Tensor]],
        inputs: Sequence[Tensor],
        results: Sequence[Any],
        again: AgainTogether,
        *,
        by_rows: bool = False,
        travel: int = 1,
    ) -> list[Tensor]:
        """What `run` gives when the graph runs; see `unknown_shapes.at_run_time` (collective)."""
        all_passes = self.all_passes(again, by_rows=by_rows)
        return at_run_time(self.group, run, inputs, results, self.placement, all_passes, travel)

    def all_passes(self, again: AgainTogether, *, by_rows: bool = False) -> AllPasses:
        """What pfor makes of a collective: `again`, placed where pfor has come to."""
        group, device, kind, name = self.group, self.placement.device, self.kind, self.name

        def collective(xs: list[Tensor]) -> Sequence[Tensor]:
            return again(xs, CallOptions(group, Placement(group, device), kind, name))

        return AllPasses(collective, kind, by_rows)

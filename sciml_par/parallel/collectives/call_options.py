"""The options of a collective: its ranks, its placement in the program, its name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from sciml_par._tensorflow import is_recorded, tf
from sciml_par.errors import InputError
from sciml_par.parallel.collectives.arguments import tensor_of, unknown_shape
from sciml_par.parallel.execution.dispatch import (
    Placement,
    at_run_time,
    check_device,
    may_have_unknown_shapes,
    perform,
)
from sciml_par.parallel.execution.graph_lifetime import custom_gradient
from sciml_par.parallel.execution.vectorized import AllPasses
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import current_world
from sciml_par.parallel.requests.element_type import element_type
from sciml_par.parallel.requests.request import Request, Shape
from sciml_par.parallel.requests.signature import IN_INPUT_PIPELINE
from sciml_par.parallel.tensors.packing import shape_of

Tensor = Any
"""A `tf.Tensor`, or what `tf.convert_to_tensor` takes."""

Again = Callable[["Tensor", "CallOptions"], "Tensor"]
"""A collective with its gradient, as a function of a tensor and new options."""

AgainTogether = Callable[[list["Tensor"], "CallOptions"], Sequence[Any]]
"""The same for several tensors; other inputs and results, as numbers of rows, may follow."""

Gradient = Callable[[Tensor], Tensor]
"""Takes ḡ, the gradient by a result, and returns the gradient by the input."""

COUNTS = "int64"
"""The type of numbers of rows in a plain graph: with int32 TensorFlow would run the collective's
Python function, and so have all of its tensors, on the CPU."""


def widened(x: Tensor) -> Tensor:
    """Return a tensor of int32 as one of `COUNTS`, others as they are."""
    x = tf.convert_to_tensor(x)
    return tf.cast(x, COUNTS) if x.dtype == tf.int32 else x


def any_rows_of(x: Tensor) -> Any:
    """Return the `tf.TensorSpec` of any number of rows like those of x."""
    return tf.TensorSpec(tf.TensorShape([None]).concatenate(x.shape[1:]), x.dtype)


def gradient_name(name: str | None) -> str | None:
    """Return the name of the gradient of collective `name`."""
    return None if name is None else f"gradient of {name}"


class CallOptions:
    """Options that a collective shares with its gradient."""

    __slots__ = ("group", "kind", "name", "placement")

    def __init__(self, placement: Placement, kind: str, name: str | None) -> None:
        self.group = placement.communicator
        self.placement = placement
        self.kind = kind
        self.name = name

    @classmethod
    def of(
        cls, kind: str, name: str | None, communicator: Communicator | None, device: str | None
    ) -> CallOptions:
        """Return the user's options, checked."""
        group = current_world().communicator if communicator is None else communicator
        if not isinstance(group, Communicator):
            raise InputError(
                f"{kind}: expected communicator to be None or a Communicator, as .split() returns; "
                f"got {communicator!r}."
            )
        if name is not None and not isinstance(name, str):
            raise InputError(f"{kind}: expected name to be a text or None; got {name!r}.")
        check_device(device, kind)
        return cls(Placement(group, device), kind, _name_in_pipeline(kind, name))

    def tensor(self, value: Tensor) -> Tensor:
        """Return `value` as a tensor of a supported element type."""
        # TensorFlow takes as long to convert a tensor as a short transfer.
        x = value if isinstance(value, tf.Tensor) else tensor_of(value, self.kind)
        element_type(x.dtype.name, where=self.kind)
        return x

    def of_gradient(self) -> CallOptions:
        """Return the options of the gradient; call it where the gradient is built."""
        return CallOptions(self.placement.resumed(), self.kind, gradient_name(self.name))

    def here(self) -> CallOptions:
        """Return the same options in the context at hand, which is another one."""
        return CallOptions(Placement(self.group, self.placement.device), self.kind, self.name)

    def has_unknown_shape(self, x: Tensor) -> bool:
        """Return whether `x` gets its shape only when the graph runs; raise if XLA compiles it."""
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
    ) -> Tensor:
        """Carry out the request `request_of(shape)` on `x` (collective).

        by_rows : the result may have another number of rows than `x`.
        """
        unknown = self.has_unknown_shape(x)
        if self.group.size == 1:
            return tf.identity(x)
        again_together: AgainTogether = lambda xs, now: [again(xs[0], now)]  # noqa: E731
        if unknown:
            spec = any_rows_of(x) if by_rows else tf.TensorSpec(x.shape, x.dtype)
            return self.at_run_time(again_together, [x], [spec], by_rows=by_rows)[0]
        all_passes = self.all_passes(again_together, by_rows=by_rows)
        return perform(request_of(shape_of(x)), x, self.placement, all_passes)

    def moved(
        self,
        x: Tensor,
        request_of: Callable[[Shape], Request],
        again: Again,
        gradient: Gradient,
        *,
        by_rows: bool = False,
    ) -> Tensor:
        """Carry out a request that only moves elements, with its gradient (collective)."""

        def collective(x: Tensor) -> tuple[Tensor, Gradient]:
            return self.perform(x, request_of, again, by_rows=by_rows), gradient

        return self.differentiable(collective, x)

    def differentiable(
        self, collective: Callable[[Tensor], tuple[Tensor, Gradient]], x: Tensor
    ) -> Tensor:
        """Return y of `collective(x)`, which returns y and the function ḡ ↦ the gradient by x."""
        # A custom gradient takes several times as long as a short transfer.
        if self.placement.eager and not is_recorded():
            return collective(x)[0]
        return custom_gradient(collective, x)

    def at_run_time(
        self,
        again: AgainTogether,
        inputs: Sequence[Tensor],
        results: Sequence[Any],
        *,
        by_rows: bool = False,
        travel: int = 1,
    ) -> list[Tensor]:
        """Return the results of `again` in a plain graph, on eager tensors whenever it runs."""
        all_passes = self.all_passes(again, by_rows=by_rows)
        run = lambda *xs: again(list(xs), self.here())  # noqa: E731
        return at_run_time(run, inputs, results, self.placement, all_passes, travel)

    def all_passes(self, again: AgainTogether, *, by_rows: bool = False) -> AllPasses:
        """Return the collective for pfor: `again`, with the placement at the conversion."""
        return AllPasses(lambda xs: again(xs, self.here()), self.kind, by_rows)


def _name_in_pipeline(kind: str, name: str | None) -> str | None:
    """Return the name of a collective, marked while a `tf.data` pipeline's function is traced."""
    if tf.executing_eagerly():
        return name
    stages = []  # the classes of the datasets whose functions are being traced
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("tensorflow.python.data.ops."):
            stages.append(type(frame.f_locals.get("self")).__name__)
        frame = frame.f_back
    if not stages:
        return name
    parallel = next((stage for stage in stages if "Parallel" in stage), None)
    if parallel is not None:
        raise InputError(
            f"{kind}: called in a parallel stage of a tf.data pipeline ({parallel.strip('_')}), "
            f"whose calls have another order on each rank. Leave num_parallel_calls out, or call "
            f"it outside the pipeline."
        )
    return f"{name or kind}{IN_INPUT_PIPELINE}"

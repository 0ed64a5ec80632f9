"""Collectives on tensors whose shape is known only when the graph runs.

A plain graph may hold such tensors, as of the last batch of a data set. It then calls back into
Python with the tensor, and the request is made there. As shapes that the trace does not know may
differ from rank to rank as well, the ranks agree at every execution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.parallel.execution.dispatch import (
    Placement,
    check_threads_of_mpi,
    last_collective,
    run_eagerly,
    set_last_collective,
)
from sciml_par.parallel.execution.graph_errors import MismatchInGraph
from sciml_par.parallel.execution.vectorized import AllPasses
from sciml_par.parallel.execution.xla_custom_call import in_compiled_function
from sciml_par.parallel.groups.call_site import CallSite
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.request import Request

Tensor = Any

Perform = Callable[[Request, Tensor], Tensor]
"""Carries out a request on an eager tensor."""


def may_have_unknown_shapes() -> bool:
    """Whether shapes may be settled when the graph runs: in those that XLA does not compile."""
    return not tf.executing_eagerly() and not in_compiled_function()


def at_run_time(
    communicator: Communicator,
    run: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Tensor],
    results: Sequence[Any],
    placement: Placement,
    all_passes: AllPasses,
    travel: int,
) -> list[Tensor]:
    """Put `run` into the graph under construction, in its place among the collectives."""

    def perform(request: Request, x: Tensor) -> Tensor:
        return run_eagerly(CallSite(communicator, request), x)

    def run_now(*tensors: Tensor) -> Sequence[Tensor]:
        from tensorflow.python.eager import record

        with record.stop_recording():
            return run(perform, *tensors)

    check_threads_of_mpi()
    mismatch = MismatchInGraph()
    caught = mismatch.caught(run_now, lambda: [tf.zeros([0], spec.dtype) for spec in results])
    with tf.control_dependencies(last_collective()), tf.device(placement.device):
        *ys, failed = tf.py_function(caught, inputs, [*(spec.dtype for spec in results), tf.bool])
    all_passes.convert(failed.op, travel, [None])
    ys = mismatch.checked(ys, failed)
    set_last_collective(ys[0])
    for y, spec in zip(ys, results, strict=True):
        y.set_shape(spec.shape)
    return ys

"""One collective, three contexts: eager tensors, graphs, and functions that XLA compiles."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.errors import CollectiveMismatchError, InputError
from sciml_par.parallel.execution.eager import from_host, run_eagerly, shared_call_site
from sciml_par.parallel.execution.tensor_bundle_call import TensorBundleCall
from sciml_par.parallel.execution.vectorized import AllPasses, convert_to_nothing
from sciml_par.parallel.execution.xla_custom_call import (
    bridge,
    in_compiled_function,
    only_functions_under_construction,
)
from sciml_par.parallel.groups.call_site import CallSite
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.request import Request
from sciml_par.parallel.tensors.memory import has_gpus
from sciml_par.parallel.tensors.packing import shape_of

Tensor = Any

_LAST = "sciml_par_last_collective"


class Placement:
    """How a collective and its gradients are carried out.

    The forward pass creates it and hands it to its gradient. The graph of a gradient (the backward
    loop of a while loop) may reach the order of a compiled program only through the forward pass.
    In other graphs the gradient captures the order anew: TensorFlow would not recognize the order
    in a handle that one function returns and another takes.
    """

    def __init__(self, communicator: Communicator, device: str | None = None) -> None:
        # Each of these questions costs as much as preparing a transfer.
        self.eager: bool = tf.executing_eagerly()
        compiled = not self.eager and in_compiled_function()
        self.communicator = communicator
        self.device = device
        self.on_host = device is not None and _device_type(device) == "CPU"
        self.order = bridge().order() if compiled and communicator.size > 1 else None

    def resumed(self) -> Placement:
        """Return the gradient's placement: a new one except in a loop's or a branch's backward."""
        if self.order is not None and not only_functions_under_construction():
            return self
        new = Placement(self.communicator, self.device)
        if self.order is not None:  # the gradient of a compiled function does not say that it is
            new.order = bridge().order()
        return new


def perform(request: Request, x: Any, placement: Placement, all_passes: AllPasses) -> Any:
    """Carry out a collective on `x` in the context at hand (collective)."""
    communicator = placement.communicator
    if placement.eager:
        call_site = shared_call_site(communicator, request)
        if placement.device is not None and (has_gpus() or not placement.on_host):
            with tf.device(placement.device):
                x = tf.identity(x)
        return from_host(call_site, x) if placement.on_host else run_eagerly(call_site, x)
    call_site = CallSite(communicator, request)
    spec = tf.TensorSpec(request.receive_shape, x.dtype)
    if placement.order is not None:
        order, on_host = placement.order, placement.on_host
        put = lambda: [bridge().emit(call_site, x, order, all_passes, on_host=on_host)]  # noqa: E731
    elif placement.on_host or communicator.nccl_transport is None:
        convert = lambda operation: all_passes.convert(operation, 1)  # noqa: E731
        carry = call_site.carry

        def run(send: np.ndarray) -> list[np.ndarray]:
            send = np.ascontiguousarray(send)
            return [carry(send.ctypes.data)]

        put = lambda: in_python(tf.numpy_function, run, [x], [spec], convert)  # noqa: E731
    else:
        run_now = lambda x: [run_eagerly(call_site, x)]  # noqa: E731
        return at_run_time(run_now, [x], [spec], placement, all_passes, 1)[0]
    return _in_its_place(put)[0]


def takes_bundles(placement: Placement) -> bool:
    """Return whether one collective may carry many tensors in this placement."""
    return placement.order is not None and bridge().takes_bundles


def perform_bundle(
    request: Request, xs: Sequence[Any], placement: Placement, all_passes: AllPasses
) -> list[Any]:
    """Carry out one collective on many tensors, if `takes_bundles` (collective)."""
    call = TensorBundleCall(placement.communicator, request, [shape_of(x) for x in xs])
    return _in_its_place(lambda: bridge().emit_bundle(call, xs, placement.order, all_passes))


@lru_cache(maxsize=1)
def check_threads_of_mpi() -> None:
    """Raise `InputError` if graphs' threads must not call MPI."""
    from mpi4py import MPI

    levels = ("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")
    level = next(each for each in levels if getattr(MPI, f"THREAD_{each}") == MPI.Query_thread())
    if level != "MULTIPLE":
        raise InputError(
            f"A collective in a tf.function or a graph runs on TensorFlow's threads: expected an "
            f"MPI started with MPI_THREAD_MULTIPLE; got MPI_THREAD_{level}. "
            f"Call sciml_par.init() before anything else starts MPI; or set "
            f"mpi4py.rc.thread_level = 'multiple' before MPI is imported; or load an MPI built "
            f"with threads. Eager collectives work without it."
        )


def check_device(device: str | None, where: str) -> None:
    """Raise `InputError` if `device` is not one of TensorFlow's device names."""
    if device is not None and _device_type(device) not in ("CPU", "GPU"):
        raise InputError(
            f'{where}: expected device to be None, "/CPU:0" or "/GPU:0"; got {device!r}.'
        )


def _device_type(device: str) -> str | None:
    try:
        kind: str | None = tf.DeviceSpec.from_string(device).device_type
    except (ValueError, AttributeError, TypeError):
        return None
    return kind


def _in_its_place(put: Callable[[], list[Any]]) -> list[Any]:
    """Put a collective into the graph under construction, after the one before.

    A `tf.function` keeps its side effects in order. In the functions that TensorFlow derives for
    its gradient, only this dependency does.
    """
    check_threads_of_mpi()
    graph = tf.compat.v1.get_default_graph()
    last = graph.get_collection_ref(_LAST)
    # A new graph inherits the collections of the one around it.
    with tf.control_dependencies([operation for operation in last if operation.graph is graph]):
        ys = put()
    last[:] = [ys[0].op]
    return ys


@contextlib.contextmanager
def outside_the_order() -> Iterator[None]:
    """Order the collectives inside and outside separately."""
    graph = tf.compat.v1.get_default_graph()
    before = list(graph.get_collection_ref(_LAST))
    graph.get_collection_ref(_LAST)[:] = []
    try:
        yield
    finally:
        graph.get_collection_ref(_LAST)[:] = before


def in_python(
    call: Callable[..., Any],
    run: Callable[..., Sequence[Any]],
    inputs: Sequence[Tensor],
    results: Sequence[Any],
    convert: Callable[[Any], None],
) -> list[Tensor]:
    """Let a graph that XLA does not compile call `run`; a mismatch fails as in other contexts.

    An exception of a Python function in a graph reaches the program as `tf.errors.UnknownError`. A
    mismatch must have the same class in every context, so that a program can catch it. XLA's errors
    keep their class: the function only returns that it has failed, and then a foreign call fails.

    Parameters
    ----------
    call : `tf.py_function`, or the faster `tf.numpy_function`.
    results : a `tf.TensorSpec` of each result.
    convert : sets the converter for pfor of the operation that calls.
    """
    errors: list[CollectiveMismatchError] = []

    def caught(*tensors: Any) -> list[Any]:
        try:
            return [*run(*tensors), False]
        except CollectiveMismatchError as error:
            errors[:] = [error]
            return [*(np.zeros([0], spec.dtype.as_numpy_dtype) for spec in results), True]

    def fail(*_: Any) -> None:
        raise errors.pop() if errors else CollectiveMismatchError("The ranks differ.")

    def failing() -> Tensor:
        try:
            return bridge().failing(fail, failed)
        except InputError:  # no foreign calls here
            return tf.numpy_function(fail, [failed], tf.bool)

    *ys, failed = call(caught, inputs, [*(spec.dtype for spec in results), tf.bool])
    convert(failed.op)
    failed.set_shape([])
    fails = tf.cond(failed, failing, lambda: tf.constant(False))
    for condition in fails.op.inputs:
        convert_to_nothing(condition.op)
    with tf.control_dependencies([fails]):
        ys = [tf.identity(y) for y in ys]
    for y, spec in zip(ys, results, strict=True):
        y.set_shape(spec.shape)
    return ys


def may_have_unknown_shapes() -> bool:
    """Return whether the graph under construction may know shapes only when it runs."""
    return not tf.executing_eagerly() and not in_compiled_function()


def at_run_time(
    run: Callable[..., Sequence[Any]],
    inputs: Sequence[Tensor],
    results: Sequence[Any],
    placement: Placement,
    all_passes: AllPasses,
    travel: int,
) -> list[Tensor]:
    """Let a plain graph call `run` with eager tensors, in the memory where TensorFlow has them."""

    def run_now(*tensors: Tensor) -> Sequence[Any]:
        from tensorflow.python.eager import record

        with record.stop_recording():
            return run(*tensors)

    def call(*arguments: Any) -> Any:
        with tf.device(placement.device):
            return tf.py_function(*arguments)

    convert = lambda operation: all_passes.convert(operation, travel)  # noqa: E731
    return _in_its_place(lambda: in_python(call, run_now, inputs, results, convert))

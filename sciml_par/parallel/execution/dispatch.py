"""One collective, three contexts: eager tensors, graphs, and functions that XLA compiles."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.execution.graph_errors import MismatchInGraph
from sciml_par.parallel.execution.tensor_bundle_call import TensorBundleCall
from sciml_par.parallel.execution.vectorized import AllPasses
from sciml_par.parallel.execution.xla_custom_call import (
    bridge,
    in_compiled_function,
    only_functions_under_construction,
)
from sciml_par.parallel.groups.call_site import CallSite
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.request import Request
from sciml_par.parallel.tensors.buffer_pool import result_memory
from sciml_par.parallel.tensors.memory import (
    HOST_MEMORY,
    empty,
    has_gpus,
    kind_of_memory,
    tensor_on,
    view,
)
from sciml_par.parallel.transports.nccl import NCCLTransport

_CALL_SITES_KEPT = 4096
_HOST = "/CPU:0"
_LAST = "sciml_par_last_collective"


class Placement:
    """How a collective and its gradients are carried out.

    Made where the forward pass is built, and passed on to its gradient, which may be built in a
    graph (the backward loop of a while loop) that can only reach the order of a compiled program
    through the forward's. Elsewhere the gradient reaches it itself: TensorFlow would not see that a
    handle which one function returns, and another one takes, is that of the order.
    """

    def __init__(self, communicator: Communicator, device: str | None = None) -> None:
        # Asked once: each question costs as much as a transfer's preparation.
        self.eager: bool = tf.executing_eagerly()
        compiled = not self.eager and in_compiled_function()
        self._communicator = communicator
        self.device = device
        self.on_host = device is not None and _device_type(device) == "CPU"
        self.order = bridge().order() if compiled and communicator.size > 1 else None

    def resumed(self) -> Placement:
        """That of a gradient: a new one, or this one in the backward pass of a loop or a branch."""
        if self.order is not None and not only_functions_under_construction():
            return self
        new = Placement(self._communicator, self.device)
        if self.order is not None:  # the gradient of a compiled function does not say that it is
            new.order = bridge().order()
        return new


def perform(
    communicator: Communicator,
    request: Request,
    x: Any,
    placement: Placement,
    all_passes: AllPasses,
) -> Any:
    """Carry out a collective on `x` in the context at hand (collective)."""
    if communicator.size == 1:
        return tf.identity(x)  # what every collective of one rank amounts to
    if placement.eager:
        call_site, moved = shared_call_site(communicator, request), _moved(x, placement)
        return _from_host(call_site, moved) if placement.on_host else run_eagerly(call_site, moved)
    check_threads_of_mpi()
    call_site = CallSite(communicator, request)
    with tf.control_dependencies(last_collective()):
        if placement.order is not None:
            y = bridge().emit(call_site, x, placement.order, all_passes, on_host=placement.on_host)
        elif placement.on_host or communicator.nccl_transport is None:
            y = _in_graph_on_host(call_site, x, all_passes)
        else:
            y = _in_graph(call_site, x, placement, all_passes)
    set_last_collective(y)
    return y


def takes_bundles(placement: Placement) -> bool:
    """Return whether many tensors may be one operand where `placement` leads."""
    return placement.order is not None and bridge().takes_bundles


def perform_bundle(
    communicator: Communicator,
    request: Request,
    xs: Sequence[Any],
    placement: Placement,
    all_passes: AllPasses,
) -> list[Any]:
    """Carry out a collective on many tensors as on one, where `takes_bundles` (collective)."""
    check_threads_of_mpi()
    call = TensorBundleCall(communicator, request, [tuple(x.shape.as_list()) for x in xs])
    with tf.control_dependencies(last_collective()):
        ys = bridge().emit_bundle(call, xs, placement.order, all_passes)
    set_last_collective(ys[0])
    return ys


@lru_cache(maxsize=1)
def check_threads_of_mpi() -> None:
    """Raise `InputError` if MPI must not be called from the threads on which graphs run."""
    from mpi4py import MPI

    levels = ("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")
    level = next(each for each in levels if getattr(MPI, f"THREAD_{each}") == MPI.Query_thread())
    if level != "MULTIPLE":
        raise InputError(
            f"A collective stands inside a tf.function or a graph, which TensorFlow runs on its "
            f"threads: expected an MPI started with MPI_THREAD_MULTIPLE; got MPI_THREAD_{level}. "
            f"Call sciml_par.init() before anything else starts MPI; or set "
            f"mpi4py.rc.thread_level = 'multiple' before MPI is imported; or load an MPI that is "
            f"built for threads. Eager collectives work without it."
        )


def run_eagerly(call_site: CallSite, x: Any) -> Any:
    """Carry out a collective on an eager tensor, from where it lies (collective)."""
    nccl = call_site.communicator.nccl_transport
    kind = HOST_MEMORY if nccl is None and not has_gpus() else kind_of_memory(x)
    if nccl is not None and kind == nccl.memory and nccl.carries(call_site.request):
        y = empty(call_site.receive_shape, x.dtype, x.device)
        # TensorFlow has no such operation for uint32 on GPUs, and makes it on the host.
        if kind_of_memory(y) == nccl.memory:
            return _from_gpu(call_site, x, y, nccl)
    if kind == HOST_MEMORY:
        return _from_host(call_site, x)
    with tf.device(_HOST):
        x_on_host = tf.identity(x)
    y = _from_host(call_site, x_on_host)
    with tf.device(x.device):
        return tf.identity(y)


def _from_host(call_site: CallSite, x: Any) -> Any:
    call, source = call_site.prepared(call_site.communicator.mpi_transport), view(x)
    array, address = result_memory().array(*call_site.result)
    call.execute(source.address, address)
    return tensor_on(array)


def _from_gpu(call_site: CallSite, x: Any, y: Any, nccl: NCCLTransport) -> Any:
    # Looking at the tensors waits for TensorFlow's kernels, and TensorFlow knows nothing of NCCL's
    # stream: it may read the result once that is done.
    source, target = view(x), view(y)
    call_site.prepared(nccl).execute(source.address, target.address, nccl.stream)
    nccl.gpu.synchronize(nccl.stream)
    return y


def check_device(device: str | None, where: str) -> None:
    """Raise `InputError` if `device` is none of TensorFlow's device names."""
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


def _moved(x: Any, placement: Placement) -> Any:
    if placement.device is None or (placement.on_host and not has_gpus()):
        return x
    with tf.device(placement.device):
        return tf.identity(x)


def shared_call_site(communicator: Communicator, request: Request) -> CallSite:
    """The call site that eager calls with equal requests share, made at the first of them."""
    call_sites = communicator.call_sites
    call_site = call_sites.get(request)
    if call_site is None:
        if len(call_sites) >= _CALL_SITES_KEPT:
            call_sites.clear()
        call_site = call_sites[request] = CallSite(communicator, request)
    return call_site


def last_collective() -> list[Any]:
    """Return the collective before this one in the graph under construction: [operation] or [].

    A `tf.function` keeps its side effects in order, but the functions that TensorFlow derives from
    it for its gradient do not: there this dependency alone does.
    """
    graph = tf.compat.v1.get_default_graph()
    # A new graph inherits the collections of the one around it.
    return [operation for operation in graph.get_collection(_LAST) if operation.graph is graph]


@contextlib.contextmanager
def outside_the_order() -> Iterator[None]:
    """Collectives inside are not made to wait for those outside, nor the other way round.

    For a graph of TensorFlow 1, of which each run does a part: what is run by itself, as the start
    of variables, must not bring everything along that was built before.
    """
    graph = tf.compat.v1.get_default_graph()
    before = list(graph.get_collection_ref(_LAST))
    graph.get_collection_ref(_LAST)[:] = []
    try:
        yield
    finally:
        graph.get_collection_ref(_LAST)[:] = before


def set_last_collective(y: Any) -> None:
    """Let the next collective of the graph under construction wait for that which gives `y`."""
    tf.compat.v1.get_default_graph().get_collection_ref(_LAST)[:] = [y.op]


def _in_graph_on_host(call_site: CallSite, x: Any, all_passes: AllPasses) -> Any:
    """TensorFlow brings the tensor to the host, and the result back to where it is used."""
    call, mismatch = call_site.prepared(call_site.communicator.mpi_transport), MismatchInGraph()
    shape, dtype, _ = call_site.result

    def run(send: np.ndarray) -> list[np.ndarray]:
        send = np.ascontiguousarray(send)
        receive, address = result_memory().array(*call_site.result)
        call.execute(send.ctypes.data, address)
        return [receive]

    caught = mismatch.caught(run, lambda: [np.zeros(shape, dtype)])
    y, failed = tf.numpy_function(caught, [x], [x.dtype, tf.bool])
    all_passes.convert(y.op, 1, [None])
    y.set_shape(shape)
    return mismatch.checked([y], failed)[0]


def _in_graph(call_site: CallSite, x: Any, placement: Placement, all_passes: AllPasses) -> Any:
    """The tensor is carried from where TensorFlow has it when the graph runs."""
    shape, mismatch = call_site.request.receive_shape, MismatchInGraph()
    caught = mismatch.caught(
        lambda tensor: [run_eagerly(call_site, tensor)], lambda: [tf.zeros(shape, x.dtype)]
    )
    with tf.device(placement.device):
        y, failed = tf.py_function(caught, [x], [x.dtype, tf.bool])
    all_passes.convert(y.op, 1, [None])
    y.set_shape(shape)
    return mismatch.checked([y], failed)[0]

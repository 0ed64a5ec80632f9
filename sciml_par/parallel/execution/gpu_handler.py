"""What a compiled program on a GPU does at a collective."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sciml_par.errors import InputError
from sciml_par.parallel.groups.call_site import CallSite

GpuHandler = Callable[[int, int, int], None]
"""Takes (send, receive, stream), addresses in the GPU's memory."""


def gpu_handler(call_site: CallSite, *, on_host: bool = False) -> GpuHandler:
    """How the collective at `call_site` is carried out from a GPU.

    By NCCL, enqueued on the program's own stream, which waits for nothing. Where the ranks have no
    NCCL, where NCCL does not have the element type, or with `on_host`: by MPI, with a copy to the
    host before and a copy back after it, for both of which the program has to wait.
    """
    nccl = call_site.communicator.nccl_transport
    if nccl is not None and not on_host and nccl.carries(call_site.request):
        return call_site.prepared(nccl).execute
    if call_site.communicator.gpu is None:
        return _refuse
    return _through_the_host(call_site)


def _through_the_host(call_site: CallSite) -> GpuHandler:
    gpu, request = call_site.communicator.gpu, call_site.request
    assert gpu is not None
    call = call_site.prepared(call_site.communicator.mpi_transport)
    send_bytes = request.count * request.element.size
    receive_bytes = math.prod(request.receive_shape) * request.element.size
    # Made once: they live as long as the program, which may run a million times.
    sent = np.empty(send_bytes, np.uint8)
    received = np.empty(receive_bytes, np.uint8)

    def handler(send: int, receive: int, stream: int) -> None:
        gpu.copy_to_host(sent.ctypes.data, send, send_bytes, stream)
        gpu.synchronize(stream)
        call.execute(sent.ctypes.data, received.ctypes.data)
        gpu.copy_from_host(receive, received.ctypes.data, receive_bytes, stream)
        gpu.synchronize(stream)

    return handler


def _refuse(send: int, receive: int, stream: int) -> None:
    raise InputError(
        "A collective stands in a function that XLA compiles for a GPU, which needs CuPy: "
        "pip install 'sciml-par[gpu]', or leave jit_compile out."
    )

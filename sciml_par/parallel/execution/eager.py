"""Collectives on eager tensors; small allreduces in host memory by a shorter way.

The general way creates several objects per call, and a tensor from each array. That takes longer
than the transfer of a kilobyte.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par._tensorflow import is_recorded, tf
from sciml_par.parallel.groups.call_site import CallSite
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import current_world
from sciml_par.parallel.requests.element_type import ELEMENT_TYPES
from sciml_par.parallel.requests.reduce_op import Adasum, ReduceOp, check_reducible
from sciml_par.parallel.requests.request import Allreduce, Request
from sciml_par.parallel.tensors.memory import (
    HOST_MEMORY,
    eager_tensor,
    empty,
    has_gpus,
    kind_of_memory,
    tensor_on,
    view,
)

_CALLS_KEPT = 4096
"""Call sites kept per group, for the general and for the shorter way."""


def reduced_at_once(x: Any, op: ReduceOp, communicator: Communicator | None) -> Any:
    """Return the allreduce of an eager tensor or an array; None if it must take the general way."""
    if not tf.executing_eagerly() or is_recorded():
        return None
    group = current_world().communicator if communicator is None else communicator
    if not isinstance(group, Communicator) or not isinstance(op, ReduceOp):
        return None
    key: tuple[Any, tuple[int, ...], ReduceOp]
    kind = type(x)
    if kind is np.ndarray:
        key = (x.dtype, x.shape, op)
    elif kind is eager_tensor():
        key = (x.dtype.name, tuple(x.shape.as_list()), op)
    else:
        return None
    carry = group.calls_at_once.get(key) or _prepared(group, *key)
    if carry is None:
        return None
    if kind is not np.ndarray:
        source = view(x)
        return tensor_on(carry(source.address))
    flags = x.flags
    return tensor_on(carry(x.ctypes.data)) if flags.c_contiguous and flags.aligned else None


def _prepared(group: Communicator, dtype: Any, shape: tuple[int, ...], op: ReduceOp) -> Any:
    """Return a function that reduces such tensors, given their address, and keep it; or None."""
    name = dtype if isinstance(dtype, str) else dtype.name if dtype.isnative else ""
    # An Adasum is several collectives.
    general = group.size == 1 or group.nccl_transport is not None or has_gpus()
    if general or name not in ELEMENT_TYPES or 0 in shape or op is Adasum:
        return None
    check_reducible(op, name, where="allreduce")
    if len(group.calls_at_once) >= _CALLS_KEPT:
        group.calls_at_once.clear()
    carry = shared_call_site(group, Allreduce(name, shape, op)).carry
    group.calls_at_once[dtype, shape, op] = carry
    return carry


def run_eagerly(call_site: CallSite, x: Any) -> Any:
    """Carry out a collective on an eager tensor, in its memory (collective)."""
    nccl = call_site.communicator.nccl_transport
    kind = HOST_MEMORY if nccl is None and not has_gpus() else kind_of_memory(x)
    if nccl is not None and kind == nccl.memory and nccl.carries(call_site.request):
        y = empty(call_site.receive_shape, x.dtype, x.backing_device)
        # In a Python function of a graph, `device` says CPU of a tensor in the GPU's memory, so the
        # memory is asked for.
        if kind_of_memory(y) == nccl.memory:
            # `view` waits for TensorFlow's kernels. TensorFlow does not know NCCL's stream, so this
            # waits.
            source, target = view(x), view(y)
            call_site.prepared(nccl).execute(source.address, target.address, nccl.stream)
            nccl.wait()
            return y
    if kind == HOST_MEMORY:
        return from_host(call_site, x)
    with tf.device("/CPU:0"):
        x_on_host = tf.identity(x)
    y = from_host(call_site, x_on_host)
    with tf.device(x.backing_device):
        return tf.identity(y)


def from_host(call_site: CallSite, x: Any) -> Any:
    """Carry out a collective on an eager tensor in host memory (collective)."""
    source = view(x)
    return tensor_on(call_site.carry(source.address))


def shared_call_site(communicator: Communicator, request: Request) -> CallSite:
    """Return the call site that eager calls with equal requests share."""
    call_sites = communicator.call_sites
    call_site = call_sites.get(request)
    if call_site is None:
        if len(call_sites) >= _CALLS_KEPT:
            call_sites.clear()
        call_site = call_sites[request] = CallSite(communicator, request)
    return call_site

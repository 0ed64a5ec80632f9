"""Eager allreduces between host memory, by the shortest way: what has been checked is only carried.

The way that serves all contexts makes several objects a call, and a tensor of each array. That
takes more time than the transfer of a kilobyte.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par._tensorflow import is_recorded, tf
from sciml_par.parallel.execution.dispatch import shared_call_site
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import current_world
from sciml_par.parallel.requests.element_type import ELEMENT_TYPES
from sciml_par.parallel.requests.reduce_op import Adasum, ReduceOp, check_reducible
from sciml_par.parallel.requests.request import Allreduce
from sciml_par.parallel.tensors.buffer_pool import result_memory
from sciml_par.parallel.tensors.memory import eager_tensor, has_gpus, tensor_on, view

_CALLS_KEPT = 4096


def reduced_at_once(x: Any, op: ReduceOp, communicator: Communicator | None) -> Any:
    """Return the allreduce of an eager tensor or an array; None where it takes the general way.

    Which of the two a rank takes is its own choice: both make the same request (collective).
    """
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
        return carry(source.address)
    flags = x.flags
    return carry(x.ctypes.data) if flags.c_contiguous and flags.aligned else None


def _prepared(group: Communicator, dtype: Any, shape: tuple[int, ...], op: ReduceOp) -> Any:
    """Return what carries such tensors from their address, kept for the next ones; or None."""
    name = dtype if isinstance(dtype, str) else dtype.name if dtype.isnative else ""
    # A GPU's tensors have to be looked for, and an Adasum is several collectives.
    general = group.size == 1 or group.nccl_transport is not None or has_gpus()
    if general or name not in ELEMENT_TYPES or 0 in shape or op is Adasum:
        return None
    check_reducible(op, name, where="allreduce")
    site = shared_call_site(group, Allreduce(name, shape, op))
    call, memory = site.prepared(group.mpi_transport), result_memory().array
    shape, kind, nbytes = site.result

    def carry(address: int) -> Any:
        result, target = memory(shape, kind, nbytes)
        call.execute(address, target)
        return tensor_on(result)

    if len(group.calls_at_once) >= _CALLS_KEPT:
        group.calls_at_once.clear()
    group.calls_at_once[dtype, site.request.shape, op] = carry
    return carry

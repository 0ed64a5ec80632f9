"""The internals of `sciml_par.parallel` that several tests use, imported in one place."""

# ruff: noqa: F401

from __future__ import annotations

from sciml_par.parallel.execution.xla_call_frame import one_tensor
from sciml_par.parallel.execution.xla_custom_call import Bridge, bridge
from sciml_par.parallel.execution.xla_ffi import (
    FAILED_PRECONDITION,
    TESTED_VERSIONS,
    ForeignCalls,
    UnavailableError,
    c_function,
    foreign_calls,
)
from sciml_par.parallel.groups.call_site import CallSite, PreparedCall
from sciml_par.parallel.groups.mailbox import (
    Announced,
    Left,
    Mailbox,
    OrderDigest,
    Present,
    Waiting,
)
from sciml_par.parallel.requests.element_type import ELEMENT_TYPES, element_type
from sciml_par.parallel.requests.request import (
    Allgather,
    Allreduce,
    Alltoall,
    Announcement,
    Broadcast,
    Kind,
    Reducescatter,
    Request,
    even_rows,
)
from sciml_par.parallel.requests.signature import Signature
from sciml_par.parallel.tensors.memory import HOST_MEMORY, kind_of_memory, tensor_on, view
from sciml_par.parallel.transports.cupy_binding import BindingError, Gpu, Nccl, load_gpu, load_nccl
from sciml_par.parallel.transports.mpi import MPITransport
from sciml_par.parallel.transports.nccl import CUDA_MEMORY, NCCLTransport

"""The binding to NCCL and the CUDA runtime by CuPy, on raw addresses.

No other file depends on CuPy. Another binding (such as nccl4py) would replace `Gpu`, `Nccl`, `Link`
and their `load_` functions.

Addresses, streams and events are plain integers. Every call on a stream only enqueues, except
`Gpu.synchronize`. Errors of the libraries become a `BindingError`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from sciml_par.errors import SciMLParError
from sciml_par.parallel.requests.element_type import ElementType
from sciml_par.parallel.requests.reduce_op import Average, Max, Min, Product, ReduceOp, Sum

OLDEST_NCCL = (2, 18)
"""The first NCCL that can split a communicator."""

_OPERATIONS = {Sum: "SUM", Average: "AVG", Min: "MIN", Max: "MAX", Product: "PROD"}
_NON_BLOCKING = 1  # cudaStreamNonBlocking
_NO_TIMING = 2  # cudaEventDisableTiming
_NOT_READY = 600  # cudaErrorNotReady


class BindingError(SciMLParError):
    """CUDA or NCCL has reported an error."""


class MissingBindingError(SciMLParError):
    """CuPy, NCCL or the GPU cannot be used here, for the reason in the text."""


class Gpu:
    """This process's GPU: streams, events and copies."""

    def __init__(self, runtime: Any, index: int = 0) -> None:
        self._cuda = runtime
        self._index = index

    def name(self) -> str:
        """Return the driver's name, as "NVIDIA H100"."""
        found = _called("cudaGetDeviceProperties", self._cuda.getDeviceProperties, self._index)
        name: bytes = found["name"]
        return name.decode()

    def use(self) -> None:
        """Make this GPU that of the calling thread; a thread starts with the first one."""
        if self._index:
            _called("cudaSetDevice", self._cuda.setDevice, self._index)

    def new_stream(self) -> int:
        """Return a stream that does not wait for others."""
        self.use()
        return int(_called("cudaStreamCreate", self._cuda.streamCreateWithFlags, _NON_BLOCKING))

    def synchronize(self, stream: int) -> None:
        """Wait until all work on `stream` is done."""
        _called("cudaStreamSynchronize", self._cuda.streamSynchronize, stream)

    def new_event(self) -> int:
        """Return a mark (event) for streams."""
        self.use()
        return int(_called("cudaEventCreate", self._cuda.eventCreateWithFlags, _NO_TIMING))

    def record(self, event: int, stream: int) -> None:
        """Set the mark behind the present work of `stream`."""
        _called("cudaEventRecord", self._cuda.eventRecord, event, stream)

    def has_passed(self, event: int) -> bool:
        """Return whether the work before the mark is done; true of a mark that was never set."""
        # Unlike CuPy's other calls it gives the error back, because "not yet" is one.
        code = int(_called("cudaEventQuery", self._cuda.eventQuery, event))
        if code != _NOT_READY:
            _called("cudaEventQuery", self._cuda.check_status, code)
        return code == 0

    def copy_to_host(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy from the GPU."""
        copy, kind = self._cuda.memcpyAsync, self._cuda.memcpyDeviceToHost
        _called("cudaMemcpyAsync", copy, target, source, nbytes, kind, stream)

    def copy_from_host(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy to the GPU."""
        copy, kind = self._cuda.memcpyAsync, self._cuda.memcpyHostToDevice
        _called("cudaMemcpyAsync", copy, target, source, nbytes, kind, stream)


class Nccl:
    """The library: its version, its constants, and communicators."""

    def __init__(self, nccl: Any) -> None:
        self._nccl = nccl

    @property
    def version(self) -> tuple[int, int, int]:
        """The version of the library, (major, minor, patch)."""
        code = int(self._nccl.get_version())  # major · 10⁴ + minor · 10² + patch since 2.9
        return code // 10000, code // 100 % 100, code % 100

    def datatype(self, element: ElementType) -> int | None:
        """Return NCCL's number for an element type, or None."""
        if element.nccl_name is None:
            return None
        number: int | None = getattr(self._nccl, f"NCCL_{element.nccl_name}", None)
        return number

    def operation(self, op: ReduceOp) -> int:
        """Return NCCL's number for a reduction."""
        number: int = getattr(self._nccl, f"NCCL_{_OPERATIONS[op]}")
        return number

    def new_id(self) -> bytes:
        """Return the id that the ranks of a new communicator must share."""
        return bytes(_called("ncclGetUniqueId", self._nccl.get_unique_id))

    def connect(self, size: int, shared_id: bytes, rank: int) -> Link:
        """Join `size` ranks (collective; it waits for all of them)."""
        make = self._nccl.NcclCommunicator
        return Link(self._nccl, _called("ncclCommInitRank", make, size, shared_id, rank))


class Link:
    """One communicator: NCCL's calls, enqueued on a stream."""

    def __init__(self, nccl: Any, communicator: Any) -> None:
        self._nccl = nccl
        self._communicator = communicator
        self.allreduce = communicator.allReduce
        """(send, receive, count, datatype, op, stream)"""
        self.reduce = communicator.reduce
        """(send, receive, count, datatype, op, root, stream)"""
        self.broadcast = communicator.broadcast
        """(send, receive, count, datatype, root, stream)"""
        self.allgather = communicator.allGather
        """(send, receive, sent count, datatype, stream)"""
        self.reducescatter = communicator.reduceScatter
        """(send, receive, received count, datatype, op, stream)"""
        self.send = communicator.send
        """(send, count, datatype, peer, stream)"""
        self.receive = communicator.recv
        """(receive, count, datatype, peer, stream)"""

    @contextlib.contextmanager
    def group(self) -> Iterator[None]:
        """Combine the calls inside into one, so that none waits for another."""
        self._nccl.groupStart()
        try:
            yield
        finally:
            self._nccl.groupEnd()

    def split(self, color: int, key: int) -> Link:
        """Return the ranks with the same color, ordered by key (collective)."""
        split = self._communicator.commSplit
        return Link(self._nccl, _called("ncclCommSplit", split, color, key))

    def error(self) -> str | None:
        """Return the error of enqueued work, or None."""
        try:
            self._communicator.check_async_error()
        except Exception as error:
            return str(error)
        return None

    def abort(self) -> None:
        """End the communicator at once, with its work. It cannot be used again."""
        self._communicator.abort()


def _called(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return a library's result, or raise a `BindingError`."""
    try:
        return function(*arguments)
    except Exception as error:
        raise BindingError(f"{name} failed: {error}.") from error


def load_gpu(index: int = 0) -> Gpu:
    """Return GPU `index` of those that this process sees, or raise `MissingBindingError`."""
    try:
        from cupy.cuda import runtime
    except ImportError as error:
        raise _without_cupy(error) from None
    try:
        count = runtime.getDeviceCount()
    except Exception as error:
        raise MissingBindingError(f"CUDA finds no GPU ({error})") from None
    if not count:
        raise MissingBindingError("CUDA finds no GPU")
    gpu = Gpu(runtime, index)
    gpu.use()  # NCCL connects the GPU of the thread that asks for it
    return gpu


def load_nccl() -> Nccl:
    """Return NCCL, or raise `MissingBindingError`."""
    try:
        from cupy.cuda import nccl
    except ImportError as error:
        raise _without_cupy(error) from None
    if not nccl.available:
        raise MissingBindingError("CuPy finds no NCCL: pip install 'sciml-par[gpu]'")
    library = Nccl(nccl)
    if library.version < OLDEST_NCCL:
        found, needed = (".".join(map(str, v)) for v in (library.version, OLDEST_NCCL))
        raise MissingBindingError(f"NCCL {found} is too old, {needed} is the oldest that serves")
    return library


def _without_cupy(error: ImportError) -> MissingBindingError:
    reason = (str(error).strip() or "no reason given").splitlines()[0]
    return MissingBindingError(f"CuPy cannot be imported ({reason}): pip install 'sciml-par[gpu]'")

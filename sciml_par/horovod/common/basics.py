"""Start and end of the job, and questions about its ranks, by Horovod's names."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sciml_par import parallel
from sciml_par.errors import CollectiveMismatchError, InputError, SciMLParError
from sciml_par.horovod.common.process_sets import (
    ProcessSet,
    add_process_set,
    forget,
    global_process_set,
)
from sciml_par.parallel import Adasum, Average, Max, Min, Product, ReduceOp, Sum

if TYPE_CHECKING:
    from mpi4py import MPI


def _question(answer: Callable[[], Any]) -> Callable[[Any], Any]:
    """Return the method with this answer."""

    def ask(self: Any) -> Any:
        return answer()

    ask.__name__, ask.__doc__ = answer.__name__, answer.__doc__
    return ask


class HorovodBasics:
    """Start, end, and the number of this process.

    Parameters
    ----------
    pkg_path, args : ignored; Horovod finds its library with them.
    """

    Average: ReduceOp = Average
    Sum: ReduceOp = Sum
    Adasum: ReduceOp = Adasum
    Min: ReduceOp = Min
    Max: ReduceOp = Max
    Product: ReduceOp = Product

    def __init__(self, pkg_path: str, *args: Any) -> None:
        pass

    def init(
        self,
        comm: Sequence[int] | MPI.Comm | None = None,
        process_sets: Sequence[ProcessSet] | str | None = None,
    ) -> None:
        """Join the ranks of this job (collective). A second call does nothing.

        All GPUs stay visible, because programs choose theirs by `local_rank()` afterwards.

        Parameters
        ----------
        comm : an MPI communicator, or a list of ranks of MPI_COMM_WORLD; only these may call
            `init`. All ranks by default.
        process_sets : groups of ranks to register. "dynamic" makes no difference: groups can be
            added at any time.

        Raises
        ------
        InputError
            This rank is not in `comm`, or a set cannot be registered; `init` can then be called
            again. Or as for `sciml_par.init`.

        Notes
        -----
        From now on the ranks compare their requests at every collective, and a mismatch raises a
        `tf.errors.FailedPreconditionError`. With SCIML_PAR_CHECK=first they compare only new
        requests, which is faster.
        """
        started = not parallel.is_initialized()
        if started:
            parallel.init(_communicator(comm), pin_gpu=False, **_options(os.environ))
            _start_timeline(os.environ)
        elif parallel.current_world().communicator.mismatch_error is not CollectiveMismatchError:
            return  # the facade has been initialized
        _compare_always(os.environ)
        sets = () if isinstance(process_sets, str) else process_sets or ()
        try:
            for process_set in sets:
                if process_set is not global_process_set:
                    add_process_set(process_set)
        except SciMLParError:
            if started:
                self.shutdown()
            raise

    def shutdown(self) -> None:
        """Leave the ranks of this job."""
        if not parallel.is_initialized():
            return
        for process_set in parallel.current_world().process_sets.values():
            forget(process_set)
        parallel.shutdown()

    def is_initialized(self) -> bool:
        """Return whether `init` has run and `shutdown` has not."""
        return parallel.is_initialized()

    def start_timeline(self, file_path: str, mark_cycles: bool = False) -> None:
        """Record all collectives from now on; `mark_cycles` is ignored (collective)."""
        parallel.start_timeline(file_path, overwrite=True)

    def stop_timeline(self) -> None:
        """End the recording (collective)."""
        parallel.stop_timeline()

    size = _question(parallel.size)
    local_size = _question(parallel.local_size)
    cross_size = _question(parallel.cross_size)
    rank = _question(parallel.rank)
    local_rank = _question(parallel.local_rank)
    cross_rank = _question(parallel.cross_rank)
    is_homogeneous = _question(parallel.is_homogeneous)

    def mpi_threads_supported(self) -> bool:
        """Return whether several threads of a rank may call MPI at once."""
        parallel.current_world()
        from mpi4py import MPI

        return bool(MPI.Query_thread() == MPI.THREAD_MULTIPLE)

    def mpi_built(self) -> bool:
        """Return True: MPI connects the ranks, and transfers tensors in host memory."""
        return True

    mpi_enabled = mpi_built

    def gloo_built(self) -> bool:
        """Return False: Gloo, DDL, oneCCL and ROCm are not used."""
        return False

    gloo_enabled = ddl_built = ccl_built = rocm_built = gloo_built

    def nccl_built(self) -> int:
        """Return the version of the NCCL that can be loaded, as 22703 for 2.27.3, or 0."""
        from sciml_par.parallel.transports.cupy_binding import MissingBindingError, load_nccl

        try:
            major, minor, patch = load_nccl().version
        except MissingBindingError:
            return 0
        return major * 10000 + minor * 100 + patch

    def cuda_built(self) -> bool:
        """Return whether this TensorFlow computes on NVIDIA's GPUs."""
        from sciml_par._tensorflow import tf

        return bool(tf.test.is_built_with_cuda())


def _communicator(comm: Sequence[int] | MPI.Comm | None) -> MPI.Comm | None:
    """Return the MPI communicator of the ranks that take part, None for all (collective)."""
    if comm is None or hasattr(comm, "Get_group"):
        return comm  # type: ignore[return-value]
    ranks = list(comm)
    if not ranks:
        return None
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if sorted(set(ranks)) != sorted(ranks) or not set(ranks) <= set(range(world.size)):
        raise InputError(
            f"init: expected comm to be different ranks among 0..{world.size - 1}; got {ranks}."
        )
    if world.rank not in ranks:
        raise InputError(
            f"init: rank {world.rank} of MPI_COMM_WORLD is not in comm={ranks}: only the ranks in "
            f"it may call init. Start fewer ranks, or do not call init on the others."
        )
    return world.Create_group(world.Get_group().Incl(ranks))


def _compare_always(environment: Mapping[str, str]) -> None:
    """Find mismatches as Horovod does, and raise its kind of error (collective)."""
    from sciml_par.horovod.common.tensorflow_errors import MismatchError

    everyone = parallel.current_world().communicator
    always = environment.get("SCIML_PAR_CHECK", "") != "first"
    # A rank that compares alone would wait forever.
    always = any(everyone.allgather_object(always))
    for group in everyone.all_groups:
        group.mismatch_error = MismatchError
        group.check_always = group.check_always or always


def _options(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of `init` in Horovod's variables, unless sciml_par's are set."""
    options: dict[str, Any] = {}
    warning = _seconds(environment, "HOROVOD_STALL_CHECK_TIME_SECONDS")
    limit = _seconds(environment, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS")
    if environment.get("HOROVOD_STALL_CHECK_DISABLE", "0") not in ("", "0"):
        warning = limit = math.inf
    # Horovod leaves TensorFlow's setting as it is.
    options |= {"stall_warning": warning, "stall_limit": limit, "tensor_float_32": "unchanged"}
    return {
        name: value
        for name, value in options.items()
        if value is not None and not environment.get(f"SCIML_PAR_{name.upper()}")
    }


def _start_timeline(environment: Mapping[str, str]) -> None:
    """Record a timeline if rank 0's environment asks for it (collective)."""
    path = environment.get("HOROVOD_TIMELINE", "")
    if environment.get("SCIML_PAR_TIMELINE") or path.lower() == "dynamic":
        path = ""
    path = parallel.current_world().communicator.broadcast_object(path)
    if path:
        parallel.start_timeline(path, overwrite=True)  # as Horovod does


def _seconds(environment: Mapping[str, str], variable: str) -> float | None:
    """Return a number of seconds; None if it is missing or 0, Horovod's "never"."""
    text = environment.get(variable, "")
    try:
        return float(text or 0) or None
    except ValueError:
        raise InputError(f"{variable}: expected a number of seconds; got {text!r}.") from None

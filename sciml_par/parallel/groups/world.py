"""The ranks of this job. `world` is the one piece of global state in the package."""

from __future__ import annotations

import atexit
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from sciml_par._tensorflow import import_module
from sciml_par.errors import InputError, NotInitializedError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.mailbox import Left, Mailbox
from sciml_par.parallel.startup.cpu_threads import (
    cores_of_this_process,
    limit_threads,
    requested_threads,
    share_of_cores,
)
from sciml_par.parallel.startup.gpu_choice import (
    VisibleGpu,
    choose_gpus,
    choose_in_tensorflow,
    pin,
    sharing_is_allowed,
    visible_gpus,
)
from sciml_par.parallel.startup.nccl import GpuTransport, set_up_transport
from sciml_par.parallel.startup.tensor_float_32 import (
    requested_tensor_float_32,
    set_tensor_float_32,
)
from sciml_par.parallel.supervision.end_job import (
    FailureReporter,
    abort_gpus,
    end_job,
    end_processes,
)
from sciml_par.parallel.supervision.forked_child import (
    finalize_mpi_in_the_rank_only,
    watch_for_forks,
)
from sciml_par.parallel.supervision.sentinel_client import start_sentinel
from sciml_par.parallel.supervision.watchdog import Patience, Watchdog, write_error

if TYPE_CHECKING:
    from mpi4py import MPI

    from sciml_par.parallel.timeline.timeline import Timeline


@dataclass
class World:
    """All ranks of the job.

    Attributes
    ----------
    communicator : the group of all ranks.
    host : the group of the ranks on this host, in shared memory.
    alone : the group of this rank only.
    hosts : the host of each rank, by the number of the first rank on it, [P].
    threads : the cores that this rank may keep busy.
    gpu : the GPU that this rank sees, as CUDA_VISIBLE_DEVICES names it, or None.
    transport : how tensors travel between the ranks' GPUs.
    process_sets : what the Horovod facade keeps of the groups that it was asked for, by number.
    timeline : this rank's part in the recording of a timeline, or None.
    process : the process that is this rank; a child made by a fork is not.
    """

    communicator: Communicator
    host: Communicator
    alone: Communicator
    hosts: list[int]
    threads: int
    gpu: str | None
    transport: GpuTransport
    failures: FailureReporter
    mailbox: Mailbox
    watchdog: Watchdog | None
    process_sets: dict[int, Any]
    timeline: Timeline | None = None
    process: int = field(default_factory=os.getpid)


world: World | None = None


def init(
    comm: MPI.Comm | None = None,
    *,
    quiet: bool = True,
    threads: int | None = None,
    timeline: str | os.PathLike[str] | None = None,
    stall_warning: float | None = None,
    stall_limit: float | None = None,
    pin_gpu: bool = True,
    tensor_float_32: bool | Literal["unchanged"] | None = None,
) -> None:
    """Join the ranks of this job; call it before anything touches TensorFlow (collective).

    It starts MPI, lets each rank see one GPU where there are any, gives each rank its share of
    the cores, and makes the ranks fail together. A second call does nothing.

    Parameters
    ----------
    comm : the ranks that take part, MPI_COMM_WORLD by default.
    quiet : import TensorFlow without its start-up messages.
    threads : the cores that this rank may keep busy. By default OMP_NUM_THREADS, or else the
        cores of the host divided by the ranks on it.
    timeline : a file to record all collectives in, from now on; see `start_timeline`.
    stall_warning : after how many seconds a collective that stands still is reported; 60 by
        default.
    stall_limit : after how many seconds it ends the job; never by default.
    pin_gpu : hide all GPUs but one from this rank. With False it sees them all, and only
        TensorFlow is told which of them to use: programs that choose the GPU number
        `local_rank()` themselves find it.
    tensor_float_32 : let GPUs multiply float32 matrices with the ten bits of TensorFloat-32, which
        is faster; off by default, because second derivatives do not survive it. "unchanged" leaves
        TensorFlow's own setting, which is on. What the program sets after `init` holds.

    Raises
    ------
    InputError
        No MPI can be found, more ranks than GPUs on a host, or a bad environment variable.
    BindingError
        NCCL cannot connect the ranks' GPUs.

    Notes
    -----
    Environment: OMP_NUM_THREADS; SCIML_PAR_SHARE_GPUS=1 lets ranks share a GPU;
    SCIML_PAR_TRANSPORT=mpi carries tensors between GPUs by MPI through host memory, and =nccl
    insists on NCCL; SCIML_PAR_CHECK=always compares the ranks' collectives at every execution;
    SCIML_PAR_SENTINEL=0 starts no process that names a rank that is lost;
    SCIML_PAR_STALL_WARNING, SCIML_PAR_STALL_LIMIT, SCIML_PAR_TIMELINE and
    SCIML_PAR_TENSOR_FLOAT_32 (0, 1 or unchanged) are the options of these names where the program
    does not give them.
    """
    global world  # noqa: PLW0603
    if world is not None:
        return
    if threads is not None and threads < 1:
        raise InputError(f"init: expected threads ≥ 1 or None; got {threads}.")
    patience = _patience(os.environ, stall_warning, stall_limit)
    float_32 = requested_tensor_float_32(os.environ, tensor_float_32)
    check_always = os.environ.get("SCIML_PAR_CHECK", "") == "always"
    mpi = _load_mpi()
    everyone = Communicator(comm or mpi.COMM_WORLD)
    # A rank that compares alone would wait for ever.
    everyone.check_always = any(everyone.control.allgather(check_always))
    by_host = everyone.mpi.Split_type(mpi.COMM_TYPE_SHARED, everyone.rank)
    host = Communicator(by_host, name="host", world=everyone)
    alone = everyone.split(everyone.rank)
    by_host.Free()
    hosts = everyone.control.allgather(host.world_ranks[0])
    mailbox = Mailbox(everyone.control)
    failures = FailureReporter(everyone, mailbox)
    failures.install()
    threads = threads or requested_threads(os.environ) or _fair_share(host)
    limit_threads(threads, os.environ)
    gpu, index = _choose_gpu(everyone, host, pin_gpu=pin_gpu)
    name = gpu.entry if gpu else None
    nowhere = GpuTransport("", surprising=False)
    world = World(
        everyone,
        host,
        alone,
        hosts,
        threads,
        name,
        nowhere,
        failures,
        mailbox,
        watchdog=None,
        process_sets={},
    )
    watch_for_forks(_present_world)
    world.watchdog = _start_watchdog(world, patience)
    everyone.sentinel = start_sentinel(
        everyone, host, os.environ, lambda: end_processes(everyone, 1)
    )
    atexit.register(shutdown)
    world.transport = _connect_gpus(world, gpu, index)
    import_module("tensorflow", quiet=quiet)
    set_tensor_float_32(float_32)
    if gpu is not None and not pin_gpu:
        choose_in_tensorflow(index)
    _start_timeline(everyone, timeline or os.environ.get("SCIML_PAR_TIMELINE"))


def shutdown() -> None:
    """Leave the ranks of this job (local). Runs by itself when the program ends.

    A rank that still waits for this one in a collective ends the job with a message. In a child
    process made by a fork it does nothing.
    """
    global world  # noqa: PLW0603
    if world is None or world.process != os.getpid():
        return  # a child has no part in the messages of the rank that it is a copy of
    leaving, world = world, None
    atexit.unregister(shutdown)
    leaving.failures.uninstall()
    all_groups = leaving.communicator.all_groups
    # The watchdog still runs: should a rank be missing in what the GPU is at, it ends the job.
    for group in all_groups:
        if group.nccl_transport is not None:
            group.nccl_transport.finish()
    if leaving.watchdog is not None:
        leaving.watchdog.stop()
    abort_gpus(leaving.communicator)
    if leaving.timeline is not None:
        leaving.timeline.stop()
    leaving.mailbox.send(Left({group.identity: group.sequence for group in all_groups}))
    if leaving.communicator.sentinel is not None:
        leaving.communicator.sentinel.bye()


def current_world() -> World:
    """The ranks of this job, or `NotInitializedError`."""
    if world is None:
        raise NotInitializedError(
            "sciml_par has no ranks yet: call sciml_par.init() first, before any tensor is made."
        )
    return world


def _present_world() -> World | None:
    return world


def is_initialized() -> bool:
    """Whether `init` has run and `shutdown` has not (local)."""
    return world is not None


def _start_timeline(everyone: Communicator, path: str | os.PathLike[str] | None) -> None:
    """Record a timeline, if rank 0 is asked to (collective)."""
    asked = everyone.broadcast_object(None if path is None else os.fspath(path))
    if asked:
        from sciml_par.parallel.timeline.timeline import start_timeline  # it imports this module

        start_timeline(asked)


def _load_mpi() -> Any:
    try:
        finalize_mpi_in_the_rank_only()
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            "no MPI library was found: install one with pip install 'sciml-par[mpich]', or load "
            f"your cluster's MPI module ({reason})."
        ) from None
    return MPI


def _choose_gpu(
    everyone: Communicator, host: Communicator, *, pin_gpu: bool
) -> tuple[VisibleGpu | None, int]:
    """This rank's GPU, and its number among those that the rank sees from now on (collective)."""
    seen = visible_gpus(os.environ)
    visible = host.allgather_object(seen)
    share = any(host.allgather_object(sharing_is_allowed(os.environ)))
    name = socket.gethostname()
    gpu = everyone.attempt(lambda: choose_gpus(visible, host=name, share=share))[host.rank]
    pin(gpu, hide_others=pin_gpu)
    return gpu, 0 if pin_gpu or gpu is None else seen.index(gpu)


def _connect_gpus(of: World, gpu: VisibleGpu | None, index: int) -> GpuTransport:
    """Let the ranks exchange tensors between their GPUs, if they can (collective)."""
    everyone = of.communicator
    identity = f"{socket.gethostname()} {gpu.identity}" if gpu else None
    transport = set_up_transport(everyone, identity, os.environ, index)
    if transport.surprising and everyone.rank == 0:
        write_error(
            f"warning: tensors in GPU memory will be carried by MPI through the host, which is "
            f"slow. {transport.obstacle}."
        )
    of.host.take_gpus_from(everyone, color=of.host.world_ranks[0])
    of.alone.take_gpus_from(everyone, color=everyone.rank)
    return transport


def _fair_share(host: Communicator) -> int:
    mine = cores_of_this_process()
    return share_of_cores(mine, host.allgather_object(mine))


def _start_watchdog(of: World, patience: Patience) -> Watchdog | None:
    from mpi4py import MPI

    several_threads = MPI.Query_thread() == MPI.THREAD_MULTIPLE
    if of.communicator.size == 1 or not several_threads:
        return None
    watchdog = Watchdog(
        of.mailbox,
        lambda: list(of.communicator.all_groups),
        lambda message: end_job(of.communicator, message),
        patience,
    )
    watchdog.start()
    return watchdog


def _patience(
    environment: Mapping[str, str], warning: float | None, limit: float | None
) -> Patience:
    return Patience(
        warn_after=_seconds("stall_warning", warning, environment, Patience.warn_after),
        end_after=_seconds("stall_limit", limit, environment, Patience.end_after),
    )


def _seconds(
    option: str, given: float | None, environment: Mapping[str, str], default: float
) -> float:
    """The option as the program gives it, or else the user's environment, or else `default`."""
    variable = f"SCIML_PAR_{option.upper()}"
    where = f"init: {option}" if given is not None else variable
    text = str(given) if given is not None else environment.get(variable, "")
    try:
        seconds = float(text) if text else default
    except ValueError:
        seconds = -1.0
    if not seconds > 0:  # nor a NaN
        raise InputError(f"{where}: expected a number of seconds > 0; got {text!r}.")
    return seconds

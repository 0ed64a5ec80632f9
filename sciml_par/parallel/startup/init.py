"""Joining and leaving the ranks of a job: the module that knows every service."""

from __future__ import annotations

import atexit
import os
import socket
from typing import TYPE_CHECKING, Literal

from sciml_par._stderr import write_error
from sciml_par._tensorflow import import_module
from sciml_par.errors import InputError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.mailbox import Left, Mailbox
from sciml_par.parallel.groups.world import (
    GpuTransport,
    World,
    enter,
    is_initialized,
    leave,
    present_world,
)
from sciml_par.parallel.startup.cpu_threads import (
    cores_of_this_process,
    let_waiting_ranks_yield,
    limit_threads,
    requested_threads,
    share_of_cores,
)
from sciml_par.parallel.startup.gpu_choice import (
    SHARE,
    VisibleGpu,
    choose_gpus,
    choose_in_tensorflow,
    pin,
    visible_gpus,
)
from sciml_par.parallel.startup.launcher_environment import warn_of_copies
from sciml_par.parallel.startup.load_mpi import load_mpi
from sciml_par.parallel.startup.nccl import set_up_transport
from sciml_par.parallel.startup.options import (
    requested_host_timeout,
    requested_patience,
    requested_tensor_float_32,
    set_tensor_float_32,
)
from sciml_par.parallel.supervision.ctrl_c import watch_for_ctrl_c
from sciml_par.parallel.supervision.end_job import JobEnd, abort_gpus
from sciml_par.parallel.supervision.error_report import FailureReporter
from sciml_par.parallel.supervision.forked_child import before_mpi_ends, watch_for_forks
from sciml_par.parallel.supervision.order_check import difference_at_the_end
from sciml_par.parallel.supervision.sentinel_client import start_sentinel
from sciml_par.parallel.supervision.watchdog import Patience, Watchdog
from sciml_par.parallel.timeline.timeline import start_timeline

if TYPE_CHECKING:
    from mpi4py import MPI


def init(
    comm: MPI.Comm | None = None,
    *,
    quiet: bool = True,
    threads: int | None = None,
    timeline: str | os.PathLike[str] | None = None,
    stall_warning: float | None = None,
    stall_limit: float | None = None,
    host_timeout: float | None = None,
    pin_gpu: bool = True,
    tensor_float_32: bool | Literal["unchanged"] | None = None,
) -> None:
    """Join the ranks of this job; call it before anything touches TensorFlow (collective).

    It starts MPI, assigns each rank one of the GPUs and its share of the cores, and makes the ranks
    fail together. A second call does nothing.

    Parameters
    ----------
    comm : the ranks that take part, MPI_COMM_WORLD by default.
    quiet : import TensorFlow without its start-up messages.
    threads : the cores that this rank may keep busy. By default OMP_NUM_THREADS, or else the
        cores of the host divided by the ranks on it.
    timeline : the file in which to record all collectives from now on; see `start_timeline`.
    stall_warning : the seconds after which a stalled collective is reported; 60 by default.
    stall_limit : the seconds after which it ends the job; never by default.
    host_timeout : the seconds without an answer after which another host counts as lost, and the
        job ends on all hosts; 30 by default, at least 5, math.inf for never. Rank 0's counts.
    pin_gpu : hide all GPUs but one from this rank. With False all stay visible, for programs that
        choose the GPU number `local_rank()`, and only TensorFlow is limited to one.
    tensor_float_32 : let GPUs multiply float32 matrices with the ten bits of TensorFloat-32, which
        is faster; off by default, because it ruins second derivatives. "unchanged" leaves
        TensorFlow's setting, which is on. A setting of the program after `init` has precedence.

    Raises
    ------
    InputError
        No MPI is found, a rank has started this process, a host has more ranks than GPUs, or an
        environment variable is wrong.
    BindingError
        NCCL cannot connect the ranks' GPUs.

    Notes
    -----
    Environment: OMP_NUM_THREADS; SCIML_PAR_SHARE_GPUS=1 lets ranks share a GPU;
    SCIML_PAR_TRANSPORT=mpi carries tensors between GPUs by MPI through host memory, and =nccl
    insists on NCCL; SCIML_PAR_CHECK=always compares the ranks' collectives at every execution;
    SCIML_PAR_SENTINEL=0 starts no process that reports lost ranks; SCIML_PAR_NATIVE=0 carries short
    tensors without machine code and shared memory; SCIML_PAR_INTERFACE is the network interface of
    rank 0's host by which the hosts watch each other; SCIML_PAR_STALL_WARNING,
    SCIML_PAR_STALL_LIMIT, SCIML_PAR_HOST_TIMEOUT, SCIML_PAR_TIMELINE and SCIML_PAR_TENSOR_FLOAT_32
    (0, 1 or unchanged) replace options that the program does not give.
    """
    if is_initialized():
        return
    if threads is not None and threads < 1:
        raise InputError(f"init: expected threads ≥ 1 or None; got {threads}.")
    patience = requested_patience(os.environ, stall_warning, stall_limit)
    silence = requested_host_timeout(os.environ, host_timeout)
    float_32 = requested_tensor_float_32(os.environ, tensor_float_32)
    everyone = _all_ranks(comm, patience)
    world = _join(everyone, threads)
    gpu, index = _choose_gpu(everyone, world.host, pin_gpu=pin_gpu)
    world.gpu = gpu.entry if gpu else None
    enter(world)
    atexit.register(shutdown)
    before_mpi_ends(shutdown, world.mailbox.settle)
    warn_of_copies(os.environ)
    _supervise(world, patience, silence)
    world.transport = _connect_gpus(world, gpu, index)
    import_module("tensorflow", quiet=quiet)
    set_tensor_float_32(float_32)
    if gpu is not None and not pin_gpu:
        choose_in_tensorflow(index)
    path = timeline or os.environ.get("SCIML_PAR_TIMELINE")
    asked = everyone.broadcast_object(None if path is None else os.fspath(path))
    if asked:
        start_timeline(asked)


def shutdown() -> None:
    """Leave the ranks of this job. This runs automatically when the program ends.

    A rank that still waits for this one in a collective ends the job with a message. While a
    timeline is being recorded, it waits until all ranks have called it. In a child process made by
    a fork it does nothing.
    """
    world = present_world()
    if world is None or world.process != os.getpid():
        return  # a forked child must not touch its parent's messages
    leave()
    atexit.unregister(shutdown)
    world.failures.stop()
    groups = world.communicator.all_groups
    # The watchdog still runs: if a rank is missing in the GPU's work, it ends the job.
    for group in groups:
        if group.nccl_transport is not None:
            group.nccl_transport.finish()
    if world.watchdog is not None:
        world.watchdog.stop()
    abort_gpus(world.communicator)
    begun = {
        group.identity: (group.progress.sequence, group.progress.order_digest) for group in groups
    }
    world.mailbox.leave(Left(begun))
    if world.watchdog is not None:  # ranks that left before may have called other collectives
        world.mailbox.poll()
        for group in groups:
            difference = difference_at_the_end(group, world.mailbox.left)
            if difference is not None:
                world.job_end.with_message(difference)
    if world.sentinel is not None:
        world.sentinel.stop()
    if world.timeline is not None:
        world.timeline.close()  # this waits, after all ranks know that this one leaves


def _all_ranks(comm: MPI.Comm | None, patience: Patience) -> Communicator:
    """Return the group of all ranks (collective)."""
    let_waiting_ranks_yield(os.environ)
    mpi = load_mpi(os.environ, limit=patience.end_after)
    check_always = os.environ.get("SCIML_PAR_CHECK", "") == "always"
    everyone = Communicator(comm or mpi.COMM_WORLD)
    # A rank that compares alone would wait forever.
    everyone.check_always = any(everyone.control.allgather(check_always))
    return everyone


def _join(everyone: Communicator, threads: int | None) -> World:
    """Return this rank's world: all ranks, and those of its host (collective)."""
    by_host = everyone.mpi.Split(everyone.native.hosts[everyone.rank], everyone.rank)
    host = Communicator(by_host, name="host", world=everyone)
    by_host.Free()
    mailbox = Mailbox(everyone.control)
    atexit.register(mailbox.settle)  # before MPI is finalized, and after `shutdown`
    job_end = JobEnd(everyone)
    failures = FailureReporter(everyone, mailbox, job_end)
    threads = threads or requested_threads(os.environ)
    if not threads:
        mine = cores_of_this_process()
        threads = share_of_cores(mine, host.allgather_object(mine))
    limit_threads(threads, os.environ)
    return World(
        communicator=everyone,
        host=host,
        alone=everyone.split(everyone.rank),
        hosts=list(everyone.native.hosts),
        threads=threads,
        gpu=None,
        transport=GpuTransport("", surprising=False),
        failures=failures,
        mailbox=mailbox,
        job_end=job_end,
    )


def _supervise(world: World, patience: Patience, host_timeout: float) -> None:
    """Start the services that notice failures (collective)."""
    from mpi4py import MPI

    job_end, everyone = world.job_end, world.communicator
    watch_for_forks()
    if everyone.size > 1 and MPI.Query_thread() == MPI.THREAD_MULTIPLE:
        groups = lambda: list(everyone.all_groups)  # noqa: E731
        world.watchdog = Watchdog(world.mailbox, groups, job_end.with_message, patience)
        world.watchdog.start()
    world.sentinel = start_sentinel(
        everyone, world.host, os.environ, lambda: job_end.with_code(1), host_timeout=host_timeout
    )
    job_end.sentinel = world.sentinel
    if everyone.size > 1:
        watch_for_ctrl_c(everyone, world.mailbox, job_end)


def _choose_gpu(
    everyone: Communicator, host: Communicator, *, pin_gpu: bool
) -> tuple[VisibleGpu | None, int]:
    """Return this rank's GPU, and its number among the visible ones from now on (collective)."""
    seen = visible_gpus(os.environ)
    visible = host.allgather_object(seen)
    share = any(host.allgather_object(os.environ.get(SHARE, "0") not in ("", "0")))
    name = socket.gethostname()
    gpu = everyone.attempt(lambda: choose_gpus(visible, host=name, share=share))[host.rank]
    pin(gpu, hide_others=pin_gpu)
    return gpu, 0 if pin_gpu or gpu is None else seen.index(gpu)


def _connect_gpus(of: World, gpu: VisibleGpu | None, index: int) -> GpuTransport:
    """Return the transport between the ranks' GPUs (collective)."""
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

"""One process of the check."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from pathlib import Path
from typing import Any

from gpu.job import Job
from gpu.machine import look
from gpu.record import Budget, Found, Recorder

_MEETING_SECONDS = 60.0
_LOOP_STEPS = 1000
_SHARED_LOOP_STEPS = 40  # ranks that share a GPU take turns on it, a millisecond or more each
_CALLS, _SHARED_CALLS = 100, 10


def work(job: Job) -> None:
    """Do a job, and write what was found."""
    faulthandler.register(signal.SIGTERM, placement=True)  # says where it hung when it is ended
    budget = Budget(job.seconds)
    out = Path(job.out)
    if job.task == "look":
        Recorder(out, job.stage, budget).check(job.part, lambda: look(job.part))
        return
    # JAX would take three quarters of the GPU's memory, and leave NCCL and the others without.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    arena, rank_out = _arena(job, out)
    recorder = Recorder(rank_out, job.stage, budget, arena.all, job.done)
    recorder.check("set-up", lambda: _set_up(arena))
    _run(job, arena, recorder)
    arena.finish()


def _run(job: Job, arena: Any, recorder: Recorder) -> None:
    from gpu import checks, measure

    on_gpu = not job.rehearse
    sharing = job.task == "sharing"
    checks.check_values(arena, recorder)
    steps = _SHARED_LOOP_STEPS if sharing else _LOOP_STEPS
    checks.check_order(arena, recorder, steps=steps, on_gpu=on_gpu)
    if arena.size == 1:
        checks.check_errors(arena, recorder)
    if not sharing:
        measure.check_waiting(arena, recorder, on_gpu=on_gpu)
    sizes = measure.FEW_SIZES if sharing or job.rehearse else measure.SIZES
    calls = _SHARED_CALLS if sharing else _CALLS
    measure.check_speed(arena, recorder, sizes, most_calls=calls)


def _set_up(arena: Any) -> Found:
    """One number in each way, so that each is known to work at all."""
    import numpy as np

    from sciml_par.parallel.requests.reduce_op import Sum
    from sciml_par.parallel.requests.request import Allreduce

    for way in arena.ways:
        arena.once(way, [Allreduce("float32", (1,), Sum)])([np.ones(1, np.float32)])
    version = getattr(arena, "version", None)
    note = f"; handlers of foreign calls {'.'.join(map(str, version))}" if version else ""
    return f"{arena.name}: {', '.join(arena.ways)}{note}", {"ranks": arena.size}


def _arena(job: Job, out: Path) -> tuple[Any, Path]:
    """The arena of a job, and the file for this rank's rows."""
    if job.part == "tensorflow":
        arena = _tensorflow_arena(job)
    elif job.rehearse:
        arena = _rehearsing_arena(job)
    else:
        arena = _nccl_arena(job)
    return arena, out.with_name(f"{out.name}.{arena.rank}")


def _nccl_arena(job: Job) -> Any:
    """JAX's or CuPy's, without MPI: the ranks find each other by a file."""
    from gpu.device import CudaDevice
    from sciml_par.parallel.transports.cupy_binding import load_gpu, load_nccl
    from sciml_par.parallel.transports.nccl import NCCLTransport

    meeting = Path(job.meeting)
    transport = NCCLTransport.connect(
        load_nccl(), load_gpu(), job.rank, job.size, lambda mine: shared_by_file(meeting, mine)
    )
    if job.part == "cupy":
        from gpu.arena import AddressArena

        return AddressArena(transport, CudaDevice(), transport.stream)
    from gpu.jax_arena import JaxArena

    return JaxArena(transport, CudaDevice(), transport.stream, platform="CUDA")


def _rehearsing_arena(job: Job) -> Any:
    """The same on the CPU, by MPI."""
    from mpi4py import MPI

    from gpu.device import HostDevice
    from sciml_par.parallel.transports.mpi import MPITransport

    transport = MPITransport(MPI.COMM_WORLD)
    if job.part == "cupy":
        from gpu.arena import AddressArena

        return AddressArena(transport, HostDevice(), None)
    from gpu.jax_arena import JaxArena

    return JaxArena(transport, HostDevice(), None, platform="cpu")


def _tensorflow_arena(job: Job) -> Any:
    """With sciml_par as a program has it; the ranks find each other by MPI."""
    import sciml_par.parallel as sp
    from gpu.device import CudaDevice, HostDevice
    from gpu.tensorflow_arena import TensorFlowArena
    from sciml_par.parallel.transports.cupy_binding import load_gpu, load_nccl
    from sciml_par.parallel.transports.nccl import NCCLTransport

    sp.init()
    world = sp.current_world()
    group = world.communicator
    if job.rehearse:
        return TensorFlowArena(group, group.mpi_transport, HostDevice(), None)
    if group.size == 1:  # `init` connects nobody with itself
        group.nccl_transport = NCCLTransport.connect(
            load_nccl(), load_gpu(), 0, 1, lambda mine: mine
        )
    if group.nccl_transport is None:
        raise RuntimeError(f"init chose MPI: {world.transport.obstacle}")
    return TensorFlowArena(group, group.nccl_transport, CudaDevice(), group.nccl_transport.stream)


def shared_by_file(path: Path, mine: bytes) -> bytes:
    """Rank 0's bytes on every rank; the others give none (collective)."""
    if mine:
        draft = path.with_name(f"{path.name}.part")
        draft.write_bytes(mine)
        draft.rename(path)  # in one piece
        return mine
    deadline = time.monotonic() + _MEETING_SECONDS
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"rank 0 has not come within {_MEETING_SECONDS:g} s")
        time.sleep(0.02)
    return path.read_bytes()

"""Latency and bandwidth of an allreduce by size, transport and context, and whether the host waits.

The benchmark times a row of allreduces (Average, float32), each on the result of the last:
eagerly, in a `tf.function`, and in a loop that XLA has compiled. Every result is verified.
"""

from __future__ import annotations

import itertools
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from _runner import line, slowest

import sciml_par.parallel as sp
from sciml_par._tensorflow import tf

SIZES = (4, 64, 1 << 10, 16 << 10, 256 << 10, 4 << 20, 64 << 20, 1 << 30)
"""Bytes of the tensor."""

QUICK_SIZES = (4, 16 << 10, 1 << 20)
ROUNDS, QUICK_ROUNDS = 5, 3
CONTEXTS = ("eager", "tf.function", "jit_compile")
DEVICES = {"cpu": "/CPU:0", "gpu": "/GPU:0"}
TRANSPORTS = {"cpu": {"MPI": None}, "gpu": {"NCCL": None, "MPI": "/CPU:0"}}
"""By device: each transport, and the option `device=` of a collective that asks for it."""

_MOST_CALLS, _QUICK_CALLS, _FEWEST_CALLS = 100, 10, 2
_MOST_BYTES = 10**9
"""How much a row of calls may move; it sets their number."""

_COPIES = 8
"""For how many tensors of a size a rank must have memory: inputs, results, what verifies them."""

_HOST_BYTES = 1 << 30
"""How much memory a rank takes on the CPU."""

_PERIOD = 251
_TOLERANCE = 1e-5

_LEGEND = """
Of one allreduce in a row of many, medians, on the slowest rank; every result was verified.
returned: until the call of the row is back and the host can continue.
done: until the results are there. Where returned is much less, the host does not wait."""


def default_ranks(device: str) -> int:
    """Return 2 on the CPU, the number of GPUs otherwise; there must be one (local)."""
    if device == "cpu":
        return 2
    from sciml_par.parallel.startup.gpu_choice import visible_gpus

    gpus = visible_gpus(os.environ)
    if not gpus:
        raise SystemExit(
            "error: expected a GPU; found none: the driver lists none, or CUDA_VISIBLE_DEVICES "
            "hides it. Nothing was tested or measured. `sciml-par info` says more."
        )
    return len(gpus)


def measure_sizes(device: str, quick: bool) -> dict[str, Any]:
    sp.init()
    group = group_for(device)
    rounds, most = (QUICK_ROUNDS, _QUICK_CALLS) if quick else (ROUNDS, _MOST_CALLS)
    sizes = sizes_that_fit(QUICK_SIZES if quick else SIZES, device)
    rows = []
    for of in itertools.product(TRANSPORTS[device], CONTEXTS, sizes):
        calls = max(_FEWEST_CALLS, min(most, _MOST_BYTES // of[2]))
        found = times(group, device, *of, rounds=rounds, calls=calls)
        rows.append(dict(zip(("transport", "context", "nbytes"), of, strict=True)) | found)
    return {"device": device, "ranks": sp.size(), "machine": machine(group), "rows": rows}


def group_for(device: str) -> Any:
    """Return the ranks to measure, with NCCL on GPUs (collective)."""
    world = sp.current_world()
    everyone = world.communicator
    if device == "gpu":
        obstacles = everyone.allgather_object(_obstacle(world))
        found = [f"rank {rank}: {text}" for rank, text in enumerate(obstacles) if text]
        if found:
            error = f"error: --device gpu: nothing was measured. {'; '.join(found)}"
            raise SystemExit(error if everyone.rank == 0 else 1)
    return everyone if everyone.size > 1 else _group_of_one(with_nccl=device == "gpu")


def _obstacle(world: Any) -> str:
    """Return why this rank cannot be measured on a GPU; empty if it can (local)."""
    from sciml_par.errors import SciMLParError
    from sciml_par.parallel.tensors.memory import has_gpus
    from sciml_par.parallel.transports.cupy_binding import load_gpu, load_nccl

    if world.gpu is None:
        return "there is no GPU"
    if not has_gpus():
        return "TensorFlow sees no GPU"
    if world.communicator.size > 1:
        return world.transport.obstacle
    try:
        load_gpu()
        load_nccl()
    except SciMLParError as missing:
        return str(missing)
    return ""


def _group_of_one(*, with_nccl: bool) -> Any:
    """Return this rank alone as a group whose collectives still copy (local)."""
    from mpi4py import MPI

    from sciml_par.parallel.groups.communicator import Communicator

    group: Any = Communicator(MPI.COMM_SELF, name="one rank")
    # A collective of one rank would be left out, and nobody is there to agree with.
    group.size = 2
    group.agree = lambda signature, number=0: [number]
    if with_nccl:
        from sciml_par.parallel.transports.cupy_binding import load_gpu, load_nccl
        from sciml_par.parallel.transports.nccl import NCCLTransport

        group.gpu = load_gpu()
        group.nccl_transport = NCCLTransport.connect(load_nccl(), group.gpu, 0, 1, lambda own: own)
    return group


def sizes_that_fit(sizes: Sequence[int], device: str) -> list[int]:
    memory = _HOST_BYTES
    if device == "gpu":
        from cupy.cuda import runtime

        # All memory, not the free part: TensorFlow keeps and reuses the memory that it has taken.
        memory = int(runtime.memGetInfo()[1])
    least = min(sp.current_world().communicator.allgather_object(memory))
    return [nbytes for nbytes in sizes if _COPIES * nbytes <= least]


def machine(group: Any) -> dict[str, str]:
    facts = {"host": platform.node(), "python": platform.python_version()}
    facts["tensorflow"] = tf.__version__
    if group.nccl_transport is not None:
        from sciml_par.parallel.transports.cupy_binding import load_nccl

        facts["gpu"] = group.gpu.name()
        facts["nccl"] = ".".join(map(str, load_nccl().version))
    return facts


def times(
    group: Any, device: str, transport: str, context: str, nbytes: int, *, rounds: int, calls: int
) -> dict[str, float]:
    """Return medians for one allreduce in a row, on the slowest rank (collective).

    `returned_us` are microseconds until the call of the whole row is back, divided by their
    number; `done_us` those until the results are there; `gb_per_s` is `bandwidth` in the latter.
    """
    with tf.device(DEVICES[device]):
        run = row_of_allreduces(group, TRANSPORTS[device][transport], context, calls)
        x = tf.identity(tf.constant(numbers(nbytes // 4, group.rank)))
        verify(run(x), nbytes // 4, sp.size())
        returned, done = [], []
        for _ in range(rounds):
            sp.barrier()
            began = time.perf_counter()
            run(x)
            returned.append(time.perf_counter() - began)
            tf.test.experimental.sync_devices()
            done.append(time.perf_counter() - began)
    medians = {"returned_us": statistics.median(returned), "done_us": statistics.median(done)}
    found = slowest({name: 1e6 * seconds / calls for name, seconds in medians.items()})
    return {**found, "gb_per_s": bandwidth(sp.size(), nbytes, 1e-6 * found["done_us"])}


def row_of_allreduces(group: Any, on: str | None, context: str, calls: int) -> Callable[[Any], Any]:
    def allreduce(x: Any) -> Any:
        return sp.allreduce(x, communicator=group, device=on)

    def eagerly(x: Any) -> Any:
        return reduce(lambda y, _: allreduce(y), range(calls), x)

    def in_loop(x: Any) -> Any:
        return tf.while_loop(
            lambda i, _: i < calls, lambda i, x: (i + 1, allreduce(x)), (tf.constant(0), x)
        )[1]

    if context == "eager":
        return eagerly
    # Not False: a plain graph shall be what users have who say nothing.
    compiled = True if context == "jit_compile" else None
    return tf.function(in_loop, jit_compile=compiled, autograph=False)


def numbers(count: int, rank: int) -> np.ndarray:
    """Return a rank's input, [count]: different at each place and on each rank."""
    return np.resize(np.arange(_PERIOD, dtype=np.float32), count) + np.float32(rank)


def verify(y: Any, count: int, size: int) -> None:
    """Raise `ValueError` if `y` is not the average of the ranks' `numbers`, to rounding (local)."""
    mean_rank = (size - 1) / 2
    due = tf.constant(numbers(count, 0)) + np.float32(mean_rank)
    error = float(tf.reduce_max(tf.abs(y - due)))
    if not error <= _TOLERANCE * (_PERIOD + mean_rank):  # true of a NaN
        raise ValueError(f"An allreduce of {byte_text(4 * count)} is wrong by {error:g}.")


def bandwidth(size: int, nbytes: int, seconds: float) -> float:
    """Compute the GB/s of an allreduce of `nbytes` on P = `size` ranks: 2 (P-1)/P · bytes / time.

    It is what the slowest link carries each way, so it compares with the link's own rate. One rank
    has no link: for P = 1 it is bytes / time, at which rate memory is copied.
    """
    share = 2 * (size - 1) / size if size > 1 else 1.0
    return share * nbytes / seconds / 1e9


def byte_text(nbytes: int) -> str:
    """Return a size such as "64 KiB"."""
    power = max(0, (max(nbytes, 1).bit_length() - 1) // 10)
    return f"{nbytes / 1024**power:g} {('B', 'KiB', 'MiB', 'GiB')[power]}"


def tables(found: dict[str, Any]) -> str:
    alone = found["ranks"] == 1
    ranks = "1 rank" if alone else f"{found['ranks']} ranks"
    lines = [", ".join(f"{name} {value}" for name, value in found["machine"].items())]
    groups = itertools.groupby(found["rows"], lambda row: (row["transport"], row["context"]))
    for (transport, context), rows in groups:
        columns = {
            f"{ranks}, {transport}, {context}": "size:<28",
            "returned µs": "returned_us:13,.3f",
            "done µs": "done_us:13,.3f",
            "GB/s copied" if alone else "GB/s bus": "gb_per_s:13.3f",
        }
        lines += ["", line(columns)]
        lines += [line(columns, row | {"size": f"  {byte_text(row['nbytes'])}"}) for row in rows]
    return "\n".join([*lines, _LEGEND])

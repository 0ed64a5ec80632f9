"""What the ranks find: versions, MPI, hosts, GPUs and the environment, as the JSON file has it."""

from __future__ import annotations

import math
import platform
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib import metadata
from typing import Any

from sciml_par._tensorflow import import_module, tf
from sciml_par._text import one_line, rank_list, ranks_by
from sciml_par.errors import SciMLParError
from sciml_par.parallel.execution.xla_ffi import UnavailableError, foreign_calls
from sciml_par.parallel.groups.world import World
from sciml_par.parallel.startup.cpu_threads import cores_of_this_process, thread_pools
from sciml_par.parallel.startup.gpu_choice import visible_gpus
from sciml_par.parallel.startup.launcher_environment import launched_size
from sciml_par.parallel.startup.options import tensor_float_32_is_on
from sciml_par.parallel.tensors.memory import has_gpus
from sciml_par.parallel.transports.cupy_binding import load_nccl

Facts = dict[str, Any]
"""The keys of the JSON file, which docs/info.md describes."""

_PACKAGES = ("TensorFlow", "Keras", "NumPy", "mpi4py", "CuPy", "llvmlite")
_LIBRARIES = ("OMP", "OPENBLAS", "MKL", "BLIS")
_VARIABLES = ("CUDA_VISIBLE_DEVICES", *(f"{library}_NUM_THREADS" for library in _LIBRARIES))
_PREFIXES = ("SCIML_PAR_", "NCCL_")


def gather_facts(world: World, environment: Mapping[str, str]) -> Facts:
    """Return what every rank finds; `environment` is that before `init` (collective)."""
    ranks = world.communicator.allgather_object(_facts_of_rank(world, environment))
    blind = ranks_by(enumerate(rank["tensorflow_on_gpu"] for rank in ranks)).get(False)
    obstacles = (  # that to NCCL is one on which `init` agreed, unless there is a plainer one
        len(ranks) == 1 and "there is one rank",
        not any(rank["gpu"] for rank in ranks) and "no rank has a GPU",
        blind and f"TensorFlow finds no GPU on {rank_list(blind)}",
    )
    return {
        "transport_obstacle": next(filter(None, obstacles), world.transport.obstacle),
        "native_obstacle": world.communicator.obstacle_to_sharing,
        "ranks": ranks,
    }


def _facts_of_rank(world: World, environment: Mapping[str, str]) -> Facts:
    visible = visible_gpus(environment)  # before `init` pins the rank to one of them
    import_module("scipy.linalg.cython_blas")  # SciPy's own BLAS, which `thread_pools` counts
    return {
        "host": socket.gethostname(),
        "host_number": world.host.world_ranks[0],  # it tells hosts with the same name apart
        "cores": sorted(cores_of_this_process()),
        "threads": world.threads,
        "thread_pools": thread_pools(),
        "launched": launched_size(environment),
        "versions": {"sciml_par": _version("sciml_par"), "Python": platform.python_version()}
        | {name: _version(name.lower()) for name in _PACKAGES},
        **_mpi(),
        "visible": [asdict(gpu) for gpu in visible],
        "gpu": next((asdict(gpu) for gpu in visible if gpu.entry == world.gpu), None),
        "gpu_name": _name_of(world.communicator.gpu),
        "tensorflow_on_gpu": has_gpus(),
        "tensorflow_is_right": not has_gpus() or _gpu_is_right(),
        # Ranks connected by NCCL use MPI for the tensors of a TensorFlow that finds no GPU.
        "transport": "NCCL" if world.communicator.nccl_transport and has_gpus() else "MPI",
        "tensor_float_32": tensor_float_32_is_on(),
        "copies": world.communicator.gpu is not None,
        "nccl": _finding(load_nccl),
        "foreign_calls": _finding(foreign_calls),
        "environment": {
            name: value
            for name, value in sorted(environment.items())
            if name in _VARIABLES or name.startswith(_PREFIXES)
        },
    }


def _gpu_is_right() -> bool:
    """Return whether random numbers and their sum on the GPU are those of the CPU.

    With the CUDA runtime of another version, TensorFlow's own kernels give zeros without an error.
    """
    totals = []
    for device in ("/GPU:0", "/CPU:0"):
        with tf.device(device):
            normal = tf.random.stateless_normal([1000], seed=(1, 2))
            totals.append(float(tf.reduce_sum(tf.abs(normal))))
    return math.isclose(*totals, rel_tol=1e-3)


def _version(module: str) -> str:
    try:
        own = module == "sciml_par"
        return metadata.version("sciml-par") if own else str(import_module(module).__version__)
    except Exception as error:  # a broken installation may raise anything
        absent = isinstance(error, metadata.PackageNotFoundError)
        absent = absent or getattr(error, "name", "") == module
        return "not installed" if absent else f"cannot be imported ({one_line(error)})"


def _mpi() -> dict[str, str]:
    from mpi4py import MPI

    # Behind a comma, the text is about the build: Open MPI names the host that it was built on.
    library = MPI.Get_library_version().strip("\0 \n").partition("\n")[0].partition(",")[0]
    levels = ("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")
    numbers = {getattr(MPI, f"THREAD_{level}"): level for level in levels}
    return {
        "mpi_library": " ".join(library.split()),
        "mpi_standard": ".".join(map(str, MPI.Get_version())),
        "thread_level": numbers[MPI.Query_thread()],
    }


def _name_of(gpu: Any) -> str:
    try:
        return gpu.name() if gpu is not None else ""
    except SciMLParError as error:
        return f"name unknown: {one_line(error)}"


def _finding(load: Callable[[], Any]) -> dict[str, str]:
    """Return the version of a piece of software, or the obstacle to its use; the other is empty."""
    try:
        return {"version": ".".join(map(str, load().version)), "obstacle": ""}
    except (SciMLParError, UnavailableError) as error:
        return {"version": "", "obstacle": str(error)}

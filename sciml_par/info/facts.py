"""What the ranks find: versions, MPI, hosts, GPUs and the environment."""

from __future__ import annotations

import platform
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any, TypeVar

from sciml_par._tensorflow import import_module
from sciml_par._text import one_line
from sciml_par.errors import SciMLParError
from sciml_par.parallel.execution.xla_ffi import UnavailableError, foreign_calls
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import World
from sciml_par.parallel.startup.cpu_threads import cores_of_this_process
from sciml_par.parallel.startup.gpu_choice import VisibleGpu, visible_gpus
from sciml_par.parallel.startup.options import tensor_float_32_is_on
from sciml_par.parallel.tensors.memory import has_gpus
from sciml_par.parallel.transports.cupy_binding import load_nccl
from sciml_par.programs.launcher_environment import launched_size

T = TypeVar("T")

_NOT_INSTALLED = "not installed"
_PACKAGES = ("TensorFlow", "Keras", "NumPy", "mpi4py", "CuPy", "llvmlite")
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
_PREFIXES = ("SCIML_PAR_", "NCCL_")


@dataclass(frozen=True)
class Finding:
    """The version of a piece of software, or the obstacle to its use; the other is empty."""

    version: str
    obstacle: str = ""


@dataclass(frozen=True)
class RankFacts:
    """What one rank finds: the keys of `ranks` in the JSON file, described in docs/info.md."""

    host: str
    host_number: int  # the lowest rank on the host, which tells hosts with the same name apart
    cores: tuple[int, ...]
    threads: int
    launched: int | None
    versions: Mapping[str, str]
    mpi_library: str
    mpi_standard: str
    thread_level: str
    visible: tuple[VisibleGpu, ...]  # before `init` pins the rank to one of them
    gpu: VisibleGpu | None
    gpu_name: str
    tensorflow_on_gpu: bool
    tensor_float_32: bool
    copies: bool
    nccl: Finding
    foreign_calls: Finding
    environment: Mapping[str, str]  # before `init`, which changes it


@dataclass(frozen=True)
class Facts:
    """The facts of each rank, [P], and the obstacles to NCCL and to native code, or empty."""

    ranks: tuple[RankFacts, ...]
    transport_obstacle: str
    native_obstacle: str = ""


def ranks_by(values: Iterable[T]) -> dict[T, list[int]]:
    """Return {value: the ranks that have it} of one value a rank."""
    ranks: dict[T, list[int]] = {}
    for rank, value in enumerate(values):
        ranks.setdefault(value, []).append(rank)
    return ranks


def launched_apart(ranks: int, launched: int | None) -> bool:
    """Return whether the launcher started several processes that do not know each other."""
    return ranks == 1 and (launched or 1) > 1


def gather_facts(world: World, environment: Mapping[str, str]) -> Facts:
    """Return what every rank finds (collective)."""
    ranks = world.communicator.allgather_object(_look_around(world, environment))
    return Facts(tuple(ranks), world.transport.obstacle, world.communicator.obstacle_to_sharing)


def _look_around(world: World, environment: Mapping[str, str]) -> RankFacts:
    library, standard, level = _mpi()
    visible = tuple(visible_gpus(environment))
    return RankFacts(
        host=socket.gethostname(),
        host_number=world.host.world_ranks[0],
        cores=tuple(sorted(cores_of_this_process())),
        threads=world.threads,
        launched=launched_size(environment),
        versions=_versions(),
        mpi_library=library,
        mpi_standard=standard,
        thread_level=level,
        visible=visible,
        gpu=next((gpu for gpu in visible if gpu.entry == world.gpu), None),
        gpu_name=_gpu_name(world.communicator),
        tensorflow_on_gpu=has_gpus(),
        tensor_float_32=tensor_float_32_is_on(),
        copies=world.communicator.gpu is not None,
        nccl=_finding(load_nccl),
        foreign_calls=_finding(foreign_calls),
        environment={
            name: value
            for name, value in sorted(environment.items())
            if name in _VARIABLES or name.startswith(_PREFIXES)
        },
    )


def _versions() -> dict[str, str]:
    try:
        own = metadata.version("sciml-par")
    except metadata.PackageNotFoundError:
        own = _NOT_INSTALLED
    found = {"sciml_par": own, "Python": platform.python_version()}
    return found | {name: _version(name.lower()) for name in _PACKAGES}


def _version(module: str) -> str:
    try:
        return str(import_module(module).__version__)
    except ModuleNotFoundError as error:
        return _NOT_INSTALLED if error.name == module else f"cannot be imported ({error})"
    except Exception as error:  # a broken installation may raise anything
        return f"cannot be imported ({one_line(error)})"


def _mpi() -> tuple[str, str, str]:
    from mpi4py import MPI

    # Behind a comma, the text is about the build: Open MPI names the host that it was built on.
    library = MPI.Get_library_version().strip("\0 \n").partition("\n")[0].partition(",")[0]
    levels = ("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")
    numbers = {getattr(MPI, f"THREAD_{level}"): level for level in levels}
    standard = ".".join(map(str, MPI.Get_version()))
    return " ".join(library.split()), standard, numbers[MPI.Query_thread()]


def _gpu_name(communicator: Communicator) -> str:
    try:
        return communicator.gpu.name() if communicator.gpu is not None else ""
    except SciMLParError as error:
        return f"name unknown: {one_line(error)}"


def _finding(load: Callable[[], Any]) -> Finding:
    try:
        return Finding(".".join(map(str, load().version)))
    except (SciMLParError, UnavailableError) as error:
        return Finding("", str(error))

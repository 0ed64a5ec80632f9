"""What the ranks find: versions, MPI, hosts, GPUs, and what the environment says."""

from __future__ import annotations

import platform
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata

from sciml_par._tensorflow import import_module
from sciml_par._text import one_line
from sciml_par.errors import SciMLParError
from sciml_par.parallel.execution.xla_ffi import UnavailableError, foreign_calls
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import World
from sciml_par.parallel.startup.cpu_threads import cores_of_this_process
from sciml_par.parallel.startup.gpu_choice import VisibleGpu, visible_gpus
from sciml_par.parallel.startup.tensor_float_32 import tensor_float_32_is_on
from sciml_par.parallel.tensors.memory import has_gpus
from sciml_par.parallel.transports.cupy_binding import load_nccl
from sciml_par.programs.launcher_environment import launched_size

NOT_INSTALLED = "not installed"
_MODULES = {
    "TensorFlow": "tensorflow",
    "Keras": "keras",
    "NumPy": "numpy",
    "mpi4py": "mpi4py",
    "CuPy": "cupy",
    "llvmlite": "llvmlite",
}
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
_PREFIXES = ("SCIML_PAR_", "NCCL_")


@dataclass(frozen=True)
class Finding:
    """Something that is there, in some version, or is not.

    Attributes
    ----------
    version : empty if it is not there.
    obstacle : why it is not there, or cannot be used; empty if it can.
    """

    version: str
    obstacle: str = ""


@dataclass(frozen=True)
class RankFacts:
    """What one rank finds.

    Attributes
    ----------
    host : its host's name.
    host_number : the lowest rank on the same host, which tells hosts of one name apart.
    cores : the numbers of those that it may run on.
    threads : how many cores it may keep busy.
    launched : how many processes the launcher says it has started; None if it does not say.
    versions : {software: version}.
    mpi_library, mpi_standard, thread_level : of MPI.
    visible : the GPUs that it could see before `init`.
    gpu : the one that it is pinned to, or None.
    gpu_name : as the driver calls that; empty where CuPy does not tell.
    tensorflow_on_gpu : whether its TensorFlow computes on a GPU.
    tensor_float_32 : whether TensorFlow may multiply float32 matrices with fewer bits.
    copies : whether its compiled programs can copy between a GPU and the host.
    nccl, foreign_calls : NCCL, and XLA's interface for collectives in compiled functions.
    environment : the variables that matter to sciml_par, before `init`.
    """

    host: str
    host_number: int
    cores: tuple[int, ...]
    threads: int
    launched: int | None
    versions: Mapping[str, str]
    mpi_library: str
    mpi_standard: str
    thread_level: str
    visible: tuple[VisibleGpu, ...]
    gpu: VisibleGpu | None
    gpu_name: str
    tensorflow_on_gpu: bool
    tensor_float_32: bool
    copies: bool
    nccl: Finding
    foreign_calls: Finding
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Facts:
    """What all ranks find.

    Attributes
    ----------
    ranks : each rank's facts, [P].
    transport_obstacle : why tensors do not travel between GPUs by NCCL; empty if they do.
    native_obstacle : why machine code does not carry short tensors through shared memory; empty if
        it does.
    """

    ranks: tuple[RankFacts, ...]
    transport_obstacle: str
    native_obstacle: str = ""

    def ranks_where(self, true_of: Callable[[RankFacts], bool]) -> list[int]:
        """The ranks of whose facts something is true."""
        return [r for r, facts in enumerate(self.ranks) if true_of(facts)]

    def by_answer(self, question: Callable[[RankFacts], str]) -> dict[str, list[int]]:
        """The ranks that answer a question alike: {answer: ranks}."""
        answers: dict[str, list[int]] = {}
        for rank, facts in enumerate(self.ranks):
            answers.setdefault(question(facts), []).append(rank)
        return answers

    @property
    def any_gpu(self) -> bool:
        """Whether any rank has been given a GPU."""
        return any(rank.gpu is not None for rank in self.ranks)

    @property
    def launched_apart(self) -> bool:
        """Whether the launcher has started several processes that know nothing of each other."""
        return len(self.ranks) == 1 and (self.ranks[0].launched or 1) > 1


def gather_facts(world: World, environment: Mapping[str, str]) -> Facts:
    """Look around on every rank, and tell the others (collective)."""
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
        nccl=_nccl(),
        foreign_calls=_foreign_calls(),
        environment=relevant(environment),
    )


def relevant(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that matter to sciml_par and its libraries."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name in _VARIABLES or name.startswith(_PREFIXES)
    }


def _versions() -> dict[str, str]:
    try:
        own = metadata.version("sciml-par")
    except metadata.PackageNotFoundError:
        own = NOT_INSTALLED
    found = {"sciml_par": own, "Python": platform.python_version()}
    return found | {name: _version(module) for name, module in _MODULES.items()}


def _version(module: str) -> str:
    try:
        return str(import_module(module).__version__)
    except ModuleNotFoundError as error:
        return NOT_INSTALLED if error.name == module else f"cannot be imported ({error})"
    except Exception as error:  # whatever a broken installation may raise
        return f"cannot be imported ({one_line(error)})"


def _mpi() -> tuple[str, str, str]:
    from mpi4py import MPI

    # What follows a comma is about the build: Open MPI names the host that it was built on.
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


def _nccl() -> Finding:
    try:
        return Finding(".".join(map(str, load_nccl().version)))
    except SciMLParError as error:
        return Finding("", str(error))


def _foreign_calls() -> Finding:
    try:
        return Finding(".".join(map(str, foreign_calls().version)))
    except UnavailableError as error:
        return Finding("", str(error))

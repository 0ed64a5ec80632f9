"""What is on this machine: each part looked at in a process of its own, which may crash."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpu.record import Found, SkippedError
from gpu.report import OK, Row

LOOKS = ("Python", "driver", "CuPy", "MPI", "TensorFlow", "JAX")
_SECONDS = 20.0


def look(part: str) -> Found:
    """What there is of one of `LOOKS`, or why it does not serve."""
    looks: dict[str, Callable[[], Found]] = {
        "Python": _python,
        "driver": _driver,
        "CuPy": _cupy,
        "MPI": _mpi,
        "TensorFlow": _tensorflow,
        "JAX": _jax,
    }
    return looks[part]()


def _python() -> Found:
    import numpy

    versions = {"python": platform.python_version(), "numpy": numpy.__version__}
    cores = len(os.sched_getaffinity(0))
    return f"{versions['python']}, NumPy {versions['numpy']}, {cores} cores", versions


def _driver() -> Found:
    """As nvidia-smi tells; the checks do not need it."""
    if shutil.which("nvidia-smi") is None:
        raise SkippedError("nvidia-smi is not on PATH")
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    said = subprocess.run(query, capture_output=True, text=True, timeout=_SECONDS, check=False)
    lines = [line.strip() for line in said.stdout.splitlines() if line.strip()]
    if said.returncode or not lines:
        raise SkippedError(f"nvidia-smi: {(said.stderr or said.stdout).strip() or 'no GPU'}")
    listed = Path("/proc/driver/nvidia/gpus").is_dir()
    note = "" if listed else "; not listed in /proc/driver/nvidia/gpus, where init looks"
    return f"{'; '.join(lines)}{note}", {"gpus": lines, "listed": listed}


def _cupy() -> Found:
    from sciml_par.parallel.transports.cupy_binding import MissingBindingError, load_gpu, load_nccl

    try:
        gpu, nccl = load_gpu(), load_nccl()
    except MissingBindingError as reason:
        raise SkippedError(str(reason)) from None
    import cupy
    from cupy.cuda import runtime

    count = int(runtime.getDeviceCount())
    version = ".".join(map(str, nccl.version))
    facts = {
        "cupy": cupy.__version__,
        "nccl": list(nccl.version),
        "gpus": count,
        "name": gpu.name(),
        "cuda_runtime": int(runtime.runtimeGetVersion()),
        "cuda_driver": int(runtime.driverGetVersion()),
        "gpu_bytes": int(runtime.memGetInfo()[1]),
    }
    return f"{facts['cupy']}, NCCL {version}, {count} × {facts['name']}", facts


def _mpi() -> Found:
    _installed("mpi4py")
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise SkippedError(f"mpi4py finds no MPI library ({str(error).splitlines()[0]})") from None
    library = " ".join(MPI.Get_library_version().splitlines()[0].split(",")[0].split())
    launcher = mpirun()
    note = "" if launcher else "; no mpirun, so no several ranks by MPI"
    return f"{library}{note}", {"library": library, "mpirun": launcher}


def _tensorflow() -> Found:
    version = _installed("tensorflow")
    from sciml_par._tensorflow import import_module
    from sciml_par.parallel.execution.xla_ffi import UnavailableError, foreign_calls

    tf = import_module("tensorflow")
    try:
        compiled = f"foreign calls {'.'.join(map(str, foreign_calls().version))}"
    except UnavailableError as reason:
        compiled = f"no collectives in compiled functions: {reason}"
    gpus = len(tf.config.list_physical_devices("GPU"))
    facts = {"tensorflow": version, "gpus": gpus}
    return f"{version}, {_sees(gpus)}, {compiled}", facts


def _jax() -> Found:
    version = _installed("jax")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    devices = jax.devices()
    gpus = len(devices) if devices[0].platform in ("gpu", "cuda") else 0
    calls = _header_version(Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h")
    return f"{version}, {_sees(gpus)}, foreign calls {calls}", {"jax": version, "gpus": gpus}


def _sees(gpus: int) -> str:
    return f"sees {gpus} GPU(s)" if gpus else "sees no GPU"


def _header_version(header: Path) -> str:
    """The version of the foreign-function interface in XLA's header."""
    found = {}
    for line in header.read_text().splitlines() if header.exists() else []:
        words = line.split()
        if len(words) == 3 and words[1] in ("XLA_FFI_API_MAJOR", "XLA_FFI_API_MINOR"):
            found[words[1][-5:]] = words[2]
    return ".".join(found.values()) or "of unknown version"


def _installed(name: str) -> str:
    if importlib.util.find_spec(name) is None:
        raise SkippedError("not installed")
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "unknown version"


def mpirun() -> str | None:
    """The launcher: beside this Python, where pip puts it, or on PATH."""
    beside = Path(sys.executable).parent / "mpirun"
    return str(beside) if beside.exists() else shutil.which("mpirun")


def facts_of(rows: Sequence[Row], part: str) -> dict[str, Any]:
    """What was found of a part; empty where it does not serve."""
    return next((row.numbers for row in rows if row.what == part and row.result == OK), {})


def choose_arena(rows: Sequence[Row]) -> tuple[str | None, list[str]]:
    """What the machine allows to check with, and what is missing for it or for more.

    Returns
    -------
    "tensorflow", "jax" or "cupy"; None where nothing can be checked.
    """
    cupy = bool(facts_of(rows, "CuPy"))
    mpi = bool(facts_of(rows, "MPI"))
    tensorflow = bool(facts_of(rows, "TensorFlow").get("gpus"))
    jax = bool(facts_of(rows, "JAX").get("gpus"))
    missing = {row.what: f"{row.what}: {row.detail}" for row in rows}
    lacking = [] if cupy else [missing["CuPy"]]
    if tensorflow and mpi:
        return ("tensorflow" if cupy else None), lacking
    lacking += [
        missing[part] for part, there in (("TensorFlow", tensorflow), ("MPI", mpi)) if not there
    ]
    if not jax:
        lacking.append(missing["JAX"])
    if not cupy:
        return None, lacking
    return ("jax" if jax else "cupy"), lacking

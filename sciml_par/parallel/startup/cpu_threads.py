"""Each rank's share of the cores.

Ranks that wait for each other spin, and so do the threads of a BLAS. With more busy threads than
cores, a two-microsecond allreduce takes milliseconds, and a small QR takes 0.3 s. So every pool of
threads in the process gets at most the rank's share of the cores.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path

_TENSORFLOW_VARIABLES = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
_VARIABLES = {
    "openmp": "OMP_NUM_THREADS",
    "openblas": "OPENBLAS_NUM_THREADS",
    "mkl": "MKL_NUM_THREADS",
    "blis": "BLIS_NUM_THREADS",
}
"""The variable of each kind of pool, which a library reads when it is loaded."""


def cores_of_this_process() -> frozenset[int]:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def share_of_cores(mine: frozenset[int], neighbours: Sequence[frozenset[int]]) -> int:
    """Return the number of cores that this rank may keep busy, at least 1."""
    rivals = sum(1 for cores in neighbours if cores & mine)
    return max(1, len(mine) // max(1, rivals))


def let_waiting_ranks_yield(
    environment: MutableMapping[str, str], cores: frozenset[int] | None = None
) -> None:
    """Let waiting ranks sleep if the ranks of this host outnumber its cores."""
    ranks = environment.get("MPI_LOCALNRANKS", "")
    if cores is None:
        cores = cores_of_this_process()
        with contextlib.suppress(AttributeError, OSError):  # not Linux, or no permission
            cores |= os.sched_getaffinity(os.getppid())
    if ranks.isdigit() and int(ranks) > len(cores):
        environment.setdefault("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1")


def requested_threads(environment: Mapping[str, str]) -> int | None:
    """Return the number in OMP_NUM_THREADS, or None."""
    first = environment.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isdigit() and int(first) > 0 else None


def limit_threads(threads: int, environment: MutableMapping[str, str]) -> None:
    """Give every pool of this process `threads` threads, unless the user's variable says otherwise.

    Libraries that are loaded later read the variables that this function sets.
    """
    set_by_user = {kind for kind, variable in _VARIABLES.items() if environment.get(variable)}
    for variable in (*_VARIABLES.values(), *_TENSORFLOW_VARIABLES):
        environment.setdefault(variable, str(threads))
    from threadpoolctl import ThreadpoolController

    for pool in ThreadpoolController().lib_controllers:
        if pool.internal_api not in set_by_user:
            pool.set_num_threads(threads)
    _limit_tensorflow(threads)


def thread_pools() -> dict[str, int]:
    """Return the threads of each loaded BLAS and OpenMP library, as {"openblas (numpy)": 2}."""
    from threadpoolctl import threadpool_info

    pools = {}
    for pool in threadpool_info():
        folder = Path(pool["filepath"]).parent.name.removesuffix(".libs")
        pools[f"{pool['internal_api']} ({folder})"] = int(pool["num_threads"])
    return pools


def _limit_tensorflow(threads: int) -> None:
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or not hasattr(tensorflow, "config"):
        return
    try:
        tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
        tensorflow.config.threading.set_inter_op_parallelism_threads(threads)
    except RuntimeError:
        warnings.warn(
            "sciml_par.init() came after TensorFlow had started its threads: each rank may use "
            "all cores, which slows every collective. Call init() before the first tensor.",
            RuntimeWarning,
            stacklevel=4,
        )

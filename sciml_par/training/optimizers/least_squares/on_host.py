"""Linear algebra by BLAS and LAPACK inside programs, with the threads that the rank has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sciml_par.parallel.execution.host_function import Array, HostFunction, call_on_host
from sciml_par.parallel.groups.world import current_world
from sciml_par.parallel.requests.request import Shape
from sciml_par.training.optimizers.least_squares.blas_threads import threads as in_threads

_COLUMNS_PER_THREAD = 500


def algebra_on_host(
    function: HostFunction, tensors: Sequence[Any], shapes: Sequence[Shape], *, columns: int
) -> list[Any]:
    """As `call_on_host`, for a function that calls BLAS."""
    threads = max(1, min(current_world().threads, columns // _COLUMNS_PER_THREAD))

    def limited(arguments: Sequence[Array], results: Sequence[Array]) -> None:
        with in_threads(threads):
            function(arguments, results)

    limited.__name__ = getattr(function, "__name__", type(function).__name__)
    return call_on_host(limited, tensors, shapes)

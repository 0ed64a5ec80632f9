"""Linear algebra by BLAS and LAPACK inside programs, with one thread of BLAS and several of ours.

BLAS' own threads wait for each other by spinning, many times in a product. On cores that other
programs use as well, each wait takes a time slice: a step of 0.1 s took 17 s. Ours meet at the end.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sciml_par.parallel.execution.host_function import Array, HostFunction, call_on_host
from sciml_par.parallel.groups.world import current_world
from sciml_par.parallel.requests.request import Shape
from sciml_par.training.loss.ranks import Ranks

_COLUMNS_PER_THREAD = 500
_LEAST_ROWS = 64  # of a block
_ours = threading.local()


def algebra_on_host(
    function: HostFunction, tensors: Sequence[Any], shapes: Sequence[Shape], *, columns: int
) -> list[Any]:
    """Call on the host, as `call_on_host`, a function that calls BLAS."""
    count = max(1, min(current_world().threads, columns // _COLUMNS_PER_THREAD))

    def limited(arguments: Sequence[Array], results: Sequence[Array]) -> None:
        with threads(count):
            function(arguments, results)

    limited.__name__ = getattr(function, "func", function).__name__  # of a partial as well
    return call_on_host(limited, tensors, shapes)


def found_by_first(
    ranks: Ranks, function: HostFunction, tensors: Sequence[Any], like: Any, *, columns: int = 0
) -> Any:
    """Return on all ranks what the first one finds on the host, a tensor as `like` (collective).

    columns : by default, the length of the last axis of `like`.
    """
    found, shape = like, tuple(like.shape)
    if ranks.rank == 0:
        (found,) = algebra_on_host(function, tensors, [shape], columns=columns or shape[-1])
    return ranks.from_rank(found)


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Let the calling thread share its products among `count` threads meanwhile.

    Until the last of several programs that compute at the same time is done, BLAS has one thread;
    afterwards it has as many as before.
    """
    with _blas_limit(), contextlib.ExitStack() as stack:
        if count > 1:
            _ours.pool = stack.enter_context(ThreadPoolExecutor(count))
            _ours.count = count
            stack.callback(_ours.__dict__.clear)
        yield


def in_blocks(function: Callable[[int, int], None], rows: int, *, triangle: bool = False) -> None:
    """Call function(start, end) for blocks of rows, in threads."""
    count = min(getattr(_ours, "count", 1), rows // _LEAST_ROWS)
    if count <= 1:
        function(0, rows)
        return
    power = 0.5 if triangle else 1.0
    ends = [round(rows * (i / count) ** power) for i in range(count + 1)]
    for done in [_ours.pool.submit(function, *each) for each in zip(ends, ends[1:], strict=False)]:
        done.result()


class _Limit:
    """BLAS' number of threads, which is one for the process."""

    def __init__(self) -> None:
        self._libraries: Any = None
        self._lock = threading.Lock()
        self._users = 0
        self._set: Any = None

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._users == 0:
                _release_control()
                self._set = self._found().limit(limits=1, user_api="blas")
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    _release_control()
                    self._set.restore_original_limits()
                    _release_control()  # for the next, this thread or another

    def _found(self) -> Any:
        if self._libraries is None:
            import scipy.linalg.cython_blas  # noqa: F401  # loads the library
            from threadpoolctl import ThreadpoolController

            self._libraries = ThreadpoolController()
        return self._libraries


_blas_limit = _Limit()


def _release_control() -> None:
    """Let the thread that is next to do so change the number of threads of BLAS.

    threadpoolctl leaves that to the first thread that has changed it, while it lives, and does
    nothing in others, in silence. The last of several programs may end in another than the first.
    """
    from threadpoolctl import OpenBLASController

    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:  # older versions let every thread change it
        clear(force=True)

"""How long an allreduce takes, and whether it ever keeps the host waiting."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from gpu.arena import COMPILED, AddressArena, Program
from gpu.cases import PERIOD, difference, expected, pattern
from gpu.checks import BUSY_SECONDS
from gpu.device import Busy
from gpu.probe import Watched
from gpu.record import Found, Recorder, SkippedError, WrongError
from gpu.report import bus_bandwidth, byte_text
from sciml_par.parallel.requests.reduce_op import Average
from sciml_par.parallel.requests.request import Allreduce

SIZES = (4, 64, 1 << 10, 16 << 10, 256 << 10, 4 << 20, 64 << 20, 1 << 30)
FEW_SIZES = (4, 16 << 10, 4 << 20)
_COPIES = 6  # input, output, a loop's two buffers, and some air
_REPEATS = 7
_MEGABYTES = 2000  # how much a repeat may move; it sets the number of calls
_FEWEST_CALLS = 3
_ULPS = 1000  # each of a hundred averages may round
_PERIODS = 64
_SECONDS = 5.0  # what a gigabyte takes, with its way to and from the host
_NEVER = 0.1  # of the time in front: waiting for the GPU takes all of it


@dataclass(frozen=True)
class Times:
    """Seconds per collective, medians.

    Attributes
    ----------
    stream : between marks on the collective's stream.
    transfer : that the host spends in the transfer, which enqueues it.
    back : until the call of the whole program has returned.
    done : until the result is there.
    """

    stream: float
    transfer: float
    back: float
    done: float


def check_speed(
    arena: AddressArena, recorder: Recorder, sizes: Sequence[int], *, most_calls: int
) -> None:
    """Time and verify an allreduce (Average, float32) of each size in every way (collective)."""
    for nbytes in sizes:
        for way in arena.ways:
            recorder.check(
                f"allreduce of {byte_text(nbytes)}, {way}",
                partial(speed, arena, recorder, way, nbytes, most_calls),
                needs=_SECONDS,
            )


def speed(arena: AddressArena, recorder: Recorder, way: str, nbytes: int, most_calls: int) -> Found:
    """One size in one way; the result is verified on memory filled with NaNs before."""
    if not recorder.agree(_COPIES * nbytes <= arena.device.free_bytes()):
        raise SkippedError("not enough free memory")
    request = Allreduce("float32", (nbytes // 4,), Average)
    calls = max(_FEWEST_CALLS, min(most_calls, _MEGABYTES * 10**6 // nbytes))
    program = arena.loop(way, [request], calls)
    program.load(pattern(request.count, arena.rank))
    times = timed(arena, program, calls)
    _verify(arena, program, request)
    numbers = {
        "way": way,
        "nbytes": nbytes,
        "ranks": arena.size,
        "calls": calls,
        "stream_us": 1e6 * times.stream,
        "transfer_us": 1e6 * times.transfer,
        "return_us": 1e6 * times.back,
        "done_us": 1e6 * times.done,
        "rate_gb_s": bus_bandwidth(arena.size, nbytes, times.stream),
    }
    return "right", numbers


def timed(arena: AddressArena, program: Program, calls: int, repeats: int = _REPEATS) -> Times:
    """Medians over `repeats` starts of a loaded program of `calls` collectives (collective)."""
    program.start()
    program.wait()  # compiled and warm
    back, done = [], []
    for _ in range(repeats):
        arena.meet()
        began = time.perf_counter()
        program.start()
        back.append((time.perf_counter() - began) / calls)
        program.wait()
        done.append((time.perf_counter() - began) / calls)
    # The marks cost a little time themselves, so they are set in a run of their own.
    arena.meet()
    arena.probe.begin(marks=calls)
    program.start()
    program.wait()
    watched = arena.probe.end()
    seconds = (watched.gpu_seconds, watched.host_seconds, back, done)
    return Times(*(statistics.median(each) for each in seconds))


def _verify(arena: AddressArena, program: Program, request: Allreduce) -> None:
    """Compare with NumPy what the program makes of another input."""
    program.load(pattern(request.count, arena.rank, seed=1))
    arena.probe.poison = True
    try:
        program.start()
        got = program.result()
    finally:
        arena.probe.poison = False
    # The input is periodic, and so is the result: a gigabyte needs no gigabytes of float64.
    period = min(request.count, PERIOD)
    xs = [pattern(period, r, seed=1) for r in range(arena.size)]
    due = np.resize(expected([request] * arena.size, xs, arena.rank), period * _PERIODS)
    for first in range(0, request.count, due.size):
        piece = got[first : first + due.size]
        text = difference(piece, due[: piece.size], ulps=_ULPS)
        if text:
            raise WrongError(f"from element {first} on: {text}")


def check_waiting(arena: AddressArena, recorder: Recorder, *, on_gpu: bool) -> None:
    """Whether the host is ever blocked, in the ways that need not block it (collective)."""
    for way in arena.ways:
        if way not in arena.asynchronous:
            recorder.check(f"does the host wait? {way}", _waits_by_design)
            continue
        for unrolled in (True, False) if way == COMPILED else (False,):
            shape = "" if way != COMPILED else ", straight" if unrolled else ", loop"
            recorder.check(
                f"does the host wait? {way}{shape}",
                partial(waiting, arena, way, unrolled, on_gpu),
            )


def _waits_by_design() -> Found:
    raise SkippedError("by design: TensorFlow's stream cannot be reached there")


def waiting(arena: AddressArena, way: str, unrolled: bool, on_gpu: bool) -> Found:
    """Enqueue 100 collectives behind work that keeps the GPU busy, and see what the host does."""
    if not on_gpu:
        raise SkippedError("a rehearsal carries by MPI, which blocks")
    assert arena.stream is not None
    calls = 100
    request = Allreduce("float32", (321,), Average)
    program = arena.loop(way, [request], calls, unrolled=unrolled)
    program.load(pattern(request.count, arena.rank))
    program.start()
    program.wait()
    busy = Busy(arena.device, BUSY_SECONDS, arena.stream)
    arena.meet()
    arena.probe.begin()
    arena.probe.front = busy
    try:
        began = time.perf_counter()
        program.start()
        returned = time.perf_counter() - began
        program.wait()
    finally:
        arena.probe.front = None
        arena.finish()
        watched = arena.probe.end()
        busy.release()
    return verdict(watched, returned)


def verdict(watched: Watched, returned: float) -> Found:
    """What was seen, in words and numbers; a transfer that blocked is wrong.

    Parameters
    ----------
    watched : the transfers, with work in front of the first.
    returned : after how many seconds the call of the whole program came back. Where that is late
        and the transfers were not, something else in the program has waited, such as XLA.
    """
    calls, longest = len(watched.host_seconds), max(watched.host_seconds, default=0.0)
    numbers = {
        "busy_ms": 1e3 * watched.busy_seconds,
        "longest_us": 1e6 * longest,
        "median_us": 1e6 * statistics.median(watched.host_seconds or [0.0]),
        "returned_ms": 1e3 * returned,
        "ahead": watched.ahead,
        "calls": calls,
    }
    seen = (
        f"at most {1e6 * longest:.0f} µs in a transfer; {watched.ahead} of {calls} were back "
        f"before {1e3 * watched.busy_seconds:.0f} ms of other work in front were done, the "
        f"program's call after {1e3 * returned:.1f} ms"
    )
    if not calls or watched.busy_seconds < 0.1 * BUSY_SECONDS:
        raise WrongError(f"nothing was seen: {seen}")
    if longest > _NEVER * watched.busy_seconds:
        raise WrongError(f"blocked for {1e3 * longest:.1f} ms: {seen}")
    if watched.ahead == 0:
        raise WrongError(f"every transfer came back after the GPU was done: {seen}")
    late = "; the program waited elsewhere" if returned > _NEVER * watched.busy_seconds else ""
    return f"never blocked{late}: {seen}", numbers

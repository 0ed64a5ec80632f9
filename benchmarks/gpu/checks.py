"""Whether collectives give the right values, in the right order, and fail as they should."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from gpu.arena import COMPILED, AddressArena, Program
from gpu.cases import (
    TYPES,
    cases,
    difference,
    expected,
    loop_result,
    pattern,
    round_trip,
    values,
)
from gpu.device import Busy
from gpu.record import Found, Recorder, SkippedError, WrongError
from sciml_par.parallel.requests.reduce_op import Sum
from sciml_par.parallel.requests.request import Allreduce, Request

BUSY_SECONDS = 0.3
_CHAIN_COUNT = 1 << 18  # 1 MiB of uint32: kernels long enough to be overtaken
_TRIP_COUNT = 1 << 12
_SHOWN = 3
_SECONDS = 10.0  # what the compilation of all cases may take
_COLD = "the furnace is cold"


def check_values(arena: AddressArena, recorder: Recorder) -> None:
    """Every collective, type and operation, in every way (collective)."""
    for way in arena.ways:
        recorder.check(f"all collectives, {way}", partial(right_values, arena, way), needs=_SECONDS)


def right_values(arena: AddressArena, way: str) -> Found:
    """Compare all cases with NumPy; each result's memory is filled with NaNs before."""
    wrong: list[str] = []
    done, types = 0, []
    for dtype in TYPES:
        mine = cases(dtype, arena.rank, arena.size)
        if not arena.carries(way, mine[0].request):
            continue
        arena.probe.poison = True
        try:
            wrong += _wrong_cases(arena, way, dtype)
        except Exception as error:  # the other types still have something to say
            wrong.append(f"{dtype}: {type(error).__name__}: {error}")
        finally:
            arena.probe.poison = False
        done += len(mine)
        types.append(dtype)
    if wrong:
        raise WrongError(f"{len(wrong)} of {done}: {'; '.join(wrong[:_SHOWN])}")
    return f"{done} cases of {len(types)} types", {"cases": done, "types": types}


def _wrong_cases(arena: AddressArena, way: str, dtype: str) -> list[str]:
    of_all = [cases(dtype, r, arena.size) for r in range(arena.size)]
    mine = of_all[arena.rank]
    inputs = [[values(c.request, r) for c in each] for r, each in enumerate(of_all)]
    got = arena.once(way, [c.request for c in mine])(inputs[arena.rank])
    wrong = []
    for k, (case, y) in enumerate(zip(mine, got, strict=True)):
        requests = [each[k].request for each in of_all]
        due = expected(requests, [xs[k] for xs in inputs], arena.rank)
        text = difference(y, due)
        if text:
            wrong.append(f"{case.what}: {text}")
    return wrong


def check_order(arena: AddressArena, recorder: Recorder, *, steps: int, on_gpu: bool) -> None:
    """Computations and collectives in turns, in every way that has computations (collective)."""
    for way in arena.computing:
        n = steps if way == COMPILED else max(1, steps // 20)
        recorder.check(f"{n} × (compute, allreduce), {way}", partial(placement, arena, way, n))
        rounds = max(1, n // 5)
        recorder.check(
            f"{5 * rounds} collectives of all kinds, {way}",
            partial(all_kinds, arena, way, rounds),
        )
    if COMPILED not in arena.computing:
        return
    recorder.check("the same behind a busy GPU, compiled", lambda: behind_work(arena, on_gpu))
    recorder.check("  is a collective on another stream noticed?", lambda: control(arena, on_gpu))


def placement(arena: AddressArena, way: str, steps: int) -> Found:
    """x ← Σ_r (3 x_r + r + 1), `steps` times, from two inputs: no stale memory fits both."""
    request = Allreduce("uint32", (_CHAIN_COUNT,), Sum)
    program = arena.loop(way, [request], steps, computes=True)
    for seed in (0, 1):
        text = _loop_difference(arena, program, [[request]] * arena.size, steps, seed)
        if text:
            raise WrongError(text)
    return f"1 MiB each, exact on {arena.size} rank(s)", {"steps": steps}


def all_kinds(arena: AddressArena, way: str, rounds: int) -> Found:
    """All five collectives in turns, `rounds` times, computing between them."""
    count = _TRIP_COUNT * arena.size
    requests = [round_trip(r, arena.size, count) for r in range(arena.size)]
    program = arena.loop(way, requests[arena.rank], rounds, computes=True)
    text = _loop_difference(arena, program, requests, rounds, 0)
    if text:
        raise WrongError(text)
    return "exact", {"rounds": rounds}


def _loop_difference(
    arena: AddressArena,
    program: Program,
    requests: list[list[Request]],
    steps: int,
    seed: int,
) -> str:
    count = requests[0][0].count
    xs = [pattern(count, r, "uint32", seed=seed) for r in range(arena.size)]
    program.load(xs[arena.rank])
    program.start()
    return difference(program.result(), loop_result(requests, xs, arena.rank, steps))


def behind_work(arena: AddressArena, on_gpu: bool) -> Found:
    """Everything is enqueued while the GPU is busy with something else in front of it."""
    if not on_gpu:
        raise SkippedError("a rehearsal has no streams")
    text, ahead = _queued(arena, stream=None)
    if text:
        raise WrongError(text)
    return f"exact; {ahead} of 100 were enqueued before the GPU began", {"ahead": ahead}


def control(arena: AddressArena, on_gpu: bool) -> Found:
    """The check of the check: what does not stand between the kernels must come out wrong."""
    if not on_gpu or arena.size > 1 or arena.stream is None:
        raise SkippedError("takes one rank on a GPU")
    text, _ = _queued(arena, stream=arena.stream)
    if not text:
        raise WrongError("no: with all collectives on another stream the values were right too")
    return f"yes: {text}", {}


def _queued(arena: AddressArena, stream: int | None) -> tuple[str, int]:
    request = Allreduce("uint32", (_CHAIN_COUNT,), Sum)
    program = arena.loop(COMPILED, [request], 100, computes=True, unrolled=True)
    _loop_difference(arena, program, [[request]] * arena.size, 100, 2)  # compiles
    assert arena.stream is not None
    busy = Busy(arena.device, BUSY_SECONDS, arena.stream)
    arena.meet()
    arena.probe.begin()
    arena.probe.front, arena.probe.stream = busy, stream
    try:
        text = _loop_difference(arena, program, [[request]] * arena.size, 100, 3)
    finally:
        arena.probe.front = arena.probe.stream = None
        arena.finish()
        ahead = arena.probe.end().ahead
        busy.release()
    return text, ahead


def check_errors(arena: AddressArena, recorder: Recorder) -> None:
    """A transfer that raises, in every way (local; for one rank)."""
    for way in arena.ways:
        recorder.check(f"an error in a transfer, {way}", partial(error_path, arena, way))


def error_path(arena: AddressArena, way: str) -> Found:
    """What the transfer raises reaches the caller, and the process goes on."""
    request = Allreduce("float32", (61,), Sum)
    x = values(request, arena.rank)
    run = arena.once(way, [request])
    kind = _raised_kind(arena, lambda: run([x]))
    text = difference(run([x])[0], expected([request], [x], 0))
    if text:
        raise WrongError(f"after the error ({kind}) the same program gave {text}")
    return f"came as {kind}; the next call was right", {"kind": kind}


def _raised_kind(arena: AddressArena, action: Callable[[], list[np.ndarray]]) -> str:
    arena.probe.failing = _COLD
    try:
        action()
    except Exception as error:
        if _COLD not in str(error):
            raise WrongError(f"the error lost its text: {error}") from error
        return type(error).__name__
    finally:
        arena.probe.failing = ""
    raise WrongError("nothing was raised")

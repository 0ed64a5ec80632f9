"""The loop of stacked members in parts, several of which run at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.training.loop.loop import RUNNING, Chunk, Limits, Loop, Span, State

Tensor = Any


class DividedLoop:
    """What a `Loop` is for M stacked members, made of the loops of some members each.

    XLA runs a loop of small operations on one core. Members do not depend on one another, so
    their parts can run at the same time, each in a thread: TensorFlow lets go of Python's lock
    while a compiled function runs. States and results are those of all M members in their order,
    whatever the parts are.
    """

    def __init__(
        self,
        whole: Loop,
        parts: Sequence[Loop],
        members: Sequence[int],
        *,
        of_members: Sequence[bool],
        threads: int,
    ) -> None:
        self._whole, self._parts = whole, tuple(parts)
        ends = np.cumsum(members)
        self._rows = [slice(int(e - m), int(e)) for e, m in zip(ends, members, strict=True)]
        self._of_members = tuple(of_members)
        self._threads = min(threads, len(parts))
        self._compiled = False

    def start(self, parameters: Tensor, before: State | None = None) -> State:
        return self._whole.start(parameters, before)

    def finish(self, state: State) -> State:
        return self._whole.finish(state)

    def advance(
        self, state: State, data: Sequence[Any], limits: Limits, rate_factor: Tensor, span: Span
    ) -> Chunk:
        """See `Loop`; `data` are those of the parts.

        An error in one part is raised when all others are at the end of their chunk.
        """
        began = time.perf_counter()
        before = [self._part_of(state, rows) for rows in self._rows]
        runs = [bool(np.any(each.ended.numpy() == RUNNING)) for each in before]

        def work(k: int) -> Chunk:
            # Where all members have ended, a step that is thrown away tells their loss.
            given, reopened = before[k], tf.fill(before[k].ended.shape, RUNNING)
            given = given if runs[k] else given._replace(ended=reopened)
            own = span if runs[k] else span._replace(steps=1)
            factors = rate_factor[self._rows[k]]
            return self._parts[k].advance(given, data[k], limits, factors, own)

        chunks = self._for_each_part(work)
        after = [c.state if ran else b for c, ran, b in zip(chunks, runs, before, strict=True)]
        longest = max(range(len(chunks)), key=lambda k: (runs[k], chunks[k].done))
        steps = chunks[longest].steps
        return Chunk(
            state=self._joined(after, of_all=after[longest]),
            done=chunks[longest].done,
            terms=np.concatenate([chunk.terms for chunk in chunks]),
            steps=steps,
            records=np.concatenate([_lengthened(c, len(steps)) for c in chunks], axis=1),
            weights=np.concatenate([_with_gaps(c, len(steps)) for c in chunks], axis=1),
            seconds=time.perf_counter() - began,
        )

    def terms_at(self, parameters: Tensor, batch: Sequence[Any]) -> np.ndarray:
        """See `Loop`; `batch` are those of the parts."""
        parts = zip(self._parts, self._rows, batch, strict=True)
        return np.concatenate([loop.terms_at(parameters[rows], own) for loop, rows, own in parts])

    def _for_each_part(self, work: Callable[[int], Chunk]) -> list[Chunk]:
        numbers = range(len(self._parts))
        if self._threads == 1 or not self._compiled:
            # Functions are traced in this thread; parts that are the same program compile once.
            found = [work(k) for k in numbers]
            self._compiled = True
            return found
        with ThreadPoolExecutor(self._threads, thread_name_prefix="part of a loop") as pool:
            running = [pool.submit(work, k) for k in numbers]
        return [each.result() for each in running]

    def _part_of(self, state: State, rows: slice) -> State:
        leaves = [
            leaf[rows] if own else leaf
            for leaf, own in zip(tf.nest.flatten(state), self._of_members, strict=True)
        ]
        return tf.nest.pack_sequence_as(state, leaves)

    def _joined(self, parts: Sequence[State], *, of_all: State) -> State:
        """Return the state of all members; common tensors are those of the part `of_all`."""
        leaves = zip(*(tf.nest.flatten(part) for part in parts), strict=True)
        joined = [
            tf.concat(own, axis=0) if divided else common
            for own, common, divided in zip(
                leaves, tf.nest.flatten(of_all), self._of_members, strict=True
            )
        ]
        return tf.nest.pack_sequence_as(of_all, joined)


def divide_loop(
    whole: Loop, parts: Sequence[Loop], parameters: Sequence[Tensor], *, threads: int
) -> DividedLoop | None:
    """Return the loop of all members made of its parts, if a state can be divided among them."""
    members = [len(theta) for theta in parameters]
    of_all = _forms(whole.start(tf.concat(parameters, axis=0)))
    of_parts = [_forms(loop.start(theta)) for loop, theta in zip(parts, parameters, strict=True)]
    if any(len(forms) != len(of_all) for forms in of_parts):
        return None
    of_members = []
    for form, *own in zip(of_all, *of_parts, strict=True):
        shape, dtype = form
        rows = shape[:1] == (sum(members),)
        rows = rows and own == [((count, *shape[1:]), dtype) for count in members]
        if not rows and any(each != form for each in own):
            return None
        of_members.append(rows)
    return DividedLoop(whole, parts, members, of_members=of_members, threads=threads)


def _forms(state: State) -> list[tuple[tuple[int, ...], Any]]:
    return [(tuple(leaf.shape), leaf.dtype) for leaf in tf.nest.flatten(state)]


def _with_gaps(chunk: Chunk, count: int) -> np.ndarray:
    """Return the weights of a part, with none where its members have ended before others."""
    own = chunk.weights[:count]
    return np.concatenate([own, np.full((count - len(own), *own.shape[1:]), np.nan)])


def _lengthened(chunk: Chunk, count: int) -> np.ndarray:
    """Return the records of a part whose members have ended before others: their loss stays."""
    own = chunk.records[:count]
    unknowns = own.shape[2] - chunk.terms.shape[1]
    parameters = chunk.state.parameters.numpy()
    last = np.concatenate([chunk.terms, parameters[:, parameters.shape[1] - unknowns :]], axis=1)
    more = np.broadcast_to(last, (count - len(own), *last.shape))
    return np.concatenate([own, more])

"""Collectives through the shared memory of a host, by machine code in compiled functions."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from mpi4py import MPI
from ranks import MISMATCHES, generator, same_on_all_ranks

import sciml_par.parallel as sp
from sciml_par.errors import InputError, TransferError
from sciml_par.parallel.native import shared_memory
from sciml_par.parallel.native.job import VARIABLE, settle_native
from sciml_par.parallel.native.layout import Group
from sciml_par.parallel.requests.request import Allgather, Allreduce

pytestmark = pytest.mark.ranks(least=2, reason="one rank shares memory with nobody")
up_to_three = pytest.mark.ranks(least=2, most=3, reason="a fourth rank does what the third does")

FAILURES = (TransferError, *MISMATCHES)


@pytest.fixture
def unfreed():
    """A group with shared memory, which is not freed after the test."""
    group = sp.current_world().communicator.split(0)
    if group.shared is None:
        pytest.skip(group.native.obstacle or "the ranks are on several hosts")
    return group


@pytest.fixture
def group(unfreed):
    """A group with shared memory."""
    yield unfreed
    unfreed.free()


def loop_of(collective):
    """A compiled function that does it `steps` times, each on the result of the one before."""

    @tf.function(jit_compile=True)
    def loop(x, steps):
        return tf.while_loop(lambda i, _: i < steps, lambda i, y: (i + 1, collective(y)), (0, x))[1]

    return loop


def carried(group):
    """How many transfers went through shared memory."""
    return group.shared.words[Group.CALLS] - group.shared.comparisons


def visited(group):
    """Let the next collective go by Python, as the watchdog does now and then."""
    group.progress.visit()


@pytest.mark.parametrize("count", (1, 322, 1024))
def test_the_sum_is_the_same_to_the_last_bit_with_and_without(group, by_mpi, count):
    if sp.size() == 3:
        pytest.skip("MPI chooses the order for three")
    x = tf.constant(generator(sp.rank(), "bits").normal(size=count), tf.float32)
    results = []
    for each in (group, by_mpi):
        loop = loop_of(lambda y, each=each: 0.5 * sp.allreduce(y, sp.Sum, communicator=each))
        results.append(loop(x, tf.constant(5)))
    assert results[0].numpy().tobytes() == results[1].numpy().tobytes()
    assert same_on_all_ranks(results[:1])
    assert carried(group) == 5


def test_each_collective_gives_what_it_gives_by_mpi(group, by_mpi):
    x = tf.constant(generator(sp.rank(), "each").normal(size=[5, 3]) * 9, tf.float32)

    def every(x, on):
        fused = sp.fused_allreduce([x, x[:3], x[1, None]], sp.Sum, communicator=on)
        return [
            sp.allreduce(tf.cast(x, tf.float64), sp.Average, communicator=on),
            sp.allreduce(tf.cast(x, tf.int32), sp.Max, communicator=on),
            sp.allreduce(tf.complex(x, x), sp.Sum, communicator=on),
            sp.broadcast(x, sp.size() - 1, communicator=on),
            sp.allgather(x[: sp.rank()], communicator=on),
            fused[1],
        ]

    results = []
    for on in (group, by_mpi):
        run = tf.function(lambda x, on=on: every(x, on), jit_compile=True)
        results.append([y.numpy() for _ in range(3) for y in run(x)])
    for shared, sent in zip(*results, strict=True):
        np.testing.assert_allclose(shared, sent, rtol=1e-6)
    assert carried(group) == 3 * 6


def test_only_what_fits_goes_through_shared_memory(group):
    fits = group.shared.longest // 4
    for count, through in ((fits, 1), (fits + 1, 0)):
        before = carried(group)
        y = sp.allreduce(tf.fill([count], 1.0 + sp.rank()), sp.Max, communicator=group)
        assert tf.reduce_all(y == sp.size()) and carried(group) == before + through
    assert not group.shared.carries(Allreduce("float32", (0,), sp.Sum))
    assert group.shared.carries(Allreduce("bfloat16", (3,), sp.Sum))
    assert not group.shared.carries(Allreduce("bool", (3,), sp.Max))
    rows = (fits + 1, *(0,) * (sp.size() - 1))  # which is the same on the ranks that have none
    assert not group.shared.carries(Allgather("float32", (rows[sp.rank()],), rows))


@up_to_three
def test_the_order_is_known_wherever_a_collective_ran(group):
    loop = loop_of(lambda y: sp.allreduce(y, sp.Max, communicator=group))
    for step in range(3):
        loop(tf.ones(3), tf.constant(20))
        sp.allreduce(tf.ones(2), sp.Max, communicator=group)
        if step == 1 and sp.rank() == 0:
            visited(group)  # one rank does the next by Python, and others by machine code
    history = group.progress.history
    assert [number for number, _ in history] == list(range(1, 64))
    assert [announcement.request.shape for _, announcement in history] == ([(3,)] * 20 + [(2,)]) * 3
    number, digest = group.progress.newest_digest()
    assert number == 48 and group.progress.digest_after(48) == digest
    digests = sp.current_world().communicator.allgather_object((digest, group.progress.sequence))
    assert set(digests) == {(digest, 63)} and group.progress.in_progress is None


@up_to_three
def test_who_observes_is_told_of_every_collective(group):
    told = []

    class Observer:
        def begun(self, number, announcement):
            told.append((number, announcement.request.shape))

        def ended(self, number, *_):
            told.append(number)

        def for_new_group(self, _):
            return None

    loop = loop_of(lambda y: sp.allreduce(y, sp.Max, communicator=group))
    loop(tf.ones(3), tf.constant(4))
    observer = Observer()
    if sp.rank() == 0:
        group.progress.observe(observer)
    loop(tf.ones(3), tf.constant(2))
    group.progress.forget(observer)
    loop(tf.ones(3), tf.constant(4))
    assert told == ([(5, (3,)), 5, (6, (3,)), 6] if sp.rank() == 0 else [])
    assert carried(group) == 10


@up_to_three
@pytest.mark.parametrize(
    "asked",
    (((sp.Sum, 3), (sp.Sum, 2000)), ((sp.Max, 3), (sp.Sum, 3))),
    ids=("lengths", "operations"),
)
def test_requests_that_differ_though_all_were_agreed_on(group, asked):
    """Also of one length, which MPI would carry, with another result on each rank."""
    functions = [
        tf.function(lambda x, op=op: sp.allreduce(x, op, communicator=group), jit_compile=True)
        for op, _ in asked
    ]
    for function, (_, count) in list(zip(functions, asked, strict=True)) * 2:
        function(tf.ones(count))
    mine = int(sp.rank() == sp.size() - 1)
    with pytest.raises(FAILURES, match="did not ask for the same collective") as error:
        functions[mine](tf.ones(asked[mine][1]))
    for op, count in asked:
        assert f"allreduce(float32 [{count}], {op!r})" in str(error.value)
    group.barrier()  # every rank has been told, at the same place of the order
    assert float(functions[1](tf.ones(3))[0]) == sp.size()


@up_to_three
@pytest.mark.parametrize(
    ("what", "who"),
    (("compiled", "one"), ("compiled", "others"), ("eager", "others"), ("barrier", "one")),
)
def test_a_new_request_of_some_ranks_and_a_known_one_of_others(group, what, who):
    """Ranks that compare and ranks that wait in shared memory notice each other, and continue."""
    known = loop_of(lambda y: sp.allreduce(y, sp.Max, communicator=group))
    for _ in range(2):
        known(tf.ones(3), tf.constant(3))
    new = {
        "compiled": lambda: loop_of(lambda y: sp.allreduce(y, sp.Min, communicator=group))(
            tf.ones(5), tf.constant(2)
        ),
        "eager": lambda: sp.allreduce(tf.ones(5), communicator=group),
        "barrier": group.barrier,
    }[what]
    is_new = (sp.rank() == sp.size() - 1) == (who == "one")
    before = carried(group)
    with pytest.raises(FAILURES, match="did not ask for the same collective") as error:
        new() if is_new else known(tf.ones(3), tf.constant(7))
    assert "allreduce(float32 [3], Max)" in str(error.value)
    assert carried(group) == before + (not is_new)
    y = known(tf.fill([3], float(sp.rank())), tf.constant(2))
    np.testing.assert_array_equal(y, np.full(3, sp.size() - 1))
    group.barrier()


@up_to_three
def test_ranks_that_differ_wait_for_one_that_comes_late(group):
    """The watchdog, which looks after half a second, leaves them to the error that all will get."""
    known = sp.allreduce(tf.ones(3), communicator=group)
    if sp.rank() == sp.size() - 1:
        time.sleep(1.5)
    with pytest.raises(FAILURES, match=r"rank 0: allreduce\(float32 \[5\]"):
        sp.allreduce(tf.ones(5 if sp.rank() == 0 else 3), communicator=group)
    np.testing.assert_array_equal(sp.allreduce(tf.ones(3), communicator=group), known)


@up_to_three
def test_a_group_that_was_freed_is_refused(unfreed):
    loop = loop_of(lambda y: sp.allreduce(y, sp.Max, communicator=unfreed))
    loop(tf.ones(3), tf.constant(4))
    unfreed.free()
    with pytest.raises(FAILURES, match="it was freed"):
        loop(tf.ones(3), tf.constant(4))


@pytest.mark.ranks(most=2, reason="it is about the threads of a rank")
def test_another_thread_is_refused_while_a_compiled_program_waits():
    """Two compiled programs take turns automatically: they share the variable of the order."""
    group = sp.current_world().communicator.split(0)
    loop = loop_of(lambda y: sp.allreduce(y, sp.Max, communicator=group))
    loop(tf.ones(3), tf.constant(2))
    group.all_groups.remove(group)  # out of the sight of the ranks' own watchdogs
    if sp.rank() == 0:  # the other rank is not there: the program waits
        waiting = threading.Thread(target=loop, args=(tf.ones(3), tf.constant(1)), daemon=True)
        waiting.start()
        while group.progress.in_progress is None:
            time.sleep(0.01)
        with pytest.raises(InputError, match="was in progress in another thread"):
            sp.allreduce(tf.ones(3), sp.Max, communicator=group)
    MPI.COMM_WORLD.Barrier()
    if sp.rank() == 1:
        loop(tf.ones(3), tf.constant(1))
    else:
        waiting.join(timeout=20)
        assert not waiting.is_alive()


@pytest.mark.ranks(most=2, reason="one rank waits, the other does not come")
@pytest.mark.parametrize(
    ("raised", "expected", "text"),
    [
        (KeyboardInterrupt, KeyboardInterrupt, ""),
        (TimeoutError, TransferError, "a signal has ended a wait"),
    ],
)
def test_a_signal_ends_a_wait(unfreed, raised, expected, text):
    group = unfreed
    sp.allreduce(tf.ones(3), communicator=group)
    group.all_groups.remove(group)
    if sp.rank() == 0:

        def interrupt(*_):
            raise raised

        before = signal.signal(signal.SIGUSR1, interrupt)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        began = time.monotonic()
        with pytest.raises(expected, match=text):
            sp.allreduce(tf.ones(3), communicator=group)
        assert time.monotonic() - began < 5
        signal.signal(signal.SIGUSR1, before)
        with pytest.raises(TransferError):  # for the others would read what is not theirs
            sp.allreduce(tf.ones(3), communicator=group)
    MPI.COMM_WORLD.Barrier()


def test_a_thousand_calls_with_ranks_that_come_at_any_time(group):
    random = generator(sp.rank(), "delays")
    call = group.shared.transfer(Allreduce("float32", (100,), sp.Sum))
    x, y = np.empty(100, np.float32), np.empty(100, np.float32)
    for step in range(1000):
        x[:] = (np.arange(100) + step) * (1 + sp.rank())
        late = random.random()
        if late < 0.02:
            time.sleep(late / 20)
        in_place = step % 3 == 0
        call(x.ctypes.data, x.ctypes.data if in_place else y.ctypes.data)
        expected = (np.arange(100, dtype=np.float32) + step) * (sp.size() * (sp.size() + 1) // 2)
        np.testing.assert_array_equal(x if in_place else y, expected)


@up_to_three
def test_ranks_settle_together_whether_they_have_it():
    control = sp.current_world().communicator.control
    off = {VARIABLE: "0"} if sp.rank() == 1 else {VARIABLE: "1"}
    job = settle_native(MPI.COMM_WORLD, control, off)
    assert job.obstacle.startswith("rank ") and f"{VARIABLE}=0" in job.obstacle
    assert len(job.hosts) == len(job.crowded) == sp.size()
    with pytest.raises(InputError, match=f"{VARIABLE}: expected 0 or 1; got 'off'"):
        settle_native(MPI.COMM_WORLD, control, {VARIABLE: "off"} if sp.rank() == 1 else {})


def test_memory_that_one_rank_cannot_have_nobody_has(monkeypatch):
    control = sp.current_world().communicator.control
    nbytes = 1 << 16
    shared = shared_memory.shared_between(control, nbytes)
    assert shared is not None
    if sp.rank() == 1:
        monkeypatch.setattr(shared_memory, "_opened", lambda *_: None)
    assert shared_memory.shared_between(control, nbytes) is None

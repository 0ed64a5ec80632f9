"""Ranks fail together: every fault ends the whole job soon, with one message that names the ranks.

Each test starts a separate program on three ranks (the serial run only).
"""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from launch import Ended, launch

pytestmark = [
    pytest.mark.launches,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun on PATH"),
]

PROGRAM = """
import os, sys, time
import sciml_par.parallel as sp

if sys.argv[1].endswith("_by_mpi"):  # in which a rank may be done before others begin
    os.environ["SCIML_PAR_NATIVE"] = "0"
sp.init()
import tensorflow as tf

rank, last = sp.rank(), sp.rank() == sp.size() - 1


def say(line):
    os.write(1, f"{line}\\n".encode())  # in one piece, or the ranks cut into each other


def loop(steps):
    step = lambda i, x: (i + 1, sp.allreduce(x))
    return tf.while_loop(lambda i, x: i < steps, step, (0, tf.ones(3)))[1]


def one_raises():
    if rank == 1:
        raise RuntimeError("the furnace is cold")
    sp.allreduce(tf.ones(2))


def one_raises_at_the_end():
    if last:
        raise RuntimeError("the furnace is cold")


def all_raise():
    raise ValueError("no such mesh")


def one_leaves():
    if last:
        sys.exit(0)
    sp.allreduce(tf.ones(2))


def one_leaves_with_a_code():
    if last:
        sys.exit(3)
    sp.allreduce(tf.ones(2))


def one_leaves_unheard():
    from sciml_par.parallel.groups.mailbox import Left, Mailbox

    send = Mailbox.send
    if last:
        Mailbox.send = lambda box, message, **to: (
            message.again and send(box, message, **to) if isinstance(message, Left) else None
        )
        sys.exit(0)
    sp.allreduce(tf.ones(2))


def one_dies():
    if last:
        os._exit(5)
    sp.allreduce(tf.ones(2))


def loops_differ():
    tf.function(loop, jit_compile=True)(tf.constant(10 if last else 10_000_000))
    sp.barrier()


def group_differs():
    group = sp.current_world().communicator.split(0)
    sp.allreduce(tf.ones(3 + last), communicator=group)


def one_traces_alone():
    f = tf.function(lambda x: tf.reduce_sum(sp.allgather(x)), jit_compile=True)
    f(tf.ones([4, 2]))
    f(tf.ones([3 if last else 4, 2]))


def known_lengths_differ():
    for n in (3, 2000):
        sp.allreduce(tf.ones(n))
    sp.allreduce(tf.ones(2000 if last else 3))


def known_operations_differ():
    for op in (sp.Sum, sp.Max):
        sp.allreduce(tf.ones(3), op)
    sp.allreduce(tf.ones(3), sp.Max if last else sp.Sum)
    for _ in range(2000):  # which agree with nobody any more
        sp.allreduce(tf.ones(3), sp.Sum)
        time.sleep(0.01)


def known_broadcast():
    sp.broadcast(tf.ones(5), 2)
    sp.allreduce(tf.ones(2))
    if last:
        sp.broadcast(tf.ones(5), 2)  # of which it is done before the others begin


def one_is_further():
    known_broadcast()
    sp.allreduce(tf.ones(2 if last else 3))


def one_leaves_further():
    known_broadcast()
    if last:
        sys.exit(0)
    sp.allreduce(tf.ones(3))


def one_leaves_and_pairs():
    known_broadcast()
    sp.allreduce(tf.ones(2))
    if last:
        sys.exit(0)
    sp.allreduce(tf.ones(2))


one_leaves_and_pairs_by_mpi = one_leaves_and_pairs


def one_joins_further():
    known_broadcast()
    if last:
        sp.join()
    sp.allreduce(tf.ones(3))


def one_splits():
    if last:
        sp.current_world().communicator.split(0)
    sp.allreduce(tf.ones(2))


def nothing():
    say(f"total {sp.allreduce(1.0, sp.Sum).numpy()}")


sp.allreduce(tf.ones(2))
globals()[sys.argv[1]]()
if sys.argv[1] != "one_raises_at_the_end":
    sp.allreduce(tf.ones(2))
    say("went on")
time.sleep(0.5 * rank)  # ranks may end at different times
"""


IN_SHARED_MEMORY = find_spec("llvmlite") and os.environ.get("SCIML_PAR_NATIVE", "") != "0"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("faults") / "program.py"
    path.write_text(PROGRAM)
    return path


def run(program: Path, fault: str, *, ranks: int | None = None) -> Ended:
    """Run the program with this fault; if it hangs, the test fails."""
    return launch(ranks, program, fault, folder=program.parent, threads=1)


def assert_failed(ended: Ended) -> None:
    assert ended.code != 0, ended.out + ended.err
    assert "went on" not in ended.out


def assert_once(text: str, ended: Ended) -> None:
    said = ended.out + ended.err
    assert said.count(text) == 1, said


@pytest.mark.all_after(1)
@pytest.mark.parametrize("fault", ("one_raises", "one_raises_at_the_end"))
def test_one_rank_raises(program, fault):
    ended = run(program, fault, ranks=3)
    assert_failed(ended)
    assert_once("RuntimeError: the furnace is cold", ended)
    assert_once("Traceback", ended)
    assert_once(f"rank {1 if fault == 'one_raises' else 2} of 3", ended)


@pytest.mark.all
def test_all_ranks_raise_the_same(program):
    ended = run(program, "all_raise", ranks=3)
    assert_failed(ended)
    assert_once("ValueError: no such mesh", ended)
    assert_once("Traceback", ended)


@pytest.mark.all_after(1)
@pytest.mark.parametrize(
    ("fault", "usual", "other"),
    [
        ("loops_differ", "allreduce(float32 [3], Average)", "barrier("),
        ("group_differs", "allreduce(float32 [3], Average)", "allreduce(float32 [4], Average)"),
    ],
)
def test_the_ranks_do_not_agree(program, fault, usual, other):
    ended = run(program, fault, ranks=3)
    assert_failed(ended)
    assert_once("did not ask for the same collective", ended)
    assert_once(f"rank 2: {other}", ended)
    assert_once(f": {usual}", ended)


@pytest.mark.all_after(1)
@pytest.mark.parametrize(
    ("fault", "other", "usual"),
    (
        ("one_is_further", "broadcast(float32 [5], root 2)", "allreduce(float32 [3], Average)"),
        ("one_leaves_further", "broadcast(float32 [5], root 2)", "allreduce(float32 [3], Average)"),
        ("one_leaves_and_pairs_by_mpi", "broadcast(float32 [5], root 2)", "allreduce(float32 [2]"),
        ("one_joins_further", "broadcast(float32 [5], root 2)", "allreduce(float32 [3], Average)"),
        ("one_splits", "split()", "allreduce(float32 [2], Average)"),
    ),
)
def test_one_rank_is_not_where_the_others_wait_for_it(program, fault, other, usual):
    """The rank is further, has left, or is in join."""
    ended = run(program, fault, ranks=3)
    assert_failed(ended)
    assert_once("did not ask for the same collective", ended)
    assert_once(f"rank 2: {other}", ended)
    assert f": {usual}" in ended.err


@pytest.mark.all
def test_shared_memory_pairs_nothing_that_differs(program):
    ended = run(program, "one_leaves_and_pairs", ranks=3)
    assert_failed(ended)
    assert_once("did not ask for the same collective", ended)
    assert_once("ranks 0 and 1: allreduce(float32 [2], Average)", ended)
    assert_once("rank 2: broadcast(float32 [5], root 2)", ended)


@pytest.mark.all
def test_one_rank_traces_alone_what_all_must_trace(program):
    ended = run(program, "one_traces_alone", ranks=3)
    assert_failed(ended)
    assert_once("rank 2: allgather(float32 [any, 2]): numbers of rows", ended)
    assert_once("traces it again, alone, for a tensor of another shape", ended)


@pytest.mark.all_after(1)
@pytest.mark.parametrize(
    ("fault", "usual", "other"),
    [
        ("known_lengths_differ", "float32 [3], Average", "float32 [2000], Average"),
        ("known_operations_differ", "float32 [3], Sum", "float32 [3], Max"),
    ],
)
def test_the_ranks_ask_for_other_things_that_they_have_agreed_on(program, fault, usual, other):
    """Shared memory compares each time. Else MPI finds it, by an abort, or the watchdogs do."""
    ended = run(program, fault, ranks=3)
    assert_failed(ended)
    if IN_SHARED_MEMORY:
        assert_once(f"ranks 0 and 1: allreduce({usual})", ended)
        assert_once(f"rank 2: allreduce({other})", ended)
        return
    said = ended.out + ended.err
    by_mpi = "MPI could not carry" in said or "Message truncated" in said
    assert by_mpi or "did not ask for the same collective" in said, said


@pytest.mark.all_after(1)
@pytest.mark.parametrize("fault", ("one_leaves", "one_leaves_with_a_code", "one_leaves_unheard"))
def test_one_rank_leaves(program, fault):
    ended = run(program, fault, ranks=3)
    assert_failed(ended)
    assert_once("Rank 2 ended the program while rank", ended)
    assert_once("waits in allreduce(float32 [2], Average)", ended)


def test_one_rank_dies(program):
    """No Python runs any more on that rank, and the launcher's message names another process."""
    ended = run(program, "one_dies", ranks=3)
    assert_failed(ended)
    assert_once("sciml_par: rank 2 of 3 on ", ended)


ELSEWHERE = """
import sys
import sciml_par.parallel as sp

sp.init(stall_warning=1.0, stall_limit=2.0)
from mpi4py import MPI


def wait():
    MPI.COMM_WORLD.Barrier()


wait()
if sp.rank() == int(sys.argv[1]):
    wait()
sp.barrier()
"""


@pytest.mark.all_after(1)
@pytest.mark.parametrize("rank", (0, 1))
def test_a_rank_in_a_call_of_its_own_is_named_with_the_place(rank, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(ELSEWHERE)
    ended = launch(2, program, str(rank), folder=tmp_path, threads=1)
    assert ended.code != 0
    at = f"rank {rank} at program.py:10, in MPI.COMM_WORLD.Barrier()"
    place = f"rank {rank} did not come ({at})."
    assert ended.err.count(place) == 2, ended.err  # the warning, and the end of the job


@pytest.mark.all_after(2)
@pytest.mark.parametrize(("ranks", "total"), [(2, "2.0"), (None, "1.0"), (1, "1.0")])
def test_no_fault(program, ranks, total):
    """The same program without a fault; also without mpirun, which is a run on one rank.

    What a sentinel would write, should it outlive its ranks, is waited for: it has them in view,
    and their standard error.
    """
    ended = run(program, "nothing", ranks=ranks)
    assert ended.code == 0, ended.out + ended.err
    assert ended.out.count(f"total {total}\n") == ended.out.count("went on\n") == (ranks or 1)
    assert ended.err == ""


def test_an_error_on_one_rank_alone_is_pythons_own(program):
    ended = run(program, "all_raise")
    assert ended.code == 1
    assert_once("ValueError: no such mesh", ended)
    assert_once("Traceback", ended)
    assert "sciml_par: rank" not in ended.err


def test_without_an_mpi(program, monkeypatch):
    monkeypatch.setenv("MPI4PY_LIBMPI", "/nowhere/libmpi.so")
    ended = run(program, "nothing")
    assert ended.code == 1
    last_line = ended.err.rstrip().splitlines()[-1]
    assert "no MPI library was found: install one with pip install 'sciml-par[mpich]'" in last_line

"""After a mismatch of which every rank was told, the group goes on: in every context."""

from __future__ import annotations

import itertools

import pytest
import tensorflow as tf
from ranks import MISMATCHES, compiled, compiled_loop, eager, graph

import sciml_par.parallel as sp
from sciml_par.errors import CollectiveMismatchError

pytestmark = pytest.mark.ranks(least=2, reason="one rank always agrees with itself")


def session(program):
    def run():
        with tf.Graph().as_default(), tf.compat.v1.Session() as running:
            return running.run(program())

    return run


def done(context, program):
    """The number that a program gives in a context."""
    return float(context(lambda: [program()])()[0])


CONTEXTS = (eager, graph, compiled, compiled_loop, session)
AFTERWARDS = (eager, compiled, session)


@pytest.fixture(autouse=True)
def forget_agreements():
    sp.current_world().communicator.progress.ledger.clear()


def mismatch():
    """Of which each rank does more afterwards, what nobody must wait for."""
    op = sp.Max if sp.rank() == sp.size() - 1 else sp.Sum
    y = sp.allreduce(tf.ones([2 + 0 * sp.rank()]), op)
    return tf.reduce_sum(sp.allreduce(y + 1.0, sp.Sum))


def total():
    y = sp.allreduce(tf.fill([3], 1.0 + sp.rank()), sp.Sum)
    return tf.reduce_sum(sp.broadcast(y, sp.size() - 1))


@pytest.mark.ranks(most=2, reason="the tests below show of more ranks that all contexts go on")
@pytest.mark.parametrize("failing", CONTEXTS)
def test_all_contexts_go_on(failing):
    expected = 3 * sum(range(1, sp.size() + 1))
    for _ in range(2):
        with pytest.raises(MISMATCHES, match="did not ask for the same collective"):
            done(failing, mismatch)
    for context in AFTERWARDS:
        assert done(context, total) == expected


def test_one_session_and_one_function_go_on():
    """The same Session, and the same compiled function, as soon as the ranks agree."""
    flag = tf.Variable(True)

    def program(wrong):
        op = sp.Max if wrong and sp.rank() == 0 else sp.Sum
        return sp.allreduce(tf.constant(1.0), op, name=f"{wrong}")

    @tf.function(jit_compile=True)
    def run(wrong):
        return tf.cond(wrong, lambda: program(True), lambda: program(False))

    with pytest.raises(tf.errors.FailedPreconditionError):
        run(flag)
    flag.assign(False)
    assert run(flag).numpy() == sp.size()
    with tf.Graph().as_default(), tf.compat.v1.Session() as running:
        wrong = program(True)
        right = program(False)
        with pytest.raises(tf.errors.FailedPreconditionError, match="Max, name 'True'"):
            running.run(wrong)
        with pytest.raises(tf.errors.FailedPreconditionError):
            running.run(right)  # stands behind the other in the order of the graph
    assert run(flag).numpy() == sp.size()


def test_a_rank_is_not_done_before_the_others_begin(by_mpi):
    """Although the ranks agreed on the call before, and rank 0 gets nothing from the others."""
    x = tf.ones([2 * sp.size()])
    alone = [x.shape[0] if r == 0 else 0 for r in range(sp.size())]
    calls = {
        "broadcast": lambda: sp.broadcast(x, 0, communicator=by_mpi),
        "alltoall": lambda: sp.alltoall(x, alone, communicator=by_mpi)[0],
        "allgather": lambda: sp.allgather(x[: alone[sp.rank()]], communicator=by_mpi),
        "reducescatter": lambda: sp.reducescatter(x[:1], communicator=by_mpi),
    }
    for kind, call in calls.items():
        expected = call()
        with pytest.raises(CollectiveMismatchError, match=f"rank 0: {kind}"):
            if sp.rank() == 0:
                call()
            by_mpi.barrier()
        assert call().numpy().tolist() == expected.numpy().tolist()
    assert done(compiled, total) == 3 * sum(range(1, sp.size() + 1))


@pytest.mark.ranks(least=3, reason="needs one rank in join, and two that differ")
def test_who_had_joined_has_not_after_a_mismatch():
    with pytest.raises(CollectiveMismatchError):
        if sp.rank() == 0:
            sp.join()
        sp.allreduce(tf.ones([3 + sp.rank()]), sp.Sum)
    if sp.rank() == 0:  # by itself, and the others are to be told of it
        assert float(sp.allreduce(tf.constant(5.0), sp.Sum)) == 5.0
    assert sp.join() == 0


def test_ranks_out_of_step_go_on():
    group = sp.current_world().communicator
    before = group.progress.sequence
    group.progress.sequence += sp.rank()
    with pytest.raises(CollectiveMismatchError, match="its collective number") as error:
        sp.barrier()
    for rank in range(sp.size()):
        said = f"rank {rank}: barrier(), its collective number {before + 1 + rank}"
        assert said in str(error.value)
    numbers = group.allgather_object(group.progress.sequence)
    assert numbers == [numbers[0]] * sp.size()
    for context in AFTERWARDS:
        assert done(context, total) == 3 * sum(range(1, sp.size() + 1))


CALLS = {
    "sum": lambda value: sp.allreduce(tf.fill([31], value), sp.Sum),
    "broadcast": lambda value: sp.broadcast(tf.fill([34], value), 0),
    "new": lambda value: sp.allreduce(tf.fill([32], value), sp.Sum),
    "other": lambda value: sp.allreduce(tf.fill([33], value), sp.Sum),
}
"""The ranks have agreed on the first two before the programs begin."""


def told_and_results(program):
    """How often this rank is told of a mismatch, and its results since then."""
    told, results = 0, []
    for place, name in enumerate(program):
        try:
            results.append(float(CALLS[name](10.0 * place + sp.rank())[0]))
        except CollectiveMismatchError:
            told, results = told + 1, []
    return told, results


@pytest.mark.ranks(least=2, most=2, reason="all pairs of programs are for two ranks")
@pytest.mark.parametrize("calls", (1, pytest.param(2, marks=pytest.mark.long)))
def test_every_difference_of_short_programs_is_told(calls):
    """All pairs of them: an error at each place where they differ, and the same results then."""
    world = sp.current_world().communicator
    if world.shared is None:
        pytest.skip(f"by MPI, some of these end the job: {world.native.obstacle}")
    for pair in itertools.product(itertools.product(CALLS, repeat=calls), repeat=2):
        world.progress.ledger.clear()
        for name in ("sum", "broadcast"):
            CALLS[name](0.0)
        told, results = told_and_results((*pair[sp.rank()], "broadcast", "sum"))
        assert told == sum(one != other for one, other in zip(*pair, strict=True)), pair
        everyone = world.allgather_object(results)
        assert everyone[0] == everyone[1], pair
        assert world.progress.in_progress is None

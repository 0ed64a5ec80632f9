"""Ranks that do not ask for the same collective: an error on all of them, naming all of them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import MISMATCHES, eager, odd_one_out

import sciml_par.parallel as sp
from sciml_par.errors import CollectiveMismatchError
from sciml_par.parallel.groups import progress

pytestmark = pytest.mark.ranks(least=2, reason="one rank always agrees with itself")


@pytest.fixture(autouse=True)
def forget_agreements():
    """What other tests have agreed on would not be compared again."""
    sp.current_world().communicator.progress.ledger.clear()


def x(*shape, dtype="float32"):
    return tf.zeros(shape, dtype)


# What the others do, what the last rank does, and how the message calls the two.
DISAGREEMENTS = {
    "operation": (
        lambda: sp.allreduce(x(2), sp.Sum),
        lambda: sp.allreduce(x(2), sp.Max),
        ("allreduce(float32 [2], Sum)", "allreduce(float32 [2], Max)"),
    ),
    "type": (
        lambda: sp.allreduce(x(3), sp.Sum),
        lambda: sp.allreduce(x(3, dtype="float64"), sp.Sum),
        ("allreduce(float32 [3], Sum)", "allreduce(float64 [3], Sum)"),
    ),
    "shape": (
        lambda: sp.allreduce(x(4), sp.Sum),
        lambda: sp.allreduce(x(2, 2), sp.Sum),
        ("allreduce(float32 [4], Sum)", "allreduce(float32 [2, 2], Sum)"),
    ),
    "root": (
        lambda: sp.broadcast(x(5), 0),
        lambda: sp.broadcast(x(5), sp.size() - 1),
        ("broadcast(float32 [5], root 0)", "broadcast(float32 [5], root "),
    ),
    "columns": (
        lambda: sp.allgather(x(2, 3)),
        lambda: sp.allgather(x(2, 4)),
        ("allgather(float32 [any, 3])", "allgather(float32 [any, 4])"),
    ),
    "collective": (
        lambda: sp.allreduce(x(6), sp.Sum),
        lambda: sp.broadcast(x(6), 0),
        ("allreduce(float32 [6], Sum)", "broadcast(float32 [6], root 0)"),
    ),
    "rows of a reducescatter": (
        lambda: sp.reducescatter(x(9, 2)),
        lambda: sp.reducescatter(x(10, 2)),
        ("reducescatter(float32 [9, 2], Average)", "reducescatter(float32 [10, 2], Average)"),
    ),
    "columns of an alltoall": (
        lambda: sp.alltoall(x(sp.size(), 3)),
        lambda: sp.alltoall(x(sp.size(), 4)),
        ("alltoall(float32 [any, 3])", "alltoall(float32 [any, 4])"),
    ),
    "names": (
        lambda: sp.allreduce(x(12), sp.Sum, name="loss"),
        lambda: sp.allreduce(x(12), sp.Sum, name="accuracy"),
        (
            "allreduce(float32 [12], Sum, name 'loss')",
            "allreduce(float32 [12], Sum, name 'accuracy')",
        ),
    ),
    "a name and none": (
        lambda: sp.allgather(x(3, 2), name="rows"),
        lambda: sp.allgather(x(3, 2)),
        ("allgather(float32 [any, 2], name 'rows')", "allgather(float32 [any, 2])"),
    ),
    "tensors and objects": (
        lambda: sp.allreduce(x(8), sp.Sum),
        lambda: sp.current_world().communicator.allgather_object("hello"),
        ("allreduce(float32 [8], Sum)", "allgather of objects()"),
    ),
}


def assert_names_everyone(message, calls, group="world"):
    last = sp.size() - 1
    others = (
        "rank 0" if last == 1 else f"ranks {', '.join(map(str, range(last - 1)))} and {last - 1}"
    )
    assert f"«{group}» did not ask for the same collective" in message
    assert f"{others}: {calls[0]}" in message
    assert f"rank {last}: {calls[1]}" in message


largest = tf.function(lambda x: sp.allreduce(x, sp.Max), jit_compile=True)
gathered = tf.function(sp.allgather)
"""Compiled once for all tests: that new functions go on as well is shown in test_recovery.py."""


def assert_still_works():
    result = sp.allreduce(tf.constant(float(sp.rank())), sp.Sum)
    assert result.numpy() == sum(range(sp.size()))
    assert largest(tf.constant(float(sp.rank()))).numpy() == sp.size() - 1
    rows = gathered(tf.fill([1 + sp.rank()], sp.rank()))
    assert rows.numpy().tolist() == [r for r in range(sp.size()) for _ in range(1 + r)]


@pytest.mark.parametrize("what", DISAGREEMENTS)
def test_eager(what):
    usual, other, calls = DISAGREEMENTS[what]
    with pytest.raises(CollectiveMismatchError) as error:
        (other if odd_one_out() else usual)()
    assert_names_everyone(str(error.value), calls)
    assert_still_works()


@pytest.mark.ranks(least=2, most=2, reason="the message is that of test_eager")
@pytest.mark.parametrize("jit_compile", (False, True))
@pytest.mark.parametrize(
    "what", ("operation", "shape", "root", "names", "rows of a reducescatter", "columns")
)
def test_in_a_function(what, jit_compile):
    """When it runs; where a compiled one exchanges rows, when it is traced."""
    usual, other, calls = DISAGREEMENTS[what]
    chosen = other if odd_one_out() else usual
    traced = jit_compile and what == "columns"
    expected = CollectiveMismatchError if traced else tf.errors.FailedPreconditionError
    with pytest.raises(expected) as error:
        tf.function(chosen, jit_compile=jit_compile)()
    assert_names_everyone(str(error.value), calls)
    assert_still_works()


@pytest.mark.parametrize("context", (eager, lambda f: tf.function(f, jit_compile=True)))
def test_everyone_differs(context):
    """As where the shape is the number of a rank's points."""
    with pytest.raises(MISMATCHES) as error:
        context(lambda: [sp.allreduce(x(10 + sp.rank()), sp.Sum)])()
    for rank in range(sp.size()):
        assert f"rank {rank}: allreduce(float32 [{10 + rank}], Sum)" in str(error.value)
    assert_still_works()


def test_agreement_at_every_execution(monkeypatch):
    """With SCIML_PAR_CHECK=always, a call that has agreed before still compares."""
    monkeypatch.setattr(sp.current_world().communicator, "check_always", True)
    for step in range(2):
        result = sp.allreduce(x(21) + step, sp.Sum)
        np.testing.assert_array_equal(result, [step * sp.size()] * 21)
    sp.allreduce(x(22), sp.Sum)
    with pytest.raises(CollectiveMismatchError):
        sp.allreduce(x(22 if odd_one_out() else 21), sp.Sum)


def test_ranks_that_asked_for_other_things_are_found_at_the_next_agreement(by_mpi):
    """Both had been agreed on, and are as long, so nobody noticed."""
    for op in (sp.Sum, sp.Product):
        sp.allreduce(x(24), op, communicator=by_mpi)
    sp.allreduce(x(24), sp.Product if odd_one_out() else sp.Sum, communicator=by_mpi)
    sp.allreduce(x(24), sp.Sum, communicator=by_mpi)
    with pytest.raises(CollectiveMismatchError) as error:
        by_mpi.barrier()
    calls = [f"allreduce(float32 [24], {op})" for op in ("Sum", "Product")]
    assert_names_everyone(str(error.value), calls, by_mpi.name)
    assert "2 before this one; results since then are wrong" in str(error.value)
    np.testing.assert_array_equal(sp.allreduce(x(2), sp.Max, communicator=by_mpi), x(2))


@pytest.mark.parametrize("compiled", (False, True))
def test_long_ones_are_compared_each_time(compiled):
    """By MPI, which would abort: it gets what is longer than it expects."""
    function = lambda x: sp.allreduce(x, sp.Sum)  # noqa: E731
    if compiled:
        function = tf.function(function, jit_compile=True)
    longer, long = x(2**18 + 24), x(2**18 + 12)
    for y in (longer, long, long):
        function(y)
    with pytest.raises(Exception, match="did not ask for the same collective") as error:
        function(longer if odd_one_out() else long)
    calls = [f"allreduce(float32 [{len(y)}], Sum)" for y in (long, longer)]
    assert_names_everyone(str(error.value), calls)
    np.testing.assert_array_equal(function(long), long)
    assert_still_works()


def test_names_of_gradients_and_of_other_calls():
    """A name makes another call of it, and its gradient is called by it."""
    y = tf.ones(23)
    sp.current_world().communicator.call_sites.clear()
    for name in (None, "a", "b", "a"):
        sp.allreduce(y, sp.Sum, name=name)
    names = [request.name for request in sp.current_world().communicator.call_sites]
    assert names == [None, "a", "b"]
    with pytest.raises(CollectiveMismatchError) as error, tf.GradientTape() as tape:
        tape.watch(y)
        z = sp.reducescatter(y, sp.Sum, name="part")
        if odd_one_out():
            sp.broadcast(y, 0, name="other")
        tape.gradient(z, y)
    for signature in ("broadcast(float32 [23], root 0, name 'other')", "name 'gradient of part'"):
        assert signature in str(error.value)


# What is remembered


@pytest.fixture
def agreements(monkeypatch):
    """The signatures that the ranks compare, in a group that remembers three."""
    group = sp.current_world().communicator.split(0)
    monkeypatch.setattr(progress, "MOST_SIGNATURES", 3)
    compared = []
    agree = group.agree

    def noting(signature, number=0):
        compared.append(signature.name)
        return agree(signature, number)

    monkeypatch.setattr(group, "agree", noting)
    yield group, compared
    monkeypatch.undo()
    group.free()


def test_call_sites_of_all_contexts_share_it(agreements):
    group, compared = agreements

    def total(x):
        return sp.allreduce(x, sp.Sum, name="a", communicator=group)

    compiled = tf.function(total, jit_compile=True)
    for function in (total, tf.function(total), compiled, compiled, tf.function(total)):
        assert function(tf.constant(1.0)).numpy() == sp.size()
    assert compared == ["a"]


def test_ranks_forget_together(agreements):
    """After more names than it holds, also a call site that has agreed compares again."""
    group, compared = agreements
    compiled = tf.function(
        lambda x: sp.allreduce(x, sp.Sum, name="a", communicator=group), jit_compile=True
    )
    names = ("b", "c", "d", "e")
    for _ in range(2):
        assert compiled(tf.constant(1.0)).numpy() == sp.size()
        for name in names:
            sp.allreduce(tf.constant(1.0), name=name, communicator=group)
    assert compared == ["a", *names, "a", *names]

"""Ranks with uneven numbers of steps: those that are done take part without data."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from ranks import values
from reductions import WITHOUT_MEANING

import sciml_par.parallel as sp
from sciml_par.errors import SciMLParError
from sciml_par.parallel.collectives.join import _Join
from sciml_par.parallel.groups.mailbox import Left
from sciml_par.parallel.requests.request import Alltoall, Announcement, Broadcast, Kind
from sciml_par.parallel.requests.signature import Signature

pytestmark = pytest.mark.ranks(
    least=2, most=3, reason="one rank waits for nobody; a fourth does what the third does"
)

WORLD = sp.current_world().communicator
ONES = (1,) * sp.size()
TYPES = ("float32", "bfloat16", "int8", "uint16", "bool", "complex64")
FROM_THIS = Broadcast("float32", (2,), sp.rank())
TRACED = Alltoall("float32", (sp.size(),), ONES, ONES)


def steps_of(rank: int) -> int:
    """Rank 0 has the most steps."""
    return 2 + 3 * (sp.size() - 1 - rank)


def at_step(step: int) -> range:
    """The ranks that still have data, which are the first ones."""
    return range(sum(step < steps_of(rank) for rank in range(sp.size())))


def data(rank: int, step: int) -> np.ndarray:
    return values(rank, (3, 2), "float64", f"step {step}")


def reduced(step: int, op: sp.ReduceOp) -> np.ndarray:
    present = np.stack([data(rank, step) for rank in at_step(step)])
    if op is sp.Min:
        return present.min(0)
    return present.sum(0) / (sp.size() if op is sp.Average else 1)


def test_allreduce_goes_on_without_those_that_are_done():
    for step in range(steps_of(sp.rank())):
        for op in (sp.Sum, sp.Average, sp.Min):
            y = sp.allreduce(data(sp.rank(), step), op)
            np.testing.assert_allclose(y, reduced(step, op), rtol=1e-15)
    assert sp.join() == 0
    # All meet again as before.
    total = sp.allreduce(tf.constant(float(sp.rank())), sp.Sum)
    assert total == sum(range(sp.size()))


def test_what_was_first_done_while_others_had_joined_is_agreed_on_again():
    run = tf.function(lambda x: sp.allreduce(x, sp.Sum))
    alone = tf.constant([1.0, 2.0, 4.0, 8.0, 16.0])  # a shape that no other test has
    if sp.rank() == 0:
        for _ in range(2):
            np.testing.assert_array_equal(sp.allreduce(alone, sp.Sum), alone)
            np.testing.assert_array_equal(run(alone), alone)
    assert sp.join() == 0
    for _ in range(2):
        np.testing.assert_array_equal(sp.allreduce(alone, sp.Sum), sp.size() * alone)
        np.testing.assert_array_equal(run(alone), sp.size() * alone)


def test_a_compiled_function_that_was_traced_by_all():
    run = tf.function(lambda x: sp.allreduce(x, sp.Sum), jit_compile=True)
    for step in range(steps_of(sp.rank())):
        y = run(tf.constant(data(sp.rank(), step)))
        np.testing.assert_allclose(y, reduced(step, sp.Sum))
    assert sp.join() == 0


def test_a_compiled_loop_that_one_rank_traces_alone():
    if sp.rank() == 0:
        x = tf.constant(data(0, 0))

        @tf.function(jit_compile=True)
        def run():
            return tf.while_loop(
                lambda i, _: i < 20,
                lambda i, total: (i + 1, total + sp.allreduce(x, sp.Sum)),
                (tf.constant(0), tf.zeros_like(x)),
            )[1]

        np.testing.assert_allclose(run(), 20 * data(0, 0))
    assert sp.join() == 0


def test_rows_without_those_that_are_done():
    for step in range(steps_of(sp.rank())):
        mine = data(sp.rank(), step)[: 1 + sp.rank() % 3]
        y = sp.allgather(mine)
        wanted = [data(rank, step)[: 1 + rank % 3] for rank in at_step(step)]
        np.testing.assert_array_equal(y, np.concatenate(wanted))
        part = sp.reducescatter(data(sp.rank(), step), sp.Sum)
        whole = np.array_split(reduced(step, sp.Sum), sp.size())
        np.testing.assert_allclose(part, whole[sp.rank()])
        rows, received = sp.alltoall(np.full((sp.size(), 1), sp.rank()))
        assert list(received) == [int(rank in at_step(step)) for rank in range(sp.size())]
        assert rows.numpy().ravel().tolist() == list(at_step(step))
    assert sp.join() == 0


@pytest.mark.ranks(least=2, most=2, reason="what rank 0 remembers does not depend on how many wait")
def test_a_rank_that_gives_a_thousand_broadcasts_before_others_come():
    """More than it remembers; of unlike shapes, so that no two in a row are equal."""
    if sp.rank() == 0:
        xs = [tf.fill([n], float(n)) for n in (1, 2, 3)]
        for step in range(1200):
            sp.broadcast(xs[step % 3], 0)
    else:
        time.sleep(0.3)
    assert sp.join() == 0


def test_a_group_that_gets_the_name_of_another():
    """Messages about joins in the first do not concern the second."""
    for again in range(3):
        group = WORLD.subset(range(sp.size()), name="again")
        for step in range(4 - again if sp.rank() == 0 else 0):
            assert sp.allreduce(float(step), sp.Sum, communicator=group) == step
        assert sp.join(communicator=group) == 0
        total = sp.allreduce(1.0, sp.Sum, communicator=group)
        assert total == sp.size()
        identities = WORLD.allgather_object(group.identity)
        assert len(set(identities)) == 1
        group.free()


def test_every_operation_and_type_where_one_rank_alone_has_data():
    if sp.rank() == sp.size() - 1:
        for op, dtype in itertools.product((sp.Sum, sp.Product, sp.Min, sp.Max), TYPES):
            if (dtype, op) not in WITHOUT_MEANING:
                mine = values(sp.rank(), (5,), dtype)
                np.testing.assert_array_equal(sp.allreduce(mine, op), mine, f"{op} of {dtype}")
        sp.barrier()
    assert sp.join() == sp.size() - 1


@pytest.mark.ranks(least=2, most=4, reason="the groups have one rank and two")
def test_a_group_joins_alone():
    group = WORLD.split(sp.rank() % 2)
    if group.rank == 0:
        assert sp.allreduce(1.0, sp.Sum, communicator=group) == 1.0
    assert sp.join(communicator=group) == 0
    group.free()


def test_the_last_of_equals_is_the_highest():
    assert sp.join() == sp.size() - 1


@pytest.mark.ranks(least=1, most=2, reason="it says what one rank cannot do")
@pytest.mark.parametrize(
    ("announcement", "reason"),
    (
        (
            Announcement(Kind.OBJECTS, Signature("allgather of objects")),
            "objects cannot be made up",
        ),
        (Announcement(Kind.TRANSFER, FROM_THIS.signature, FROM_THIS), "it is the one to give"),
        (Announcement(Kind.TRANSFER, TRACED.signature, TRACED), "it needs rows of this rank"),
    ),
)
def test_what_a_rank_that_has_joined_cannot_do(announcement, reason):
    with pytest.raises(SciMLParError, match=f"Rank {sp.rank()} has joined.*: {reason}"):
        _Join(WORLD, sp.current_world().mailbox)._take_part(announcement)


def test_a_rank_that_ended_without_join():
    gone = (sp.rank() + 1) % sp.size()
    stay = _Join(WORLD, SimpleNamespace(left={gone: Left({})}))
    with pytest.raises(
        SciMLParError, match=f"Rank {gone} ended the program while rank {sp.rank()}"
    ):
        stay._check_still_there([])
    stay._check_still_there([gone])

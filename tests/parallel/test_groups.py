"""Groups of some of the ranks, and Python objects between ranks: an error is one on all of them."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf
from ranks import all_values, values

import sciml_par.parallel as sp
from sciml_par.errors import InputError

WORLD = sp.current_world().communicator


def evens() -> list[int]:
    return list(range(0, sp.size(), 2))


def test_only_its_members_reduce():
    group = WORLD.subset(evens())
    if sp.rank() % 2:
        assert group is None
        return
    assert (group.size, group.rank) == (len(evens()), sp.rank() // 2)
    x = values(sp.rank(), (3,), "float64")
    y = sp.allreduce(x, sp.Sum, communicator=group)
    np.testing.assert_array_equal(y, all_values((3,), "float64")[::2].sum(0))
    group.free()


def test_ranks_are_numbered_in_ascending_order():
    group = WORLD.subset(reversed(range(sp.size())))
    assert group.rank == sp.rank()
    assert group.world_ranks == list(range(sp.size()))
    group.free()


def test_a_group_of_a_group():
    half = WORLD.split(sp.rank() % 2)
    first = half.subset([0], name="the first")
    if half.rank == 0:
        assert (first.name, first.size, first.world_ranks) == ("the first", 1, [sp.rank()])
        first.free()
    else:
        assert first is None
    half.free()


def test_a_freed_group_is_not_watched():
    group = WORLD.subset(range(sp.size()))
    compiled = tf.function(lambda x: sp.allreduce(x, communicator=group), jit_compile=True)
    assert compiled(tf.ones(2)).numpy().tolist() == [1.0, 1.0]
    assert group in WORLD.all_groups
    group.free()
    assert group not in WORLD.all_groups


@pytest.mark.parametrize("ranks", ([], [0, 0], [-1], [99], [0, 99]))
def test_no_such_ranks(ranks):
    with pytest.raises(InputError, match=rf"among 0\.\.{sp.size() - 1}, at least one; got"):
        WORLD.subset(ranks)


@pytest.mark.ranks(least=2, reason="needs two ranks")
def test_ranks_that_differ_from_rank_to_rank():
    with pytest.raises(InputError, match=r"got \[0\] on rank 0 and \[1\] on rank 1"):
        WORLD.subset([min(sp.rank(), 1)])


def test_the_world_stays():
    with pytest.raises(InputError, match="cannot be freed"):
        WORLD.free()


# Objects


def test_broadcast_of_what_pickle_cannot_write():
    """The root knows; the others wait for it."""
    root = sp.size() - 1
    value = threading.Lock() if sp.rank() == root else None
    with pytest.raises(InputError, match=rf"got an object of type lock \(.*\) on rank {root}\."):
        WORLD.broadcast_object(value, root=root)
    assert WORLD.broadcast_object(sp.rank(), root=root) == root


def test_what_only_the_root_gives_counts():
    unused = sp.rank() if sp.rank() == 0 else threading.Lock()
    assert WORLD.broadcast_object(unused) == 0


def test_other_exchanges_of_what_pickle_cannot_write():
    value = threading.Lock() if sp.rank() == 0 else sp.rank()
    with pytest.raises(InputError, match="expected objects that pickle can write; got an object o"):
        WORLD.allgather_object(value)
    with pytest.raises(InputError, match="objects that pickle can write"):
        WORLD.exchange_objects([threading.Lock() if sp.rank() == 0 else None] * sp.size())
    with pytest.raises(InputError, match="got an object of type tuple"):
        WORLD.on_root(threading.Lock)
    assert WORLD.allgather_object(sp.rank()) == list(range(sp.size()))


def test_objects_go_from_rank_to_rank():
    """Each rank has something for the ranks behind it, and of another size for each."""
    rank, ranks = sp.rank(), range(sp.size())
    given = [np.full(1000 * other, rank) if other > rank else None for other in ranks]
    for source, found in enumerate(WORLD.exchange_objects(given)):
        if source < rank:
            np.testing.assert_array_equal(found, np.full(1000 * rank, source))
        else:
            assert found is None


@pytest.mark.ranks(most=2, reason="it is about the source of functions")
def test_autograph_leaves_exchanges_alone(caplog):
    """It would find no source of what MPI's functions do, and say so."""
    calls = {"barrier": (), "attempt": (sp.rank,), "on_root": (sp.rank,), "subset": ([0],)}
    calls |= {"allgather_object": (1,), "broadcast_object": (1,), "split": (0,)}
    with caplog.at_level("WARNING", "tensorflow"):
        tf.get_logger().addHandler(caplog.handler)
        try:
            for name, arguments in calls.items():
                exchange = getattr(WORLD, name)

                def exchanged(x, exchange=exchange, arguments=arguments):
                    exchange(*arguments)
                    return x

                tf.map_fn(exchanged, tf.zeros([2]))
                tf.function(exchanged)(0.0)
        finally:
            tf.get_logger().removeHandler(caplog.handler)
    assert "could not transform" not in caplog.text

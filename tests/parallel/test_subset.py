"""Groups of some of the ranks."""

from __future__ import annotations

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


@pytest.mark.skipif(sp.size() == 1, reason="needs two ranks")
def test_ranks_that_differ_from_rank_to_rank():
    with pytest.raises(InputError, match=r"got \[0\] on rank 0 and \[1\] on rank 1"):
        WORLD.subset([min(sp.rank(), 1)])


def test_the_world_stays():
    with pytest.raises(InputError, match="cannot be freed"):
        WORLD.free()

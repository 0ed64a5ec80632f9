"""Process sets: registered, used, and removed."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import sciml_par.horovod.tensorflow as hvd
from sciml_par.errors import CollectiveMismatchError, InputError
from sciml_par.horovod.common.process_sets import communicator_of, get_process_set_ids_and_ranks
from sciml_par.parallel import current_world

ALONE = pytest.mark.skipif(hvd.size() == 1, reason="one rank has no other set than that of all")


@pytest.fixture
def upper():
    """All ranks but the first."""
    given = hvd.ProcessSet(range(1, hvd.size()))
    assert given.size() is given.rank() is given.included() is None
    assert hvd.add_process_set(given) is given
    yield given
    hvd.remove_process_set(given)


def test_the_set_of_all_ranks():
    everyone = hvd.global_process_set
    assert everyone.process_set_id == 0
    assert (everyone.size(), everyone.rank()) == (hvd.size(), hvd.rank())
    assert everyone.included() is True
    assert hvd.remove_process_set(everyone) is False
    with pytest.raises(InputError, match="registered already"):
        hvd.add_process_set(everyone)
    with pytest.raises(InputError, match="registered already"):
        hvd.add_process_set(list(range(hvd.size())))


@ALONE
def test_members_work_by_themselves(upper):
    assert upper.size() == hvd.size() - 1
    assert upper.included() is (hvd.rank() > 0)
    number = upper.process_set_id
    assert int(hvd.size_op(number)) == hvd.size() - 1
    assert int(hvd.process_set_included_op(number)) == (hvd.rank() > 0)
    assert get_process_set_ids_and_ranks()[number] == list(range(1, hvd.size()))
    if hvd.rank() == 0:
        with pytest.raises(InputError, match="rank 0 is not in"):
            hvd.allreduce(tf.ones(2), process_set=upper)
        return
    assert upper.rank() == hvd.rank() - 1
    ranks = np.arange(1, hvd.size())
    x = tf.constant([float(hvd.rank())])
    np.testing.assert_allclose(hvd.allreduce(x, process_set=upper), [ranks.mean()])
    np.testing.assert_array_equal(hvd.allgather(x, process_set=upper), ranks)
    # Roots are counted in the whole job.
    assert hvd.broadcast(x, root_rank=hvd.size() - 1, process_set=upper)[0] == hvd.size() - 1
    assert hvd.broadcast_object(hvd.rank(), root_rank=1, process_set=upper) == 1
    assert hvd.allgather_object(hvd.rank(), process_set=upper) == ranks.tolist()
    with pytest.raises(InputError, match="root_rank"):
        hvd.broadcast(x, root_rank=0, process_set=upper)


@ALONE
def test_tape_and_optimizer_of_a_set(upper):
    if not upper.included():
        return
    w = tf.Variable([1.0])
    with tf.GradientTape() as tape:
        loss = w * float(hvd.rank())
    tape = hvd.DistributedGradientTape(tape, process_set=upper)
    np.testing.assert_allclose(tape.gradient(loss, w), [hvd.size() / 2])
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0), process_set=upper)
    optimizer.apply_gradients([(tf.constant([float(hvd.rank())]), w)])
    np.testing.assert_allclose(w.numpy(), [1 - hvd.size() / 2])


@ALONE
def test_sets_come_and_go(upper):
    first = upper.process_set_id
    with pytest.raises(InputError, match="registered already"):
        hvd.add_process_set(range(1, hvd.size()))
    lower = hvd.add_process_set([0])
    assert lower.process_set_id not in (0, first)
    groups = len(current_world().communicator.family)
    assert hvd.remove_process_set(lower) is True
    assert len(current_world().communicator.family) == groups - (hvd.rank() == 0)
    assert lower.process_set_id is None and lower.included() is None
    assert hvd.remove_process_set(lower) is False
    with pytest.raises(InputError, match="not registered"):
        communicator_of(lower)
    assert hvd.add_process_set(lower).size() == 1  # it can come back
    hvd.remove_process_set(lower)


@ALONE
def test_a_set_made_of_a_communicator():
    from mpi4py import MPI

    mine = hvd.rank() > 0
    mpi = current_world().communicator.mpi.Split(0 if mine else MPI.UNDEFINED)
    made = hvd.add_process_set(hvd.ProcessSet(mpi))
    assert made.ranks == list(range(1, hvd.size())) and made.included() is mine
    hvd.remove_process_set(made)
    if mine:
        mpi.Free()


def test_what_is_no_process_set():
    with pytest.raises(InputError, match="expected a ProcessSet"):
        hvd.allreduce(tf.ones(2), process_set=[0])
    with pytest.raises(InputError, match="not registered"):
        hvd.allreduce(tf.ones(2), process_set=hvd.ProcessSet([0]))
    with pytest.raises(InputError, match="process_set_id"):
        hvd.size_op(77)
    with pytest.raises(InputError, match="ranks"):
        hvd.add_process_set([hvd.size()])


@ALONE
def test_ranks_that_name_others_are_told():
    with pytest.raises((InputError, CollectiveMismatchError), match="rank"):
        hvd.add_process_set([hvd.rank()])

"""Process sets: registered, used, and removed."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import sciml_par.horovod.tensorflow as hvd
from sciml_par.errors import InputError
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
def test_members_work_alone(upper):
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
@pytest.mark.parametrize("compiled", (None, False, True)[: 3 if hvd.size() == 2 else 1])
def test_a_tape_leaves_gradients_outside_of_its_set_as_they_are(upper, compiled):
    third = 1 / 3  # which 16 bits do not have
    w, table = tf.Variable([1.0]), tf.Variable(np.ones([4, 2], "float32"))

    def run():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w) * third + tf.reduce_sum(tf.gather(table, [hvd.rank()]))
        tape = hvd.DistributedGradientTape(
            tape, compression=hvd.Compression.fp16, sparse_as_dense=True, process_set=upper
        )
        tape.register_local_source(w)
        return tape.gradient(loss, [w, table])

    by_w, by_table = run() if compiled is None else tf.function(run, jit_compile=compiled)()
    if upper.included():
        assert not isinstance(by_table, tf.IndexedSlices)
        np.testing.assert_allclose(by_w, [third / upper.size()], 1e-6)
        np.testing.assert_allclose(by_table[1:2], np.full([1, 2], 1 / upper.size()), 1e-3)
    else:
        assert by_w[0] == np.float32(third)
        np.testing.assert_array_equal(tf.convert_to_tensor(by_table)[0], [1.0, 1.0])
        if not compiled:  # XLA has no slices
            assert isinstance(by_table, tf.IndexedSlices)


@ALONE
def test_an_optimizer_of_tensorflow_1_outside_of_its_set(upper):
    with tf.compat.v1.Graph().as_default(), tf.compat.v1.Session() as session:
        w = tf.compat.v1.get_variable("w", initializer=[1.0])
        optimizer = hvd.DistributedOptimizer(
            tf.compat.v1.train.GradientDescentOptimizer(1.0),
            process_set=upper,
            backward_passes_per_step=2,
        )
        step = optimizer.minimize(w * float(hvd.rank() + 1))
        session.run(
            [
                tf.compat.v1.global_variables_initializer(),
                tf.compat.v1.local_variables_initializer(),
            ]
        )
        for _ in range(2):
            session.run(step)
        mine = 1.0 + hvd.size() / 2 if upper.included() else 1.0
        np.testing.assert_allclose(session.run(w), [1 - 2 * mine])


@ALONE
def test_what_a_rank_outside_may_not_do(upper):
    x = tf.ones([hvd.size()])
    collectives = (
        hvd.allreduce,
        hvd.allgather,
        hvd.alltoall,
        hvd.reducescatter,
        lambda x, process_set: hvd.broadcast(x, 1, process_set=process_set),
        lambda x, process_set: hvd.grouped_allreduce([x], process_set=process_set),
        lambda x, process_set: hvd.grouped_allgather([x], process_set=process_set),
        lambda x, process_set: hvd.grouped_reducescatter([x], process_set=process_set),
        lambda x, process_set: hvd.broadcast_object(1, 1, process_set=process_set),
    )
    if not upper.included():
        for collective in collectives:
            with pytest.raises(tf.errors.InvalidArgumentError, match="rank 0 is not in"):
                collective(x, process_set=upper)
        with pytest.raises(tf.errors.InvalidArgumentError, match="rank 0 is not in"):
            tf.function(hvd.allreduce)(x, process_set=upper)
    # Whoever is in it has waited for nobody.
    np.testing.assert_array_equal(hvd.allreduce(x), np.ones(hvd.size()))


@ALONE
def test_adasum_is_for_all_ranks(upper):
    with pytest.raises(NotImplementedError, match="Adasum"):
        hvd.allreduce(tf.ones(2), op=hvd.Adasum, process_set=upper)
    with pytest.raises(NotImplementedError, match="Adasum"):
        inner = tf.compat.v1.train.GradientDescentOptimizer(1.0)
        hvd.DistributedOptimizer(inner, op=hvd.Adasum, process_set=upper)


@ALONE
def test_sets_come_and_go(upper):
    first = upper.process_set_id
    with pytest.raises(InputError, match="registered already"):
        hvd.add_process_set(range(1, hvd.size()))
    lower = hvd.add_process_set([0])
    assert lower.process_set_id not in (0, first)
    groups = len(current_world().communicator.all_groups)
    assert hvd.remove_process_set(lower) is True
    assert len(current_world().communicator.all_groups) == groups - (hvd.rank() == 0)
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


@ALONE
def test_sets_made_of_the_parts_of_a_split():
    mpi = current_world().communicator.mpi.Split(hvd.rank() % 2)
    own = hvd.ProcessSet(mpi)
    assert hvd.add_process_set(own) is own
    parts = [list(range(0, hvd.size(), 2)), list(range(1, hvd.size(), 2))]
    assert own.included() and own.ranks == parts[hvd.rank() % 2]
    sets = get_process_set_ids_and_ranks()
    assert list(sets.values()) == [list(range(hvd.size())), *parts]
    total = hvd.allreduce(tf.constant(hvd.rank()), op=hvd.Sum, process_set=own)
    assert int(total) == sum(own.ranks)
    with pytest.raises(ValueError, match="registered already"):
        hvd.add_process_set(hvd.ProcessSet(mpi))
    for number in [number for number in sets if number]:
        assert hvd.remove_process_set(current_world().process_sets[number])
    mpi.Free()


@ALONE
def test_the_order_of_ranks_makes_no_difference():
    ranks = list(range(1, hvd.size()))
    made = hvd.add_process_set(ranks if hvd.rank() % 2 else ranks[::-1])
    assert made.ranks == ranks
    for again in (ranks[::-1], ranks, hvd.ProcessSet(ranks[::-1])):
        with pytest.raises(ValueError, match="registered already"):
            hvd.add_process_set(again)
    hvd.remove_process_set(made)


@ALONE
def test_a_set_that_one_rank_takes_for_another_fails_on_all():
    made = hvd.add_process_set([0])
    with pytest.raises(ValueError, match="expected the same ranks"):
        hvd.add_process_set([0] if hvd.rank() == 0 else [1])
    with pytest.raises(ValueError, match="expected the same ranks"):
        hvd.add_process_set(made if hvd.rank() == 0 else [1])
    assert list(get_process_set_ids_and_ranks()) == [0, made.process_set_id]
    hvd.remove_process_set(made)
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))


def test_not_a_process_set():
    with pytest.raises(InputError, match="expected a ProcessSet"):
        hvd.allreduce(tf.ones(2), process_set=[0])
    with pytest.raises(InputError, match="not registered"):
        hvd.allreduce(tf.ones(2), process_set=hvd.ProcessSet([0]))
    pretended = hvd.ProcessSet([0])
    pretended.process_set_id = 10
    with pytest.raises(ValueError, match="not registered"):
        hvd.allreduce(tf.ones(2), process_set=pretended)
    for ask in (hvd.size_op, hvd.process_set_included_op):
        with pytest.raises(ValueError, match="process_set_id"):
            ask(77)
    with pytest.raises(ValueError, match="expected ranks"):
        hvd.ProcessSet(["first"])
    with pytest.raises(InputError, match="ranks"):
        hvd.add_process_set([hvd.size()])

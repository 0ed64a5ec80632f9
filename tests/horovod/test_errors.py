"""Errors are of the kinds that programs written for Horovod catch, and the ranks continue."""

from __future__ import annotations

import importlib
import pickle

import numpy as np
import pytest
import tensorflow as tf

import sciml_par.horovod.tensorflow as hvd
from sciml_par.errors import CollectiveMismatchError, InputError
from sciml_par.horovod.common.basics import _compare_always
from sciml_par.horovod.common.process_sets import communicator_of
from sciml_par.horovod.common.tensorflow_errors import InvalidInputError, MismatchError
from sciml_par.parallel import current_world

v1 = tf.compat.v1
SEVERAL = pytest.mark.ranks(least=2, reason="one rank agrees with itself")
ON_TWO = pytest.mark.ranks(least=2, most=2, reason="it needs another rank, and no third")
ALONE = pytest.mark.ranks(most=1, reason="nothing travels")
RANK = hvd.rank()
ODD = RANK % 2


def in_a_session(function):
    """Runs a function of tensors in a graph of TensorFlow 1."""

    def run(*values):
        with v1.Graph().as_default(), v1.Session() as session:
            return session.run(function(*map(tf.constant, values)))

    return run


CONTEXTS = {
    "eager": lambda f: f,
    "compiled": tf.function(jit_compile=True),
    "graph": tf.function,
    "session": in_a_session,
}
"""What runs a function."""


def other_shape():
    return hvd.allreduce, np.ones([17, 2 + ODD], "float32")


def other_root():
    return lambda x: hvd.broadcast(x, RANK), np.ones([3], "float32")


def other_columns():
    return hvd.allgather, np.ones([2, 10 * (RANK + 1)], "float32")


def other_second_tensor():
    def grouped(x):
        return hvd.grouped_allreduce([x, tf.ones([1 + ODD, 2 - ODD])])[0]

    return grouped, np.ones([2], "float32")


MISMATCHES = [
    (other_shape, "eager"),
    *((make, name) for make in (other_shape, other_root) for name in ("compiled", "session")),
    (other_columns, "graph"),
    (other_second_tensor, "graph"),
][: 7 if hvd.size() == 2 else 1]


@SEVERAL
@pytest.mark.parametrize("make, name", MISMATCHES)
def test_a_mismatch_is_a_failed_precondition_and_later_ones_work(make, name):
    function, x = make()
    with pytest.raises(tf.errors.FailedPreconditionError, match="ranks? 1"):
        CONTEXTS[name](function)(x)
    mine = np.array([float(RANK)])
    for again in ("eager", name):
        total = CONTEXTS[again](lambda x: hvd.allreduce(x, op=hvd.Sum))(mine)
        np.testing.assert_array_equal(total, [sum(range(hvd.size()))])


@SEVERAL
def test_a_mismatch_of_requests_that_were_agreed_on_before():
    for _ in range(2):
        hvd.allreduce(tf.ones(2), name="x")
        hvd.allreduce(tf.ones(3), name="x")
    with pytest.raises(tf.errors.FailedPreconditionError, match="ranks? 1"):
        hvd.allreduce(tf.ones(2 + ODD), name="x")
    hvd.allreduce(tf.ones(2), name="x")


@SEVERAL
def test_a_mismatch_in_a_gradient():
    w = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(w)
    tape = hvd.DistributedGradientTape(tape)
    with pytest.raises(tf.errors.FailedPreconditionError, match="gradients"):
        tape.gradient(loss, [w] if ODD else [w, tf.Variable(1.0)])
    with pytest.raises(tf.errors.FailedPreconditionError):
        hvd.broadcast_object(1, root_rank=ODD)


@ALONE
def test_both_kinds_travel_between_processes():
    for error in (MismatchError("shapes differ"), InvalidInputError("splits")):
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is type(error) and str(copy) == str(error) == error.message


@ON_TWO
@pytest.mark.parametrize("name", CONTEXTS)
def test_splits_that_do_not_fit(name):
    wrong = [(1, [1] * hvd.size() + [0]), (2, [-1] * hvd.size()), (hvd.size() + 1, None)]
    for rows, splits in wrong:
        with pytest.raises(tf.errors.InvalidArgumentError, match="splits"):
            CONTEXTS[name](lambda x, splits=splits: hvd.alltoall(x, splits))(np.ones([rows]))
    assert hvd.allgather_object(RANK) == list(range(hvd.size()))


@ON_TWO
def test_splits_that_only_the_graph_knows():
    @tf.function(input_signature=[tf.TensorSpec([None]), tf.TensorSpec([None], tf.int32)])
    def run(x, splits):
        return hvd.alltoall(x, splits)[0]

    with pytest.raises(tf.errors.InvalidArgumentError, match="splits"):
        run(tf.ones([1]), tf.fill([hvd.size()], 2))
    assert len(run(tf.ones([hvd.size()]), tf.ones([hvd.size()], tf.int32))) == hvd.size()


ROWS = (
    hvd.allgather,
    hvd.alltoall,
    hvd.reducescatter,
    lambda x: hvd.grouped_allgather([x])[0],
    lambda x: hvd.grouped_reducescatter([x])[0],
)
"""Collectives of rows."""


@ALONE
@pytest.mark.parametrize("name", CONTEXTS)
def test_a_scalar_has_no_rows(name):
    for collective in ROWS if name == "eager" else ROWS[:2]:
        with pytest.raises(tf.errors.InvalidArgumentError, match="scalar"):
            CONTEXTS[name](collective)(np.float32(1.0))


@ALONE
def test_what_slices_do_not_have():
    slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), dense_shape=[2, 2])
    for op in (hvd.Min, hvd.Max, hvd.Product, hvd.Adasum):
        with pytest.raises(NotImplementedError, match="IndexedSlices"):
            hvd.allreduce(slices, op=op)
        with pytest.raises(NotImplementedError, match="IndexedSlices"):
            hvd.grouped_allreduce([tf.ones(2), slices], op=op)
    for factors in ({"prescale_factor": 2.0}, {"postscale_factor": 2.0}):
        with pytest.raises(NotImplementedError, match="factor"):
            hvd.allreduce(slices, op=hvd.Sum, **factors)
        with pytest.raises(NotImplementedError, match="factor"):
            hvd.grouped_allreduce([slices], **factors)
    with pytest.raises(NotImplementedError, match="IndexedSlices"):
        hvd.reducescatter(slices)


@ALONE
def test_what_needs_a_graph():
    with pytest.raises(RuntimeError, match="broadcast_variables"):
        hvd.broadcast_global_variables(0)


@ALONE
def test_before_init_there_are_no_ranks(monkeypatch):
    monkeypatch.setattr("sciml_par.parallel.groups.world.world", None)
    for ask in (hvd.size, hvd.rank, hvd.local_rank, hvd.is_homogeneous, hvd.mpi_threads_supported):
        with pytest.raises(ValueError, match=r"init\(\)"):
            ask()
    with pytest.raises(ValueError, match=r"init\(\)"):
        hvd.allreduce(tf.ones(2))
    with pytest.raises(ValueError, match=r"init\(\)"):
        communicator_of(hvd.global_process_set)


def test_when_the_ranks_compare(monkeypatch):
    everyone = current_world().communicator
    assert everyone.mismatch_error is MismatchError and everyone.check_always
    for group in everyone.all_groups:
        monkeypatch.setattr(group, "check_always", False)
    _compare_always({"SCIML_PAR_CHECK": "first"})
    assert not any(group.check_always for group in everyone.all_groups)
    if hvd.size() > 1:  # one that compares alone would wait forever
        _compare_always({} if RANK else {"SCIML_PAR_CHECK": "first"})
        assert all(group.check_always for group in everyone.all_groups)
    group = everyone.subset([0])
    assert group is None or group.mismatch_error is MismatchError
    if group is not None:
        group.free()


@ALONE
def test_errors_are_still_those_of_sciml_par():
    with pytest.raises(InputError, match="splits"):
        hvd.alltoall(tf.ones([2]), [5] * hvd.size())
    assert issubclass(MismatchError, CollectiveMismatchError)


@ALONE
@pytest.mark.parametrize("framework", ("torch", "mxnet", "ray", "spark"))
def test_packages_of_other_frameworks_say_what_to_use(framework):
    with pytest.raises(ImportError, match=f"for TensorFlow and Keras, and has no {framework}"):
        importlib.import_module(f"sciml_par.horovod.{framework}")


@ALONE
@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("broadcast_parameters", "broadcast_variables"),
        ("allreduce_async_", "leave _async out"),
        ("allreduce_", "allreduce returns the result"),
    ],
)
def test_names_of_pytorch_say_what_to_use(name, advice):
    with pytest.raises(AttributeError, match=f"{name}.*PyTorch; .*{advice}"):
        getattr(importlib.import_module("sciml_par.horovod.tensorflow"), name)

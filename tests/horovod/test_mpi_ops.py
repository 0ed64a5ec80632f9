"""The collectives by Horovod's names and parameters; the numbers of the ranks."""

from __future__ import annotations

import json
import math
import socket
import warnings
from itertools import cycle

import numpy as np
import pytest
import tensorflow as tf

import sciml_par.horovod.tensorflow as hvd
import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.horovod.common.basics import _communicator, _options, _start_timeline
from sciml_par.parallel import current_world

EVERY_CONTEXT = {
    "eager": lambda f: f,
    "graph": tf.function,
    "compiled": tf.function(jit_compile=True),
}
CONTEXTS = pytest.mark.parametrize("context", list(EVERY_CONTEXT)[: 3 if hvd.size() == 2 else 1])
"""All of them on two ranks: how a function is run does not depend on the number of ranks."""

UP_TO_TWO = pytest.mark.skipif(hvd.size() > 2, reason="the same on two ranks")
LOCAL = pytest.mark.skipif(hvd.size() > 1, reason="concerns each rank separately")


def data(rank: int, *shape: int) -> np.ndarray:
    return np.random.default_rng([rank, 3]).integers(1, 9, size=shape).astype("float32")


def everyone(*shape: int) -> np.ndarray:
    return np.stack([data(rank, *shape) for rank in range(hvd.size())])


@CONTEXTS
def test_allreduce(context):
    def run(x):
        y = hvd.allreduce(x, prescale_factor=2.0, postscale_factor=0.5, name="first")
        z = hvd.allreduce(x, average=False, device_dense="/cpu:0")
        return [y, z, hvd.allreduce(x, op=hvd.Max), hvd.allreduce(tf.cast(x, tf.int32))]

    mean, total, largest, whole = EVERY_CONTEXT[context](run)(tf.constant(data(hvd.rank(), 3)))
    np.testing.assert_allclose(mean, everyone(3).mean(axis=0), 1e-6)
    np.testing.assert_array_equal(total, everyone(3).sum(axis=0))
    np.testing.assert_array_equal(largest, everyone(3).max(axis=0))
    assert whole.dtype == tf.int32
    np.testing.assert_array_equal(whole, everyone(3).sum(axis=0) // hvd.size())


def test_the_average_of_integers_is_rounded_towards_zero():
    mine = tf.constant([-1 - hvd.rank(), 1 + hvd.rank()], tf.int64)
    total = sum(1 + rank for rank in range(hvd.size()))
    rounded = total // hvd.size()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        np.testing.assert_array_equal(hvd.allreduce(mine), [-rounded, rounded])
    texts = [str(each.message) for each in caught if "rounded towards zero" in str(each.message)]
    assert len(texts) == (hvd.rank() == 0) and all("floating type" in text for text in texts)


def test_indexed_slices():
    rank, size = hvd.rank(), hvd.size()
    slices = tf.IndexedSlices([[1.0 + rank]], [rank], dense_shape=[size, 1])
    found = hvd.allreduce(slices, op=hvd.Sum, device_sparse="/cpu:0")
    assert isinstance(found, tf.IndexedSlices)
    np.testing.assert_array_equal(tf.convert_to_tensor(found)[:, 0], np.arange(size) + 1.0)


@CONTEXTS
def test_reducescatter(context):
    size = hvd.size()

    def run(x):
        one = hvd.reducescatter(x, op=hvd.Sum, prescale_factor=0.5, name="rows")
        return [one, *hvd.grouped_reducescatter([x, 2 * x], compression=hvd.Compression.fp16)]

    one, mean, twice = EVERY_CONTEXT[context](run)(tf.constant(data(hvd.rank(), 2 * size, 2)))
    mine = everyone(2 * size, 2)[:, 2 * hvd.rank() : 2 * hvd.rank() + 2]
    np.testing.assert_allclose(one, mine.sum(axis=0) / 2)
    np.testing.assert_allclose(mean, mine.mean(axis=0), 2e-3)
    np.testing.assert_allclose(twice, 2 * mine.mean(axis=0), 2e-3)


def test_what_moves_tensors():
    rank, size = hvd.rank(), hvd.size()
    rows = [np.full((r + 1, 2), r, "float32") for r in range(size)]
    np.testing.assert_array_equal(hvd.allgather(rows[rank], name="rows"), np.concatenate(rows))
    several = hvd.grouped_allgather([rows[rank], 2 * rows[rank]])
    np.testing.assert_array_equal(several[1], 2 * np.concatenate(rows))
    last = hvd.broadcast(data(rank, 3), root_rank=size - 1)
    np.testing.assert_array_equal(last, data(size - 1, 3))
    plain = hvd.alltoall(tf.range(size) + 10 * rank)
    np.testing.assert_array_equal(plain, 10 * np.arange(size) + rank)
    splits = [1] * (size - 1) + [2]  # one more for the last rank
    received, counts = hvd.alltoall(tf.range(size + 1) + 10 * rank, splits=splits)
    mine = [rank, rank + 1] if rank == size - 1 else [rank]
    np.testing.assert_array_equal(received, [10 * r + i for r in range(size) for i in mine])
    assert counts.dtype == tf.int32
    np.testing.assert_array_equal(counts, [len(mine)] * size)


def test_broadcast_in_place():
    first = tf.Variable(data(hvd.rank(), 3))
    second = tf.Variable(hvd.rank(), dtype=tf.int64)
    values = hvd.broadcast_([first, second], root_rank=hvd.size() - 1)
    for found in (first, values[0]):
        np.testing.assert_array_equal(found, data(hvd.size() - 1, 3))
    assert second.numpy() == values[1].numpy() == hvd.size() - 1


def test_both_op_and_average_are_refused():
    with pytest.raises(InputError, match="give one of them"):
        hvd.allreduce(tf.ones(2), average=True, op=hvd.Sum)


def test_uneven_numbers_of_steps():
    for _ in range(hvd.rank()):
        hvd.allreduce(tf.ones(2), op=hvd.Sum)
    last = hvd.join()
    assert last.dtype == tf.int32
    assert int(last) == hvd.size() - 1


@UP_TO_TWO
def test_numbers_as_operations():
    asked = [hvd.size_op(), hvd.rank_op(), hvd.local_rank_op(), hvd.local_size_op(name="n")]
    expected = [hvd.size(), hvd.rank(), hvd.local_rank(), hvd.local_size()]
    assert [int(n) for n in asked] == expected
    assert int(hvd.process_set_included_op()) == 1
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        found = session.run([hvd.size_op(0), hvd.rank_op(name="r")])
    assert found == expected[:2] and found[0].dtype == np.int32
    assert int(tf.function(hvd.rank_op, jit_compile=True)()) == hvd.rank()


def test_who_the_ranks_are():
    assert hvd.is_initialized()
    assert (hvd.rank(), hvd.size()) == (sp.rank(), sp.size())
    hosts = hvd.allgather_object(socket.gethostname())
    assert hvd.local_size() == hosts.count(socket.gethostname())
    assert (hvd.cross_rank(), hvd.cross_size()) == (sp.cross_rank(), sp.cross_size())
    assert hvd.is_homogeneous() is True
    if hvd.rank() == 0:
        hvd.init()  # a second time, which does nothing and waits for nobody
    hvd.barrier()


def test_a_list_of_ranks_that_take_part():
    ranks = list(range(hvd.size()))
    assert _communicator(None) is None and _communicator([]) is None
    mpi = _communicator(ranks[::-1])  # in the order of the list, as Horovod has it
    assert (mpi.rank, mpi.size) == (hvd.size() - 1 - hvd.rank(), hvd.size())
    mpi.Free()
    with pytest.raises(InputError, match="different ranks among"):
        _communicator([0, 0])
    with pytest.raises(InputError, match="different ranks among"):
        _communicator([hvd.size()])


@pytest.mark.skipif(hvd.size() == 1, reason="needs a rank that is left out")
def test_a_rank_that_is_not_in_the_list():
    if hvd.rank() == 0:
        mpi = _communicator([0])
        assert mpi.size == 1
        mpi.Free()
    else:
        with pytest.raises(InputError, match=f"rank {hvd.rank()} .* is not in comm"):
            _communicator([0])


@UP_TO_TWO
def test_a_timeline_that_replaces_the_last_one(tmp_path):
    path = hvd.broadcast_object(str(tmp_path / "t.json"))
    for name in ("first", "second"):
        if name == "first":
            _start_timeline({"HOROVOD_TIMELINE": path} if hvd.rank() == 0 else {})
        else:
            hvd.start_timeline(path, mark_cycles=True)
        hvd.allreduce(tf.ones(2), name=name)
        hvd.stop_timeline()
    hvd.barrier()
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert json.loads(text) and "first" not in text
    assert "second" in text or hvd.size() == 1  # one rank transfers nothing
    _start_timeline({"HOROVOD_TIMELINE": "DYNAMIC"})
    _start_timeline({"HOROVOD_TIMELINE": path, "SCIML_PAR_TIMELINE": "own"})
    assert current_world().timeline is None


@LOCAL
def test_horovods_variables_become_options():
    given = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "30", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "0"}
    usual = {"tensor_float_32": "unchanged"}  # as Horovod leaves it
    assert _options({}) == usual
    assert _options({"SCIML_PAR_TENSOR_FLOAT_32": "0"}) == {}
    assert _options(given) == usual | {"stall_warning": 30.0}
    assert _options({**given, "SCIML_PAR_STALL_WARNING": "5"}) == usual
    never = _options({**given, "HOROVOD_STALL_CHECK_DISABLE": "1"})
    assert never["stall_warning"] == never["stall_limit"] == math.inf
    with pytest.raises(InputError, match="HOROVOD_STALL_CHECK_TIME_SECONDS"):
        _options({"HOROVOD_STALL_CHECK_TIME_SECONDS": "soon"})


TYPES = ("int32", "uint8", "float16", "float64")[:: 1 if hvd.size() == 2 else 3]


def slices(dtype: str, shift: int) -> tf.IndexedSlices:
    """Two rows, of which one has the number of the rank."""
    values = tf.cast(tf.fill([2, 3], 2 * hvd.rank() + shift), dtype)
    return tf.IndexedSlices(values, tf.constant([hvd.size(), hvd.rank()]), dense_shape=[9, 3])


def whole_rows(value) -> np.ndarray:
    """The rows, in integers: those that slices have twice are added."""
    if isinstance(value, tf.IndexedSlices):
        value = tf.math.unsorted_segment_sum(value.values, value.indices, 9)
    return value.numpy()


@pytest.mark.parametrize("op, dtype", list(zip(cycle((hvd.Sum, hvd.Average)), (*TYPES, TYPES[0]))))
def test_a_mixed_group_is_the_single_calls(op, dtype):
    mixed = [
        slices(dtype, 1),
        tf.cast([1, 2 + hvd.rank()], dtype),
        tf.constant(0.5 + hvd.rank()),
        slices("float64", 3),
        slices(dtype, 2),
        tf.cast([[7]], dtype),
    ]
    together = hvd.grouped_allreduce(mixed, op=op)
    for given, found in zip(mixed, together, strict=True):
        alone = hvd.allreduce(given, op=op)
        assert isinstance(found, tf.IndexedSlices) is isinstance(given, tf.IndexedSlices)
        assert found.dtype == alone.dtype == given.dtype
        np.testing.assert_array_equal(whole_rows(found), whole_rows(alone))


@pytest.mark.parametrize("dtype", TYPES)
def test_the_average_of_slices_keeps_its_type(dtype):
    found = hvd.allreduce(slices(dtype, 1))
    assert found.dtype == dtype
    expected = np.zeros([9, 3])
    for rank in range(hvd.size()):
        share = (2 * rank + 1) / hvd.size()
        expected[[hvd.size(), rank]] += np.trunc(share) if "int" in dtype else share
    np.testing.assert_allclose(whole_rows(found), expected, 1e-3)


class AgainstTheLargest(hvd.compression.Compressor):
    """Sends each tensor relative to its own largest value, the same on all ranks here."""

    @staticmethod
    def compress(tensor):
        largest = tf.reduce_max(tf.abs(tensor))
        return tensor / largest, largest

    @staticmethod
    def decompress(tensor, ctx):
        return tensor * ctx


def test_each_tensor_of_a_group_is_compressed_by_itself():
    tensors = [tf.constant([8.0, float(hvd.rank())]), tf.constant([-0.5, 0.25, 0.5])]
    found = hvd.grouped_allreduce(tensors, compression=AgainstTheLargest)
    np.testing.assert_allclose(found[0], [8.0, (hvd.size() - 1) / 2], 1e-6)
    np.testing.assert_allclose(found[1], tensors[1], 1e-6)

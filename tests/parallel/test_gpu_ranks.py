"""The exchange between several ranks' GPUs, through the public collectives.

The same programs give the same results and gradients by NCCL and by MPI. Without GPUs they run over
the fake of NCCL, which reads the host's memory; compiled functions then go by MPI both times.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from inside import HOST_MEMORY
from ranks import compiled, eager, graph, normal
from real_gpus import require_gpu
from transports import with_fake_gpus

import sciml_par.parallel as sp

pytestmark = pytest.mark.skipif(
    "sp.size() == 1", reason="one rank has nobody to exchange anything with"
)

ROWS = 9
"""Which no number of ranks from 2 to 4 but 3 divides."""


@pytest.fixture(scope="module", params=["fakes", pytest.param("GPUs", marks=pytest.mark.gpu)])
def group(request):
    world = sp.current_world().communicator
    if request.param == "GPUs":
        require_gpu(request.config)
        return world
    if sp.size() > 2:
        pytest.skip("two ranks are enough for a rehearsal")
    return with_fake_gpus(world.mpi)[0]


def own_rows():
    """Another number on each rank, and none on rank 0."""
    return 2 * sp.rank()


def next_rank():
    """Rows for the next rank only, another number from each."""
    splits = [0] * sp.size()
    splits[(sp.rank() + 1) % sp.size()] = sp.rank() + 1
    return splits


COLLECTIVES = {
    "allreduce": lambda x, **on: sp.allreduce(x, sp.Sum, **on),
    "average": lambda x, **on: sp.allreduce(x, sp.Average, **on),
    "largest": lambda x, **on: sp.allreduce(x, sp.Max, **on),
    "product": lambda x, **on: sp.allreduce(x, sp.Product, **on),
    "broadcast": lambda x, **on: sp.broadcast(x, sp.size() - 1, **on),
    "allgather": sp.allgather,
    "uneven allgather": lambda x, **on: sp.allgather(x[: own_rows()], **on),
    "reducescatter": lambda x, **on: sp.reducescatter(x, sp.Sum, **on),
    "even alltoall": lambda x, **on: sp.alltoall(x[: 2 * sp.size()], **on)[0],
    "uneven alltoall": lambda x, **on: sp.alltoall(x[: sp.rank() + 1], next_rank(), **on)[0],
    "fused allreduce": lambda x, **on: tf.stack(sp.fused_allreduce([x, 2 * x, x * x], **on)),
    "Adasum": lambda x, **on: sp.allreduce(x, sp.Adasum, **on),
}


def device(group):
    return "/CPU:0" if group.nccl_transport.memory == HOST_MEMORY else "/GPU:0"


def nccl_in(group, context):
    """Return the transport of a context: programs compiled for the CPU have no NCCL."""
    on_host = group.nccl_transport.memory == HOST_MEMORY
    return "MPI" if on_host and context is compiled else "NCCL"


def with_gradients(x, **on):
    """The result of each collective, and the gradient of a loss that differs between the ranks."""
    results = []
    for name, collective in COLLECTIVES.items():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = collective(x, **on)
            loss = tf.reduce_sum(y * y) * (1.0 + sp.rank())
        results += [y] if name == "Adasum" else [y, tape.gradient(loss, x)]
    return results


@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_results_and_gradients_are_those_of_mpi(group, carried, context):
    x = tf.constant(normal(sp.rank(), (ROWS, 2), "GPUs"))
    with tf.device(device(group)):
        by_nccl = context(lambda x: with_gradients(x, communicator=group))(tf.identity(x))
    assert set(carried) == {nccl_in(group, context)}
    carried.clear()
    with tf.device("/CPU:0"):
        by_mpi = with_gradients(tf.identity(x), device="/CPU:0")
    assert set(carried) == {"MPI"}
    for i, (one, other) in enumerate(zip(by_nccl, by_mpi, strict=True)):
        np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-12, 1e-13, err_msg=str(i))


@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_slices_with_int32_indices(group, carried, context):
    """TensorFlow keeps tensors of this type in host memory outside of compiled functions."""
    mine = normal(sp.rank(), (2, 3), "slices")

    def total(values, indices):
        slices = tf.IndexedSlices(values, indices, [sp.size() + 1, 3])
        y = sp.allreduce(slices, sp.Sum, communicator=group)
        return y.values, y.indices

    with tf.device(device(group)):
        values, indices = context(total)(tf.constant(mine), tf.constant([sp.rank(), sp.size()]))
    everyone = [normal(r, (2, 3), "slices") for r in range(sp.size())]
    np.testing.assert_array_equal(values.numpy(), np.concatenate(everyone))
    assert indices.dtype == tf.int32
    assert indices.numpy().tolist() == [i for r in range(sp.size()) for i in (r, sp.size())]
    # The ranks tell each other their numbers of rows by MPI.
    assert carried == ["MPI", *[nccl_in(group, context)] * 2]


def test_groups_of_ranks(group, carried):
    """Odd and even ranks, the last two ranks, and the whole."""
    parity, pair = group.split(sp.rank() % 2), [sp.size() - 2, sp.size() - 1]
    last_two = group.subset(pair)
    for part in (parity, last_two):
        if part is not None:
            part.nccl_transport.memory = group.nccl_transport.memory
    x = tf.constant(normal(sp.rank(), (4,), "groups"))
    everyone = [normal(r, (4,), "groups") for r in range(sp.size())]
    with tf.device(device(group)):
        of_parity = sp.allreduce(tf.identity(x), sp.Sum, communicator=parity)
        whole = sp.allreduce(tf.identity(x), sp.Sum, communicator=group)
        if last_two is not None:
            of_two = sp.allgather(tf.identity(x), communicator=last_two)
            np.testing.assert_array_equal(of_two.numpy(), np.concatenate(everyone[-2:]))
    np.testing.assert_allclose(of_parity.numpy(), sum(everyone[sp.rank() % 2 :: 2]), 1e-14)
    np.testing.assert_allclose(whole.numpy(), sum(everyone), 1e-13)
    assert set(carried) == {"NCCL"}

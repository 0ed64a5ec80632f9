"""Slices and groups between several ranks' GPUs; the collectives are in test_collectives.py.

Without GPUs they run over the fake of NCCL, which reads the host's memory; compiled functions then
go by MPI.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import compiled, eager, graph, normal
from transports import device_of

import sciml_par.parallel as sp
from sciml_par.parallel.tensors.memory import HOST_MEMORY

pytestmark = [
    pytest.mark.ranks(least=2, reason="one rank has nobody to exchange anything with"),
    pytest.mark.parametrize(
        "group",
        (
            pytest.param("NCCL", marks=pytest.mark.ranks(most=2, reason="a rehearsal")),
            pytest.param("NCCL on GPUs", marks=pytest.mark.gpu),
        ),
        indirect=True,
    ),
]


def nccl_in(group, context):
    """Return the transport of a context: programs compiled for the CPU have no NCCL."""
    on_host = group.nccl_transport.memory == HOST_MEMORY
    return "MPI" if on_host and context is compiled else "NCCL"


@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_slices_with_int32_indices(group, carried, context):
    """TensorFlow keeps tensors of this type in host memory outside of compiled functions."""
    mine = normal(sp.rank(), (2, 3), "slices")

    def total(values, indices):
        slices = tf.IndexedSlices(values, indices, [sp.size() + 1, 3])
        y = sp.allreduce(slices, sp.Sum, communicator=group)
        return y.values, y.indices

    with device_of(group):
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
    with device_of(group):
        of_parity = sp.allreduce(tf.identity(x), sp.Sum, communicator=parity)
        whole = sp.allreduce(tf.identity(x), sp.Sum, communicator=group)
        if last_two is not None:
            of_two = sp.allgather(tf.identity(x), communicator=last_two)
            np.testing.assert_array_equal(of_two.numpy(), np.concatenate(everyone[-2:]))
    np.testing.assert_allclose(of_parity.numpy(), sum(everyone[sp.rank() % 2 :: 2]), 1e-14)
    np.testing.assert_allclose(whole.numpy(), sum(everyone), 1e-13)
    assert set(carried) == {"NCCL"}

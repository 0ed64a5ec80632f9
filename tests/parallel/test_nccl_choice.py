"""The choice between NCCL and MPI, through the public collectives, on a fake NCCL.

The fake reads the host's memory, so that tensors of the CPU travel like a GPU's.
"""

from __future__ import annotations

import pytest
import tensorflow as tf
from ranks import eager, graph_loop, odd_one_out
from transports import transports_from_now_on

import sciml_par.parallel as sp
from sciml_par.errors import CollectiveMismatchError
from sciml_par.parallel.execution import eager as eager_module
from sciml_par.parallel.groups import call_site
from sciml_par.parallel.tensors.memory import HOST_MEMORY

pytestmark = pytest.mark.ranks(
    least=2, most=2, reason="a rank chooses by what it has itself, where there is another one"
)


@pytest.fixture
def carried(monkeypatch):
    """By what each collective of this rank was carried, in order."""
    return transports_from_now_on(monkeypatch)


@pytest.mark.parametrize("context", (eager, graph_loop))
def test_booleans_and_the_device_of_the_host_mean_mpi(fakes, carried, context):
    def run(truth, x):
        total = sp.allreduce(x, sp.Sum, communicator=fakes, device="/CPU:0")
        return [sp.allreduce(truth, sp.Max, communicator=fakes), total]

    truth, total = context(run)(tf.constant([odd_one_out(), False]), tf.fill([3], 1.0 + sp.rank()))
    assert truth.numpy().tolist() == [True, False] and set(carried) == {"MPI"}
    assert total.numpy().tolist() == [sum(range(1, sp.size() + 1))] * 3


def test_a_broadcast_is_compared_each_time(fakes, carried):
    """The hosts do not wait for the GPUs, so the root could be ahead of the others."""
    for _ in range(2):
        sp.broadcast(tf.ones(3), 0, communicator=fakes)
    with pytest.raises(CollectiveMismatchError, match="rank 0: broadcast"):
        if not odd_one_out():
            sp.broadcast(tf.ones(3), 0, communicator=fakes)
        fakes.barrier()
    assert sp.broadcast(tf.ones(3), 0, communicator=fakes).numpy().tolist() == [1.0] * 3


def test_hosts_meet_now_and_then(fakes, carried, monkeypatch):
    monkeypatch.setattr(call_site, "_MOST_ENQUEUED", 4)
    agree, compared = fakes.agree, []
    monkeypatch.setattr(fakes, "agree", lambda *a, **k: [compared.append(a), agree(*a, **k)][1])
    for _ in range(9):
        sp.allreduce(tf.ones(3), sp.Sum, communicator=fakes)
    assert 3 <= len(compared) <= 4  # the first one, and each fourth


def test_tensors_in_other_memory_go_by_mpi(fakes, carried, monkeypatch):
    """As every tensor of the host does where NCCL reads a GPU's memory."""
    monkeypatch.setattr(fakes.nccl_transport, "memory", 2)
    y = sp.allreduce(tf.fill([3], 1.0 + sp.rank()), sp.Sum, communicator=fakes)
    assert y.numpy().tolist() == [sum(range(1, sp.size() + 1))] * 3
    assert carried == ["MPI"]


def test_without_memory_for_the_result_it_goes_by_mpi(fakes, carried, monkeypatch):
    """TensorFlow creates empty uint32 tensors on the host, also with a GPU."""
    x = tf.fill([3], 1.0 + sp.rank())
    there = {id(x): HOST_MEMORY}
    monkeypatch.setattr(eager_module, "kind_of_memory", lambda tensor: there.get(id(tensor), -1))
    y = sp.allreduce(x, sp.Sum, communicator=fakes)
    assert y.numpy().tolist() == [sum(range(1, sp.size() + 1))] * 3
    assert carried == ["MPI"]

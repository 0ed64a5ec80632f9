"""Which way a tensor travels, through the public collectives, on a fake NCCL that reads the host.

With `memory` set to the host's kind, NCCL "reads" every tensor of the CPU: so eager code and
graphs take the way of a GPU's tensors, on any number of ranks, without one.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from fake_gpus import transports_from_now_on, with_fake_gpus
from ranks import FLOATS, TYPES, eager, graph, graph_loop, nested, normal, values

import sciml_par.parallel as sp
from sciml_par.parallel.execution import dispatch as context_module
from sciml_par.parallel.tensors.memory import HOST_MEMORY, view

pytestmark = pytest.mark.ranks(
    least=2, most=2, reason="a rank chooses by what it has itself, where there is another one"
)

NOT_OF_NCCL = ("bool", "int16", "uint16")
INTERPRETED = (eager, graph, graph_loop)
"""The contexts in which TensorFlow says, when the program runs, where the tensor is."""


@pytest.fixture(scope="module")
def made_once():
    return with_fake_gpus(sp.current_world().communicator.mpi)


@pytest.fixture
def group(made_once):
    """All ranks, with GPUs that are fakes."""
    made_once[0].call_sites.clear()
    made_once[0].progress.ledger.clear()
    return made_once[0]


@pytest.fixture
def nccl(made_once):
    made_once[1].calls.clear()
    return made_once[1]


@pytest.fixture
def carried(monkeypatch):
    """By what each collective of this rank was carried, in order."""
    return transports_from_now_on(monkeypatch)


def odd_one_out():
    return sp.rank() == sp.size() - 1


def rows():
    """This rank's number of rows, another on each rank."""
    return sp.rank() + 1


COLLECTIVES = {
    "allreduce": lambda x, g: sp.allreduce(x, sp.Sum, communicator=g),
    "average": lambda x, g: sp.allreduce(x, sp.Average, communicator=g),
    "largest": lambda x, g: sp.allreduce(x, sp.Max, communicator=g),
    "product": lambda x, g: sp.allreduce(x, sp.Product, communicator=g),
    "broadcast": lambda x, g: sp.broadcast(x, sp.size() - 1, communicator=g),
    "allgather": lambda x, g: sp.allgather(x, communicator=g),
    "uneven allgather": lambda x, g: sp.allgather(x[: rows()], communicator=g),
    "allgather of nothing on rank 0": lambda x, g: sp.allgather(
        x[: 3 * (sp.rank() > 0)], communicator=g
    ),
    "reducescatter": lambda x, g: sp.reducescatter(x, sp.Sum, communicator=g),
    "alltoall": lambda x, g: sp.alltoall(x[: 2 * sp.size()], communicator=g)[0],
}
"""On 9 rows, which no number of ranks from 2 to 4 but 3 divides."""

ROWS = 9


@pytest.mark.parametrize("context", INTERPRETED)
def test_results_and_gradients_are_those_of_mpi(group, carried, context):
    """For every collective, one after the other in one function."""
    xs = [tf.constant(normal(sp.rank(), (ROWS, 2), name)) for name in COLLECTIVES]

    def run_over(group):
        def every_case(*xs):
            results = []
            for x, collective in zip(xs, COLLECTIVES.values(), strict=True):
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    y = collective(x, group)
                    # Another loss on each rank, of second order.
                    loss = tf.reduce_sum(y * y) * (1.0 + sp.rank())
                results += [y, tape.gradient(loss, x)]
            return results

        carried.clear()
        return context(every_case)(*xs), list(carried)

    results, nccl_transport = run_over(group)
    of_mpi, mpi_transport = run_over(None)
    assert (
        set(nccl_transport) == {"NCCL"}
        and set(mpi_transport) == {"MPI"}
        and len(nccl_transport) == len(mpi_transport)
    )
    what = [f"{part} of {name}" for name in COLLECTIVES for part in ("result", "gradient")]
    for y, y_mpi, name in zip(results, of_mpi, what, strict=True):
        np.testing.assert_allclose(y, y_mpi, rtol=1e-12, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("context", INTERPRETED)
def test_every_element_type(group, carried, context):
    types = [t for t in TYPES if t != "bool"]
    run = context(lambda *xs: [sp.allreduce(x, sp.Max, communicator=group) for x in xs])
    results = run(*[tf.constant(values(sp.rank(), (3, 2), dtype)) for dtype in types])
    for dtype, y in zip(types, results, strict=True):
        largest = np.max([values(r, (3, 2), dtype) for r in range(sp.size())], axis=0)
        np.testing.assert_array_equal(y.numpy(), largest, err_msg=dtype)
    passes = 2 if context is graph_loop else 1
    assert carried == ["MPI" if t in NOT_OF_NCCL else "NCCL" for t in types] * passes


@pytest.mark.parametrize("context", INTERPRETED)
def test_booleans_go_by_mpi(group, carried, context):
    run = context(lambda x: [sp.allreduce(x, sp.Max, communicator=group)])
    (y,) = run(tf.constant([odd_one_out(), False]))
    assert y.numpy().tolist() == [True, False] and set(carried) == {"MPI"}


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_sum_of_many_is_rounded_to_its_type(group, dtype):
    """NCCL adds 16-bit numbers in their own type, and rounds at each addition."""
    x = tf.cast(tf.constant(normal(sp.rank(), (50,), dtype)), dtype)
    nccl_transport = sp.allreduce(x, sp.Sum, communicator=group)
    everyone = sp.allgather(tf.cast(x, tf.float64)[tf.newaxis]).numpy()
    error = np.abs(tf.cast(nccl_transport, tf.float64).numpy() - everyone.sum(0))
    digits = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}[dtype]
    assert (error <= sp.size() * 2.0**-digits * np.abs(everyone).sum(0)).all()


# Where the program says how


@pytest.mark.parametrize("context", INTERPRETED)
def test_the_device_of_the_host_means_mpi(group, carried, context):
    run = context(lambda x: [sp.allreduce(x, sp.Sum, communicator=group, device="/CPU:0")])
    (y,) = run(tf.fill([3], 1.0 + sp.rank()))
    assert y.numpy().tolist() == [sum(range(1, sp.size() + 1))] * 3
    assert set(carried) == {"MPI"}


@pytest.mark.parametrize("wrap", (lambda f: tf.function(f, jit_compile=True), nested))
def test_a_program_compiled_for_the_cpu_goes_by_mpi(group, carried, wrap):
    run = wrap(lambda x: [sp.allreduce(x, sp.Sum, communicator=group)])
    (y,) = run(tf.fill([3], 1.0 + sp.rank()))
    assert y.numpy().tolist() == [sum(range(1, sp.size() + 1))] * 3
    assert carried == ["MPI"]


def test_tensors_in_other_memory_go_by_mpi(group, carried, monkeypatch):
    """As every tensor of the host does where NCCL reads a GPU's memory."""
    monkeypatch.setattr(group.nccl_transport, "memory", 2)
    y = sp.allreduce(tf.fill([3], 1.0 + sp.rank()), sp.Sum, communicator=group)
    assert y.numpy().tolist() == [sum(range(1, sp.size() + 1))] * 3
    assert carried == ["MPI"]


def test_without_memory_for_the_result_it_goes_by_mpi(group, carried, monkeypatch):
    """TensorFlow makes empty uint32 tensors on the host, also beside a GPU."""
    x = tf.fill([3], 1.0 + sp.rank())
    there = {id(x): HOST_MEMORY}
    monkeypatch.setattr(context_module, "kind_of_memory", lambda tensor: there.get(id(tensor), -1))
    y = sp.allreduce(x, sp.Sum, communicator=group)
    assert y.numpy().tolist() == [sum(range(1, sp.size() + 1))] * 3
    assert carried == ["MPI"]


# Memory


def test_the_result_lies_in_memory_of_its_own(group):
    x = tf.fill([4], 1.0 + sp.rank())
    alias = tf.identity(x)
    flat = tf.reshape(x, [2, 2])
    y = sp.allreduce(x, sp.Sum, communicator=group)
    z = sp.broadcast(x, 0, communicator=group)
    addresses = [view(t).address for t in (x, y, z)]
    assert len(set(addresses)) == 3
    for unchanged in (x, alias, flat):
        assert unchanged.numpy().ravel().tolist() == [1.0 + sp.rank()] * 4
    assert y.numpy().tolist() == [sum(range(1, sp.size() + 1))] * 4
    assert z.numpy().tolist() == [1.0] * 4


def test_a_call_waits_for_its_own_stream(group, nccl):
    sp.allreduce(tf.ones(3), sp.Sum, communicator=group)
    ((_, arguments),) = [call for call in nccl.calls if call[0] == "allReduce"]
    assert arguments[-1] == group.nccl_transport.stream
    assert ("streamSynchronize", (group.nccl_transport.stream,)) == nccl.runtime.calls[-1]


# What is built on the collectives


@pytest.mark.parametrize("context", (eager, graph))
def test_the_tape(group, carried, context):
    w = tf.Variable([1.0, 2.0])
    b = tf.Variable(3.0)

    def step(x):
        with sp.DistributedGradientTape(tf.GradientTape(), communicator=group) as tape:
            loss = tf.reduce_sum(w * x) + b * x[0]
        return tape.gradient(loss, [w, b])

    gradient_w, gradient_b = context(step)(tf.constant([1.0 + sp.rank(), 2.0]))
    mean = (1 + sp.size()) / 2
    np.testing.assert_allclose(gradient_w.numpy(), [mean, 2.0], rtol=1e-6)
    np.testing.assert_allclose(gradient_b.numpy(), mean, rtol=1e-6)
    assert carried == ["NCCL"]


@pytest.mark.parametrize("context", (eager, graph))
def test_fused_tensors_of_several_types(group, carried, context):
    tensors = [
        tf.fill([2], 1.0 + sp.rank()),
        tf.constant(sp.rank(), tf.int16),
        tf.fill([2, 2], 10.0 + sp.rank()),
        tf.constant([sp.rank()], tf.int32),
    ]
    run = context(lambda *xs: sp.fused_allreduce(xs, sp.Sum, communicator=group))
    a, b, c, d = (y.numpy() for y in run(*tensors))
    total, size = sum(range(sp.size())), sp.size()
    assert a.tolist() == [size + total] * 2 and c.tolist() == [[10 * size + total] * 2] * 2
    assert b == total and d.tolist() == [total]
    assert carried == ["NCCL", "MPI", "NCCL"]


def test_variables(group, carried):
    variables = [tf.Variable(tf.fill([3], 1.0 + sp.rank())), tf.Variable(sp.rank(), dtype=tf.int32)]
    root = sp.size() - 1
    sp.broadcast_variables(variables, root, communicator=group)
    assert variables[0].numpy().tolist() == [float(sp.size())] * 3
    assert variables[1].numpy() == root
    assert carried == ["NCCL", "NCCL"]


@pytest.mark.ranks(most=4, reason="a part of two ranks needs three")
def test_a_part_of_the_ranks(group, carried):
    group.nccl_transport.gpu._cuda.looks_until_done = 0
    part = group.split(sp.rank() % 2)
    part.nccl_transport.memory = HOST_MEMORY
    y = sp.allreduce(tf.constant(1.0 + sp.rank()), sp.Sum, communicator=part)
    assert y.numpy() == sum(r + 1 for r in range(sp.rank() % 2, sp.size(), 2))
    assert carried == (["NCCL"] if part.size > 1 else [])

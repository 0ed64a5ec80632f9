"""Allreduces on several hosts, which four ranks of one host take themselves for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from test_recovery import CONTEXTS, MISMATCHES

import sciml_par.parallel as sp
from sciml_par.errors import TransferError
from sciml_par.parallel.groups import over_hosts
from sciml_par.parallel.native.layout import Group
from sciml_par.parallel.requests.request import Allreduce

pytestmark = pytest.mark.ranks(least=4, reason="two hosts with two ranks each take four")


@pytest.fixture(params=("neighbours", "in turns"))
def group(request, monkeypatch):
    """All ranks, as if they were on two hosts."""
    monkeypatch.setattr(over_hosts, "_LEAST_OF_A_HOST", 2)
    world = sp.current_world().communicator
    if world.native.obstacle:
        pytest.skip(world.native.obstacle)
    hosts = (0, 0, 1, 1) if request.param == "neighbours" else (0, 1, 0, 1)
    native, world.native = world.native, replace(world.native, hosts=hosts)
    try:
        group = world.split(0)
        group.native = world.native
    finally:
        world.native = native
    assert group.shared is None
    assert group.mpi_transport.levels is not None
    yield group
    group.free()


def transfers_within(group):
    """How many there were through the shared memory of the host."""
    return group._own_host.words[Group.CALLS]


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("op", (sp.Sum, sp.Average, sp.Min, sp.Product))
def test_the_result_is_that_of_all_ranks(group, context, op):
    x = np.random.default_rng(sp.rank()).integers(1, 9, 35).astype("float32")
    everyone = np.array(group.allgather_object(x))
    reduce = {sp.Sum: np.sum, sp.Average: np.mean, sp.Min: np.min, sp.Product: np.prod}[op]
    before = transfers_within(group)
    found = context(lambda: tf.reduce_sum(sp.allreduce(tf.constant(x), op, communicator=group)))
    np.testing.assert_allclose(found, reduce(everyone, axis=0).sum(), rtol=1e-6)
    assert transfers_within(group) >= before + 2


@pytest.mark.parametrize("dtype", ("float64", "int32", "complex64", "bfloat16", "bool"))
def test_element_types(group, dtype):
    x = tf.cast(tf.constant([0, 1, 1, sp.rank()]), dtype)
    op = sp.Max if dtype == "bool" else sp.Sum
    found = sp.allreduce(x, op, communicator=group)
    expected = [0, 1, 1, 1] if dtype == "bool" else [0, 4, 4, 6]
    np.testing.assert_array_equal(tf.cast(found, tf.complex128), expected)


@pytest.mark.parametrize("count", (7, 70_001, 700_003))
def test_all_ranks_have_the_same_to_the_last_bit(group, count):
    """Through shared memory and MPI, and in shares by MPI alone."""
    x = np.random.default_rng(sp.rank()).standard_normal(count).astype("float32")
    found = sp.allreduce(tf.constant(x), sp.Average, communicator=group).numpy()
    everyone = group.allgather_object((x, found.tobytes()))
    assert len({theirs for _, theirs in everyone}) == 1
    np.testing.assert_allclose(found, np.mean([x for x, _ in everyone], axis=0), atol=1e-6)


def test_it_goes_on_after_a_mismatch(group):
    """Also where a call site is new on one rank, whose tensors go by new communicators."""
    older = tf.function(lambda x: sp.allreduce(x, sp.Sum, communicator=group), jit_compile=True)
    older(tf.ones(5))
    op = sp.Max if sp.rank() == 3 else sp.Sum
    with pytest.raises(MISMATCHES):
        sp.allreduce(tf.ones(6), op, communicator=group)
    new = tf.function(lambda x: sp.allreduce(x, sp.Sum, communicator=group), jit_compile=True)
    for count in (5, 400_000):
        again = new if sp.rank() == 0 else older
        np.testing.assert_array_equal(again(tf.ones(count)), 4.0)


def test_ranks_of_a_host_that_differ_are_told(group):
    """By an error, since the other host's ranks wait for theirs; so these take no part here."""
    levels = group.mpi_transport.levels
    if 0 in levels.within.allgather(sp.rank()):
        request = Allreduce("float32", (3 + (sp.rank() == 0),), sp.Sum)
        x = np.ones(request.shape, "float32")
        with pytest.raises(TransferError, match="another one of its host.*SCIML_PAR_CHECK"):
            group.mpi_transport.prepare(request)(x.ctypes.data, x.ctypes.data)

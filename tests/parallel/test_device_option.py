"""device=: the memory from which collectives take their tensors; GPUs have separate tests."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf
from ranks import EAGER_FIRST, normal, values
from selection import in_groups

import sciml_par.parallel as sp

pytestmark = pytest.mark.ranks(
    most=2, reason="where tensors come from does not depend on the other ranks"
)

COLLECTIVES = {
    "allreduce": lambda x, **where: sp.allreduce(x, sp.Max, **where),
    "broadcast": lambda x, **where: sp.broadcast(x, sp.size() - 1, **where),
    "allgather": sp.allgather,
    "reducescatter": lambda x, **where: sp.reducescatter(x, sp.Max, **where),
    "alltoall": lambda x, **where: sp.alltoall(x, **where)[0],
}
ON_HOST = ("/CPU:0", "cpu", "CPU:0", "/cpu:0", "/device:CPU:0", "/job:localhost/task:0/CPU:0")


def mine(dtype):
    return tf.constant(values(sp.rank(), (2 * sp.size(), 2), dtype))


@in_groups(
    "context, cases",
    EAGER_FIRST,
    list(itertools.product(("bfloat16", "float64", "int32"), COLLECTIVES)),
)
def test_from_the_host_is_the_same(context, cases):
    """For every collective and type, all in one function."""

    def run(*xs):
        return [
            COLLECTIVES[kind](x, device=device)
            for x, (_, kind) in zip(xs, cases, strict=True)
            for device in ("/CPU:0", None)
        ]

    results = context(run)(*[mine(dtype) for dtype, _ in cases])
    for on_host, as_it_comes, case in zip(results[::2], results[1::2], cases, strict=True):
        assert on_host.dtype == as_it_comes.dtype
        np.testing.assert_array_equal(on_host.numpy(), as_it_comes.numpy(), err_msg=f"{case}")


def test_the_host_has_several_names():
    for device in ON_HOST:
        total = sp.allreduce(tf.constant(float(sp.rank())), sp.Sum, device=device)
        assert total.numpy() == sum(range(sp.size())), device


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_gradients_and_fused_collectives_take_it_along(context):
    x = tf.constant(normal(sp.rank(), (2 * sp.size(),), "device"))
    kinds = [kind for kind in COLLECTIVES if kind != "broadcast"]

    def run(x, where):
        results = [*sp.fused_allreduce([x, 2 * x], **where), *sp.fused_broadcast([x], **where)]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            ys = [COLLECTIVES[kind](x * x, **where) for kind in kinds]
        gradients = sp.DistributedGradientTape(tape, **where)
        return [*results, *(gradients.gradient(y, x) for y in ys)]

    on_host = context(lambda x: run(x, {"device": "/CPU:0"}))(x)
    as_it_comes = context(lambda x: run(x, {}))(x)
    assert len(on_host) == 3 + len(kinds)
    for one, other in zip(on_host, as_it_comes, strict=True):
        np.testing.assert_allclose(one, other, 1e-13)


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="there is a GPU")
def test_a_gpu_that_is_not_there():
    """TensorFlow computes on the host what it was told to compute on a GPU."""
    total = sp.allreduce(tf.constant(1.0), sp.Sum, device="/GPU:0")
    assert total.numpy() == sp.size()

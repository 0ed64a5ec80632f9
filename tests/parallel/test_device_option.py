"""device=: the memory from which collectives take their tensors; GPUs have separate tests."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import EAGER_FIRST, eager, normal

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


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_from_the_host_is_the_same(context):
    """For every collective, fused ones and gradients, all in one function."""
    x = tf.constant(normal(sp.rank(), (2 * sp.size(),), "device"))

    def run(x, where):
        results = [*sp.fused_allreduce([x, 2 * x], **where), *sp.fused_broadcast([x], **where)]
        results += [COLLECTIVES[kind](tf.range(2 * sp.size()), **where) for kind in COLLECTIVES]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            ys = [COLLECTIVES[kind](x * x, **where) for kind in COLLECTIVES]
        gradients = [tape.gradient(y, x) for y in ys]
        sums = sp.DistributedGradientTape(tape, **where).gradient(ys[0], x)
        return [*results, *ys, *gradients, sums]

    as_it_comes = context(lambda x: run(x, {}))(x)
    names = ("/CPU:0", "cpu", "CPU:0", "/cpu:0", "/device:CPU:0", "/job:localhost/task:0/CPU:0")
    for name in names[: 6 if context is eager else 1]:
        on_host = context(lambda x, name=name: run(x, {"device": name}))(x)
        for one, other in zip(on_host, as_it_comes, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, 1e-13, err_msg=name)


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="there is a GPU")
def test_a_gpu_that_is_not_there():
    """TensorFlow computes on the host what it was told to compute on a GPU."""
    total = sp.allreduce(tf.constant(1.0), sp.Sum, device="/GPU:0")
    assert total.numpy() == sp.size()

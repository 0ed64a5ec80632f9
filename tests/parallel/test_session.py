"""Collectives in graphs of TensorFlow 1, run by a Session."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import sciml_par.parallel as sp


def test_collectives_and_a_gradient() -> None:
    v1 = tf.compat.v1
    mine = np.arange(3.0) + 10 * sp.rank()
    everyone = np.stack([np.arange(3.0) + 10 * rank for rank in range(sp.size())])
    with v1.Graph().as_default():
        x = v1.placeholder(tf.float64, [3])
        total = sp.allreduce(x, sp.Sum)
        last = sp.broadcast(2 * x, sp.size() - 1)
        rows = sp.allgather(x[tf.newaxis])
        gradient = v1.gradients(tf.reduce_sum(total**2), x)[0]
        with v1.Session() as session:
            found = session.run([total, last, rows, gradient], {x: mine})
    np.testing.assert_allclose(found[0], everyone.sum(axis=0))
    np.testing.assert_allclose(found[1], 2 * everyone[-1])
    np.testing.assert_allclose(found[2], everyone)
    # Every rank's loss depends on x, hence the factor P.
    np.testing.assert_allclose(found[3], 2 * sp.size() * everyone.sum(axis=0))

"""The start of programs of TensorFlow 1: variables of one rank on all, in sessions."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import sciml_par.horovod.tensorflow as hvd
from sciml_par.parallel.execution.xla_custom_call import _order_variable

v1 = tf.compat.v1

pytestmark = pytest.mark.skipif(hvd.size() > 2, reason="the same on two ranks")


def build():
    """A variable that starts different on every rank, and a step that needs a feed."""
    x = v1.placeholder(tf.float32, [None, 2])
    start = np.random.default_rng([hvd.rank(), 1]).normal(size=[2]).astype("float32")
    w = v1.get_variable("w", initializer=start)
    optimizer = hvd.DistributedOptimizer(v1.train.AdamOptimizer(0.01))
    loss = tf.reduce_mean(tf.reduce_sum(x * w, axis=1) ** 2)
    return x, w, optimizer.minimize(loss, global_step=v1.train.get_or_create_global_step())


def points() -> np.ndarray:
    rows = 2 + hvd.rank()  # the placeholder does not know how many
    return np.random.default_rng([hvd.rank(), 2]).normal(size=[rows, 2])


def same_everywhere(value: np.ndarray) -> bool:
    return len({each.tobytes() for each in hvd.allgather_object(value)}) == 1


def test_a_monitored_session_with_the_hook():
    root = hvd.size() - 1
    with v1.Graph().as_default():
        x, w, train_op = build()
        start = np.random.default_rng([root, 1]).normal(size=[2]).astype("float32")
        hooks = [
            hvd.BroadcastGlobalVariablesHook(root, device="/cpu:0"),
            v1.train.StopAtStepHook(last_step=3),
        ]
        config = v1.ConfigProto()
        config.gpu_options.visible_device_list = str(hvd.local_rank())
        with v1.train.MonitoredTrainingSession(hooks=hooks, config=config) as session:
            np.testing.assert_array_equal(session.run(w), start)
            steps = 0
            while not session.should_stop():
                session.run(train_op, {x: points()})
                steps += 1
                if not session.should_stop():
                    found = session.run(w)
                    assert same_everywhere(found) and not np.array_equal(found, start)
        assert steps == 3


def test_a_plain_session():
    with v1.Graph().as_default():
        x, w, train_op = build()
        start = hvd.broadcast_global_variables(0)
        in_place = hvd.broadcast_([w], hvd.size() - 1)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            mine = session.run(w)
            session.run(start)
            first = session.run(w)
            assert np.array_equal(first, mine) or hvd.rank() > 0
            assert same_everywhere(first)
            session.run(train_op, {x: points()})
            assert same_everywhere(session.run(w))
            session.run(w.assign([float(hvd.rank()), 0.0]))
            (value,) = session.run(in_place)
            np.testing.assert_array_equal(value, [hvd.size() - 1, 0.0])
            np.testing.assert_array_equal(session.run(w), value)


def test_the_order_of_compiled_functions_outlives_the_graph_that_it_was_made_in():
    with v1.Graph().as_default():
        order = _order_variable("CPU")
    assert order.numpy() == 0.0  # a variable of that graph has no value outside of it

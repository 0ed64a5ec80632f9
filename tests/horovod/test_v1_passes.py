"""Several backward passes a step in graphs of TensorFlow 1, with gradients of all kinds."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import sciml_par.horovod.tensorflow as hvd

v1 = tf.compat.v1

pytestmark = pytest.mark.skipif(hvd.size() != 2, reason="the same on two ranks")
RANK, SIZE = hvd.rank(), hvd.size()
PASSES = 2


@pytest.fixture
def graph(control_flow):
    """A graph of TensorFlow 1, with control flow as it is since version 2, or as it was."""
    enabled = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if control_flow == 2 else v1.disable_control_flow_v2)()
    with v1.Graph().as_default() as graph:
        yield graph
    (v1.enable_control_flow_v2 if enabled else v1.disable_control_flow_v2)()


def start(session) -> None:
    session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])


def distributed(**options):
    inner = v1.train.GradientDescentOptimizer(1.0)
    return hvd.DistributedOptimizer(inner, backward_passes_per_step=PASSES, **options)


# TensorFlow's control flow of version 2 has no variables that are no resources.
@pytest.mark.parametrize(
    "control_flow, sparse_as_dense, use_resource",
    ((2, True, True), (1, False, True), (1, True, False)),
)
def test_sparse_gradients(graph, sparse_as_dense, use_resource):
    table = v1.get_variable("table", initializer=tf.zeros([SIZE, 2]), use_resource=use_resource)
    rows = v1.placeholder(tf.int32, [None])
    loss = tf.reduce_sum(tf.gather(table, rows))
    step = distributed(sparse_as_dense=sparse_as_dense).minimize(loss)
    with v1.Session() as session:
        start(session)
        for number in range(2 * PASSES):
            session.run(step, {rows: [RANK] * (1 + number % PASSES)})  # two rows in every second
            found = session.run(table)
            # Each rank has met its own row once and twice; the mean over the ranks is applied.
            expected = -3.0 / SIZE * ((number + 1) // PASSES)
            np.testing.assert_allclose(found, np.full([SIZE, 2], expected), 1e-6)


@pytest.mark.parametrize(
    "control_flow, scale, average", ((2, True, True), (2, False, False), (1, True, False))
)
def test_local_variables(graph, scale, average):
    shared = v1.get_variable("shared", initializer=[0.0], use_resource=True)
    own = v1.get_variable("own", initializer=[0.0], use_resource=True)
    unused = v1.get_variable("unused", initializer=[0.0], use_resource=True)
    optimizer = distributed(scale_local_gradients=scale, average_aggregated_gradients=average)
    optimizer.register_local_var(own)
    pairs = optimizer.compute_gradients(
        (shared + own) * float(RANK + 1), var_list=[shared, own, unused]
    )
    step = optimizer.apply_gradients(pairs)
    with v1.Session() as session:
        start(session)
        for _ in range(PASSES):
            session.run(step)
        by_shared, by_own, by_unused = session.run([shared, own, unused])
    passes = 1 if average else PASSES
    np.testing.assert_allclose(by_shared, [-passes * (SIZE + 1) / 2], 1e-6)
    np.testing.assert_allclose(by_own, [-passes * (RANK + 1) / (SIZE if scale else 1)], 1e-6)
    assert by_unused[0] == 0.0


@pytest.mark.parametrize("control_flow, sparse", ((2, True), (1, False)))
def test_infinite_gradients_are_forgotten_with_their_step(graph, sparse):
    """As of a loss that overflows: the program restores its weights, and goes on."""
    w = v1.get_variable("w", initializer=[[1.0]], use_resource=True)
    factor = v1.placeholder(tf.float32, [])
    value = tf.gather(w, [0]) if sparse else w
    step = distributed().minimize(tf.reduce_sum(value) * factor)
    with v1.Session() as session:
        start(session)
        for infinite in (np.inf, np.nan):
            session.run(step, {factor: infinite if RANK == 0 else 1.0})
            assert session.run(w)[0, 0] == 1.0  # not yet
            session.run(step, {factor: 1.0})
            assert not np.isfinite(session.run(w)[0, 0])  # on all ranks
            w.load([[1.0]], session)
            for _ in range(PASSES):
                session.run(step, {factor: 0.25})
            np.testing.assert_allclose(session.run(w), [[0.5]])
            w.load([[1.0]], session)


@pytest.mark.parametrize("control_flow", (2,))
def test_infinite_gradients_with_adasum(graph):
    w = v1.get_variable("w", initializer=[1.0], use_resource=True)
    factor = v1.placeholder(tf.float32, [])
    step = distributed(op=hvd.Adasum).minimize(w * factor)
    with v1.Session() as session:
        start(session)
        for _ in range(PASSES):
            session.run(step, {factor: np.inf})
        assert not np.isfinite(session.run(w)[0])
        w.load([1.0], session)
        for _ in range(PASSES):
            session.run(step, {factor: 0.25})  # the same on all ranks, so it is averaged
        np.testing.assert_allclose(session.run(w), [0.5])

"""Optimizers of TensorFlow 1 in graphs and sessions, against the same training in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import sciml_par.horovod.tensorflow as hvd
from sciml_par.errors import InputError
from sciml_par.parallel.execution.graph_lifetime import hidden_variable

v1 = tf.compat.v1
RATE = 0.125  # exact in float32, in which these optimizers keep it
STEPS = 4
PASSES = 2
RANK, SIZE = hvd.rank(), hvd.size()
ON_TWO = pytest.mark.ranks(least=2, most=2, reason="the same on two ranks")
BOTH = pytest.mark.parametrize("control_flow", (2, 1))


def data(rank: int) -> np.ndarray:
    """One row of factors for each step of a rank, [STEPS, 3]."""
    return np.random.default_rng([rank, 5]).normal(size=(STEPS, 3))


def everyone() -> np.ndarray:
    """[P, STEPS, 3]."""
    return np.stack([data(rank) for rank in range(hvd.size())])


@pytest.fixture
def graph(control_flow):
    """A graph of TensorFlow 1, with its control flow of version 1 or 2."""
    enabled = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if control_flow == 2 else v1.disable_control_flow_v2)()
    with v1.Graph().as_default():
        yield
    (v1.enable_control_flow_v2 if enabled else v1.disable_control_flow_v2)()


def start(session) -> None:
    session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])


def distributed(**options):
    """Plain descent at rate 1 with two passes a step."""
    inner = v1.train.GradientDescentOptimizer(1.0)
    return hvd.DistributedOptimizer(inner, backward_passes_per_step=PASSES, **options)


def train(optimizer, *, steps: int = STEPS) -> list[list[np.ndarray]]:
    """[w, b, global step] after each step of minimizing x·w² + 2b, from w = 1, b = 0."""
    x = v1.placeholder(tf.float64, [3])
    w = v1.get_variable("w", initializer=tf.ones([3], tf.float64))
    # Reference variables, as in programs without TensorFlow 2's behaviour.
    resource = v1.control_flow_v2_enabled()
    b = v1.get_variable("b", initializer=tf.zeros([], tf.float64), use_resource=resource)
    step = v1.train.get_or_create_global_step()
    loss = tf.reduce_sum(x * w**2) + 2 * b
    if hasattr(optimizer, "register_local_var"):
        optimizer.register_local_var(b)
    train_op = optimizer.minimize(loss, global_step=step)
    seen = []
    with v1.Session() as session:
        start(session)
        for row in data(hvd.rank())[:steps]:
            session.run(train_op, {x: row})
            seen.append(session.run([w, b, step]))
    return seen


@ON_TWO
@BOTH
def test_gradients_are_averaged_and_local_ones_scaled(graph):
    optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(RATE))
    found = train(optimizer)
    w = np.ones(3)
    for i, row in enumerate(everyone().mean(axis=0)):
        w = w - RATE * 2 * row * w
        np.testing.assert_allclose(found[i][0], w, 1e-12)
    assert found[-1][1] == pytest.approx(-RATE * STEPS * 2 / hvd.size())
    assert found[-1][2] == STEPS


@ON_TWO
@pytest.mark.parametrize("control_flow, average", ((1, False), (2, True)))
def test_several_passes_a_step(graph, average):
    optimizer = hvd.DistributedOptimizer(
        v1.train.MomentumOptimizer(RATE, 0.5),
        op=hvd.Sum,
        backward_passes_per_step=2,
        average_aggregated_gradients=average,
    )
    found = train(optimizer)
    w, velocity = np.ones(3), np.zeros(3)
    rows = everyone().sum(axis=0)
    for i in (1, 3):
        np.testing.assert_allclose(found[i - 1][0], w, 1e-12)  # nothing changes in between
        gradient = 2 * (rows[i - 1] + rows[i]) * w * (0.5 if average else 1.0)
        velocity = 0.5 * velocity + gradient
        w = w - RATE * velocity
        np.testing.assert_allclose(found[i][0], w, 1e-12)
    assert [at[2] for at in found] == [1, 2, 3, 4]
    assert optimizer.get_slot_names() == ["momentum"]


@ON_TWO
@BOTH
def test_other_collectives_in_the_same_graph(graph):
    """They run alone, and after a step with its collective in a branch."""
    optimizer = hvd.DistributedOptimizer(
        v1.train.GradientDescentOptimizer(RATE), backward_passes_per_step=2
    )
    x = v1.placeholder(tf.float64, [3])
    w = v1.get_variable("w", initializer=tf.fill([3], tf.constant(1.0 + RANK, tf.float64)))
    train_op = optimizer.minimize(tf.reduce_sum(x * w))
    mean = hvd.allreduce(tf.constant(float(hvd.rank()), tf.float64))
    broadcast = hvd.broadcast_global_variables(0)
    in_place = hvd.broadcast_([w], 1)
    with v1.Session() as session:
        start(session)
        session.run(broadcast)  # x is not fed: the collectives built before do not run
        np.testing.assert_array_equal(session.run(w), np.ones(3))
        for row in data(hvd.rank()):
            session.run(train_op, {x: row})
            assert session.run(mean) == pytest.approx((hvd.size() - 1) / 2)
        found = session.run(w)
        session.run(w.assign(np.full(3, float(RANK))))
        (value,) = session.run(in_place)
        np.testing.assert_array_equal([value, session.run(w)], np.ones([2, 3]))
    np.testing.assert_allclose(found, 1 - RATE * everyone().mean(axis=0).sum(axis=0), 1e-12)


def adasum(steps: np.ndarray) -> np.ndarray:
    """Of the rows [P, n], in float64: pairs of neighbours, P a power of two."""
    if len(steps) == 1:
        return steps[0]
    half = len(steps) // 2
    a, b = adasum(steps[:half]), adasum(steps[half:])
    dot = a @ b
    return (1 - dot / (2 * a @ a)) * a + (1 - dot / (2 * b @ b)) * b


@pytest.mark.skipif(hvd.size() in (1, 3), reason="the formula here is that of 2^k ranks")
@pytest.mark.parametrize("control_flow, passes", ((2, 1), (1, 2)))
def test_steps_are_combined_by_adasum(graph, passes):
    optimizer = hvd.DistributedOptimizer(
        v1.train.GradientDescentOptimizer(RATE), op=hvd.Adasum, backward_passes_per_step=passes
    )
    x = v1.placeholder(tf.float64, [3])
    w = v1.get_variable("w", initializer=tf.ones([3], tf.float64))
    train_op = optimizer.minimize(tf.reduce_sum(x * w))
    with v1.Session() as session:
        start(session)
        session.run(w.assign([3.0, 4.0, 5.0]))  # values that the sums of steps must start from
        for row in data(hvd.rank()):
            session.run(train_op, {x: row})
        found = session.run(w)
    expected = np.array([3.0, 4.0, 5.0])
    for i in range(0, STEPS, passes):
        expected = expected + adasum(-RATE * everyone()[:, i : i + passes].sum(axis=1))
    np.testing.assert_allclose(found, expected, 1e-9)


@ON_TWO
def test_executed_eagerly():
    w = tf.Variable([1.0, 1.0, 1.0])
    optimizer = hvd.DistributedOptimizer(
        v1.train.GradientDescentOptimizer(RATE), backward_passes_per_step=2
    )
    for row in data(hvd.rank()).astype("float32"):
        optimizer.minimize(lambda row=row: tf.reduce_sum(row * w), var_list=[w])
    expected = 1 - RATE * everyone().mean(axis=0).sum(axis=0)
    np.testing.assert_allclose(w.numpy(), expected, 1e-4, 1e-5)


# TensorFlow's control flow of version 2 has resource variables only.
@ON_TWO
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


@ON_TWO
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


@ON_TWO
@pytest.mark.parametrize("control_flow, sparse", ((2, True), (1, False)))
def test_infinite_gradients_are_forgotten_with_their_step(graph, sparse):
    """As with a loss that overflows: the program restores its weights and continues."""
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


@ON_TWO
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


def test_what_cannot_be_meant_is_refused():
    inner = v1.train.GradientDescentOptimizer(RATE)
    with pytest.raises(InputError, match="op=Adasum makes no use of groups"):
        hvd.DistributedOptimizer(inner, op=hvd.Adasum, groups=2)
    with pytest.raises(InputError, match="backward_passes_per_step"):
        hvd.DistributedOptimizer(inner, backward_passes_per_step=0)
    with pytest.raises(InputError, match="Average, Sum or Adasum"):
        hvd.DistributedOptimizer(inner, op=hvd.Max)
    with pytest.raises(InputError, match="optimizer"):
        hvd.DistributedOptimizer("adam")
    with pytest.raises(InputError, match="num_groups"):
        hvd.DistributedOptimizer(inner, num_groups=-1)
    with pytest.warns(DeprecationWarning, match="groups"):
        hvd.DistributedOptimizer(inner, num_groups=2)


def test_the_order_of_compiled_functions_outlives_its_graph():
    with v1.Graph().as_default():
        order = hidden_variable(0.0, tf.float32, "order", device="/CPU:0")
    assert order.numpy() == 0.0  # a variable of that graph has no value outside of it

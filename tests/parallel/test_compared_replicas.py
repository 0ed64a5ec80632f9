"""Ranks whose copies of a model are not equal learn so while they train."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from ranks import MISMATCHES

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.horovod.tensorflow import SyncBatchNormalization
from sciml_par.parallel.gradients.replicas import FIRST_COMPARED, INTERVAL

pytestmark = pytest.mark.ranks(least=2, reason="one rank has no other to differ from")

LAST = sp.size() - 1


def is_last():
    return sp.rank() == LAST


def in_context(step, context):
    if context == "eager":
        return step
    return tf.function(step, jit_compile=context == "compiled")


def training(context, *, by_tape=False, start=1.0, **options):
    """Return a step of x² with gradients that differ from rank to rank, and the variable."""
    v = keras.Variable(np.full(4, start, "float32"), name="v")
    optimizer = keras.optimizers.SGD(**{"learning_rate": 0.01} | options)
    if not by_tape:
        optimizer = sp.DistributedOptimizer(optimizer)
    optimizer.build([v])

    def step():
        with tf.GradientTape() as tape:
            loss = (1.0 + sp.rank()) * tf.reduce_sum(v**2)
        if by_tape:
            tape = sp.DistributedGradientTape(tape)
        optimizer.apply([tape.gradient(loss, v.value)], [v])

    return in_context(step, context), v, optimizer


def fails_at(step, most):
    """Return the step at which all ranks fail, and the message."""
    for n in range(1, most + 1):
        try:
            step()
        except MISMATCHES as error:
            text = str(error)
            found = text[text.index("The ranks of") : text.index("every rank.")]
            group = sp.current_world().communicator
            assert len(set(group.allgather_object((n, found)))) == 1
            return n, found
    return None, ""


CONTEXTS = pytest.mark.parametrize("context", ("eager", "compiled"))


@CONTEXTS
@pytest.mark.parametrize(
    ("option", "usual", "says"),
    (
        ("clipnorm", None, "settings of the optimizer: clipnorm"),
        ("learning_rate", 0.25, "different learning rates"),
    ),
)
def test_other_settings_fail_at_the_first_update(context, option, usual, says):
    step, *_ = training(context, **{option: 0.5 if is_last() else usual})
    n, text = fails_at(step, 2)
    assert n == 1 and says in text and f"rank {LAST}: 0.5" in text


@pytest.mark.parametrize(
    ("context", "by_tape"), (("eager", True), ("graph", False), ("compiled", True))
)
def test_other_weights_fail_at_the_first_comparison(context, by_tape):
    step, *_ = training(context, by_tape=by_tape, start=3.0 if is_last() else 1.0)
    n, text = fails_at(step, FIRST_COMPARED)
    assert n == FIRST_COMPARED
    assert f"rank {LAST} and rank 0 differ in 1 of 1 variable. The difference in v" in text
    assert "is at least 4.0e+00" in text  # four elements of 3 and 1


def test_weights_that_one_rank_sets_later_fail_at_the_next_comparison():
    step, v, _ = training("graph")
    assert fails_at(step, INTERVAL)[0] is None
    if is_last():
        v.assign(v * 0.5)
    assert fails_at(step, INTERVAL)[0] == INTERVAL


def test_a_schedule_of_one_rank_only_fails():
    rate = keras.optimizers.schedules.ExponentialDecay(0.1, 20 if is_last() else 10, 0.5)
    n, text = fails_at(training("graph", learning_rate=rate)[0], 2)
    assert n == 1 and "learning_rate.config.decay_steps" in text


@CONTEXTS
def test_nothing_fails_that_may_differ(context):
    """A late broadcast, names, local variables, NaN on all ranks, rounding, copies."""
    name = f"optimizer_of_{sp.rank()}"
    step, v, _ = training(context, start=1.0 + sp.rank(), name=name)
    step()
    v.assign(sp.broadcast(v.value, 0))  # as Horovod's programs do it
    v.assign(v * (1 + 1e-6 * sp.rank()))
    assert fails_at(step, INTERVAL)[0] is None

    step, v, optimizer = training(context, start=1.0 + sp.rank())
    optimizer.register_local_var(v)
    assert fails_at(step, INTERVAL)[0] is None

    assert fails_at(training(context, start=np.nan)[0], FIRST_COMPARED)[0] is None


@pytest.mark.parametrize("context", ("eager", "graph"))
def test_layers_that_average_over_replicas_are_refused_in_loops(context):
    def step_of(layer):
        model = keras.Sequential([keras.Input([3]), layer, keras.layers.Dense(1)])

        def step():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(model(tf.ones([4, 3]), training=True))
            sp.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)

        return in_context(step, context)

    bystander = keras.layers.BatchNormalization(synchronized=True)
    bystander.build([None, 3])
    step_of(keras.layers.BatchNormalization())()
    step_of(SyncBatchNormalization())()
    with pytest.raises(InputError, match="Use SyncBatchNormalization of sciml_par.horovod"):
        step_of(keras.layers.BatchNormalization(synchronized=True))()
    del bystander


def test_ranks_can_switch_it_off(monkeypatch):
    monkeypatch.setenv("SCIML_PAR_REPLICAS", "0")
    assert fails_at(training("eager", start=1.0 + sp.rank())[0], INTERVAL)[0] is None


def test_ranks_without_data_that_have_joined_are_not_compared():
    step, *_ = training("eager", by_tape=True)
    for _ in range(FIRST_COMPARED + 1 if sp.rank() == 0 else FIRST_COMPARED - 1):
        step()
    sp.join()

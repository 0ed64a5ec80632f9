"""Variables and objects from one rank to all, gradient tapes, names with an alternative."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import sciml_par.horovod
import sciml_par.horovod.tensorflow as hvd
from sciml_par.errors import InputError
from sciml_par.horovod.common import exceptions
from sciml_par.horovod.tensorflow.data import compute_service

UP_TO_TWO = pytest.mark.skipif(hvd.size() > 2, reason="the same on two ranks")
LOCAL = pytest.mark.skipif(hvd.size() > 1, reason="concerns each rank separately")


def test_variables_are_those_of_the_root():
    root = hvd.size() - 1
    ours, theirs = tf.Variable([1.0 * hvd.rank()]), keras.Variable([2.0 * hvd.rank()])
    assert hvd.broadcast_variables([ours, theirs], root_rank=root) is None
    assert (ours.numpy()[0], float(theirs.value[0])) == (root, 2 * root)
    ours.assign([1.0 * hvd.rank()])
    hvd.broadcast_variables([ours], 0, inplace=True)
    assert ours.numpy()[0] == 0.0


def test_objects():
    mine = {"rank": hvd.rank(), "list": [1] * hvd.rank()}
    root = hvd.size() - 1
    assert hvd.broadcast_object(mine, root)["rank"] == root
    assert hvd.broadcast_object_fn(root_rank=root)(mine)["list"] == [1] * root
    assert [each["rank"] for each in hvd.allgather_object(mine)] == list(range(hvd.size()))


@UP_TO_TWO
@pytest.mark.parametrize("jit_compile", (None, True)[: hvd.size()])
def test_tape(jit_compile):
    w = tf.Variable([1.0, 2.0])

    def run(scale):
        with tf.GradientTape(persistent=True) as tape:
            loss = scale * tf.reduce_sum(w**2)
        tape = hvd.DistributedGradientTape(
            tape, device_dense="/cpu:0", gradient_predivide_factor=2.0, groups=2
        )
        return tape.gradient(loss, [w], use_generic_names=True)[0], tape.gradient(loss, w)

    if jit_compile is not None:
        run = tf.function(run, jit_compile=jit_compile)
    mean = (hvd.size() - 1) / 2
    for gradient in run(tf.constant(float(hvd.rank()))):
        np.testing.assert_allclose(gradient, [2 * mean, 4 * mean])


@UP_TO_TWO
@pytest.mark.parametrize("scale", (True, False))
def test_a_tape_with_local_layers(scale):
    inputs = keras.Input((2,))
    shared, own = keras.layers.Dense(2, use_bias=False), keras.layers.Dense(1, use_bias=False)
    model = keras.Model(inputs, own(shared(inputs)))
    model.set_weights([np.ones((2, 2), "float32"), np.ones((2, 1), "float32")])
    x = tf.ones([1, 2]) * float(hvd.rank())
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(x))
    tape = hvd.PartialDistributedGradientTape(tape, local_layers=own, scale_local_gradients=scale)
    by_shared, by_own = tape.gradient(loss, model.trainable_variables)
    np.testing.assert_allclose(by_shared, np.full((2, 2), (hvd.size() - 1) / 2), 1e-6)
    mine = 2.0 * hvd.rank() / (hvd.size() if scale else 1)
    np.testing.assert_allclose(by_own, [[mine], [mine]], 1e-6)
    with pytest.raises(InputError, match="local_layers"):
        hvd.PartialDistributedGradientTape(tf.GradientTape(), local_layers=["dense"])


INSTEAD = [
    (lambda: sciml_par.horovod.run(print, np=2), "^run: .* mpirun -np P"),
    (compute_service.TfDataServiceConfig, "dataset.shard"),
    (lambda: compute_service.TfDataServiceConfig.read("x"), "dataset.shard"),
    (lambda: compute_service.send_to_data_service(None, None, 0), "dataset.shard"),
]


@LOCAL
@pytest.mark.parametrize("call, instead", INSTEAD)
def test_a_missing_name_says_the_alternative(call, instead):
    with pytest.raises(InputError, match=instead):
        call()


def test_exceptions_can_be_caught():
    assert issubclass(hvd.HorovodInternalError, RuntimeError)
    assert hvd.HostsUpdatedInterrupt(skip_sync=True).skip_sync is True
    error = exceptions.HorovodVersionMismatchError("tensorflow", "1", "2")
    assert "tensorflow 2" in str(error) and isinstance(error, ImportError)

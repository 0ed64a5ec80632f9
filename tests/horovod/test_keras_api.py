"""horovod.tensorflow.keras and horovod.keras: collectives of values, optimizers, saved models."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import sciml_par.horovod.keras as by_keras
import sciml_par.horovod.tensorflow.keras as hvd
import sciml_par.parallel as sp
from sciml_par.errors import InputError

UP_TO_TWO = pytest.mark.skipif(sp.size() > 2, reason="the same on two ranks")
LOCAL = pytest.mark.skipif(sp.size() > 1, reason="concerns each rank separately")


@pytest.mark.parametrize("module", (hvd, by_keras))
def test_values(module):
    everyone = np.arange(sp.size(), dtype="float32")
    mine = [1.0, float(sp.rank())]
    mean = module.allreduce(mine)
    np.testing.assert_allclose(mean, [1.0, everyone.mean()])
    assert module.allreduce(float(sp.rank()), average=False) == everyone.sum()
    assert module.allreduce(float(sp.rank()), op=module.Max, name="most") == sp.size() - 1
    halved = module.allreduce(np.ones(1), op=module.Sum, postscale_factor=0.5)
    assert halved == sp.size() / 2
    rows = module.allgather(np.full((sp.rank(), 2), sp.rank()))
    assert rows.numpy()[:, 0].tolist() == [r for r in range(sp.size()) for _ in range(r)]
    assert module.broadcast(mine, sp.size() - 1)[1] == sp.size() - 1
    part = module.reducescatter(np.full(sp.size(), float(sp.rank())), op=module.Sum)
    np.testing.assert_allclose(part, [everyone.sum()])
    with pytest.raises(InputError):
        module.allreduce(mine, average=False, op=module.Sum)


def step(optimizer, variables):
    """The change of the variables, which begin at 0, by gradients of 1, 2, … times the rank + 1."""
    gradients = [tf.fill(v.shape, (i + 1.0) * (sp.rank() + 1)) for i, v in enumerate(variables)]
    optimizer.apply_gradients(zip(gradients, variables, strict=True))
    return [float(v.numpy().flat[0]) for v in variables]


def zeros(number):
    return [keras.Variable(np.zeros(3, "float32")) for _ in range(number)]


@UP_TO_TWO
def test_the_optimizer_takes_horovods_options():
    total = sum(rank + 1.0 for rank in range(sp.size()))
    plain = keras.optimizers.SGD(1.0)
    with pytest.warns(DeprecationWarning, match="groups"):
        summed = by_keras.DistributedOptimizer(plain, op=by_keras.Sum, num_groups=2)
    assert step(summed, zeros(2)) == [-total, -2 * total]
    two_passes = hvd.DistributedOptimizer(
        plain, device_dense="/cpu:0", backward_passes_per_step=2, average_aggregated_gradients=True
    )
    variables = zeros(1)
    assert step(two_passes, variables) == [0.0]
    assert int(two_passes.iterations) == int(two_passes._agg_helper.counter) == 1
    assert step(two_passes, variables) == pytest.approx([-total / sp.size()])
    assert int(two_passes.iterations) == 2 and int(two_passes._agg_helper.counter) == 0


@UP_TO_TWO
def test_local_layers_keep_their_gradients():
    shared, local, unbuilt = (keras.layers.Dense(1, use_bias=False) for _ in range(3))
    keras.Sequential([keras.Input([1]), shared, local])
    optimizer = hvd.PartialDistributedOptimizer(
        keras.optimizers.SGD(1.0), local_layers=local, scale_local_gradients=False
    )
    variables = [shared.kernel, local.kernel]
    for variable in variables:
        variable.assign([[0.0]])
    mean = (sp.size() + 1) / 2
    assert step(optimizer, variables) == pytest.approx([-mean, -2.0 * (sp.rank() + 1)])
    with pytest.raises(InputError, match="no weights yet"):
        hvd.PartialDistributedOptimizer(keras.optimizers.SGD(1.0), local_layers=[unbuilt])
    with pytest.raises(InputError, match="Keras layers"):
        hvd.PartialDistributedOptimizer(keras.optimizers.SGD(1.0), local_layers=[shared.kernel])


class Own(keras.optimizers.Adam):
    """An optimizer that Keras does not know."""


@UP_TO_TWO
def test_a_loaded_model_goes_on_distributed(tmp_path):
    path = hvd.broadcast_object(str(tmp_path / "model.keras"))
    x = np.full((2, 1), 1.0 + sp.rank(), "float32")
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(hvd.DistributedOptimizer(Own(0.125)), loss="mse", run_eagerly=True)
    model.fit(x, x, verbose=0)
    if sp.rank() == 0:
        model.save(path)
    sp.barrier()
    loaded = hvd.load_model(path, custom_optimizers=[Own], compression=hvd.Compression.fp16)
    for before, after in zip(model.optimizer.variables, loaded.optimizer.variables, strict=True):
        np.testing.assert_array_equal(before.numpy(), after.numpy())
    began = sp.current_world().communicator.progress.sequence
    loaded.run_eagerly = True
    loaded.fit(x, x - 3.0, verbose=0)
    assert (sp.current_world().communicator.progress.sequence > began) == (sp.size() > 1)
    weights = sp.allgather(np.concatenate([w.ravel() for w in loaded.get_weights()])[None])
    assert (weights.numpy() == weights.numpy()[0]).all()
    assert isinstance(loaded.optimizer, Own)


@LOCAL
def test_a_model_without_optimizer_is_loaded_as_it_is(tmp_path):
    path = tmp_path / "bare.keras"
    keras.Sequential([keras.Input([1]), keras.layers.Dense(1)]).save(path)
    assert not hvd.load_model(path).compiled

"""The callbacks that let all ranks begin with the same weights, and decide alike."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import sciml_par.parallel as sp
from sciml_par.errors import CollectiveMismatchError, InputError
from sciml_par.horovod.tensorflow.keras import DistributedOptimizer
from sciml_par.horovod.tensorflow.keras import callbacks as hvd

pytestmark = pytest.mark.ranks(least=2, most=2, reason="one rank has nobody; a third adds nothing")

alone = pytest.mark.ranks(least=1, most=1, reason="each rank says it by itself")


def small_model(*layers, inputs=2):
    """A compiled model whose weights, and optimizer's state, differ from rank to rank."""
    model = keras.Sequential([keras.Input([inputs]), *(layers or [keras.layers.Dense(1)])])
    model.compile(keras.optimizers.SGD(0.25, momentum=0.5), loss="mse", run_eagerly=True)
    model.optimizer.build(model.trainable_variables)
    for i, variable in enumerate([*model.weights, *model.optimizer.variables]):
        variable.assign(tf.cast(tf.fill(variable.shape, 10 * sp.rank() + i), variable.dtype))
    return model


def values(variables):
    return [np.asarray(keras.ops.convert_to_numpy(v)).flat[0] for v in variables]


def begin(callback, model):
    callback.set_model(model)
    callback.on_train_begin()


def test_broadcast_gives_weights_and_optimizer_state_before_the_first_batch():
    root = sp.size() - 1
    model = small_model()
    callback = hvd.BroadcastGlobalVariablesCallback(root)
    begin(callback, model)
    got = values([*model.weights, *model.optimizer.variables])
    assert got == [10 * root + i for i in range(len(got))]
    assert len(got) == 2 + 4  # two weights; iterations, learning rate and two momenta
    assert callback.broadcast_done

    model.weights[0].assign(tf.fill(model.weights[0].shape, float(sp.rank())))
    callback.on_train_begin()  # a second fit
    assert values(model.weights[:1]) == [sp.rank()]


def test_broadcast_leaves_local_variables_and_their_state():
    root = sp.size() - 1
    model = small_model()
    kernel = model.layers[0].kernel
    begin(hvd.BroadcastGlobalVariablesCallback(root, local_variables=kernel.value), model)
    for i, v in enumerate([*model.weights, *model.optimizer.variables]):
        own = v is kernel or "kernel" in v.name
        assert values([v]) == [10 * (sp.rank() if own else root) + i], v.path


def test_broadcast_waits_for_a_model_without_weights():
    model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.5), loss="mse", run_eagerly=True)
    x = np.full((4, 2), 1.0 + sp.rank(), "float32")
    model.fit(
        x, x[:, :1], batch_size=2, verbose=0, callbacks=[hvd.BroadcastGlobalVariablesCallback(0)]
    )
    # After the first batch all have the weights of rank 0; the second one is each rank's own.
    kernel, bias = np.ones(2), 0.0
    for point in (np.ones(2), x[0]):
        error = kernel @ point + bias - point[0]
        kernel, bias = kernel - error * point, bias - error
    np.testing.assert_allclose(values(model.weights), [kernel[0], bias], 1e-5)


@alone
def test_broadcast_refuses_what_is_no_variable():
    with pytest.raises(InputError, match="local_variables"):
        hvd.BroadcastGlobalVariablesCallback(0, local_variables=[1.0])


class TwoParts(keras.Model):
    """A model without `call`, as a GAN or a VAE is written, with two optimizers."""

    def __init__(self, second):
        super().__init__()
        self.first = keras.Sequential([keras.Input([2]), keras.layers.Dense(2)])
        self.second = second

    def compile(self, **optimizers):
        super().compile(run_eagerly=True)
        self.optimizers = optimizers

    def train_step(self, data):
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean((self.second(self.first(data)) - data) ** 2)
        for optimizer, part in zip(
            self.optimizers.values(), (self.first, self.second), strict=True
        ):
            weights = part.trainable_weights
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"loss": loss}


@pytest.mark.parametrize("known", (True, False))
def test_broadcast_reaches_all_of_a_model_without_call(known):
    keras.utils.set_random_seed(sp.rank())
    layers = [keras.Input([2])] * known + [keras.layers.Dense(2)]
    model = TwoParts(keras.Sequential(layers))
    optimizers = [DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.5)) for _ in range(2)]
    optimizers[0].build(model.first.trainable_weights)
    for variable in optimizers[0].variables[1:]:
        variable.assign(tf.fill(variable.shape, 0.125 * (1 + sp.rank())))
    model.compile(first=optimizers[0], second=optimizers[1])
    x = np.random.default_rng(sp.rank()).normal(size=(6, 2)).astype("float32")
    callback = hvd.BroadcastGlobalVariablesCallback(sp.size() - 1)
    model.fit(x, batch_size=2, verbose=0, callbacks=[callback])
    assert callback.broadcast_done and not model.built
    weights = [*model.first.weights, *model.second.weights]
    state = [variable for optimizer in optimizers for variable in optimizer.variables]
    flat = np.concatenate([np.ravel(np.asarray(v.value)) for v in [*weights, *state]])
    everyone = sp.allgather(tf.constant(flat[np.newaxis], tf.float64)).numpy()
    assert (everyone == everyone[0]).all() and len(flat) == 12 + 2 * (2 + 6)


@alone
def test_a_training_without_any_broadcast_is_an_error():
    class Untracked(keras.Model):
        def train_step(self, data):
            return {"loss": tf.constant(0.0)}

    model = Untracked()
    model.compile(run_eagerly=True)
    model.optimizer = None
    with pytest.raises(InputError, match="ended without a broadcast"):
        model.fit(np.ones((2, 1)), verbose=0, callbacks=[hvd.BroadcastGlobalVariablesCallback(0)])


def layer_of(kind):
    """A layer with state besides its weights, from this rank's data, and inputs."""
    layers = keras.layers
    if kind == "words":
        words = tf.constant([[f"only{sp.rank()} all"], ["all"]])
        layer = layers.TextVectorization(output_mode="multi_hot", max_tokens=6)
        layer.adapt(words)
        return layer, words, keras.Input([1], dtype="string")
    values = np.float32([[1.0], [2.0 + sp.rank()], [5.0 * (1 + sp.rank())]])
    if kind == "constant":
        return layers.Lambda(lambda x: x - values.mean()), values, keras.Input([1])
    if kind == "dropout":
        return layers.Dropout(0.5), values, keras.Input([1])
    layer = layers.Normalization() if kind == "moments" else layers.Discretization(num_bins=3)
    layer.adapt(values)
    return layer, values, keras.Input([1])


@pytest.mark.parametrize("kind", ("words", "moments", "bins", "constant", "dropout"))
def test_all_ranks_predict_the_same(kind):
    layer, inputs, entry = layer_of(kind)
    cast = keras.layers.Lambda(lambda x: tf.cast(x, tf.float32))
    model = keras.Sequential([entry, layer, cast, keras.layers.Dense(1)])
    model.compile(DistributedOptimizer(keras.optimizers.SGD(0.0)), "mse", run_eagerly=True)
    callback = hvd.BroadcastGlobalVariablesCallback(sp.size() - 1)
    if kind == "constant":
        with pytest.raises(InputError, match="rank 0 predicts other values: for one input"):
            begin(callback, model)
        return
    begin(callback, model)
    inputs = sp.current_world().communicator.broadcast_object(np.asarray(inputs))
    everyone = sp.allgather(tf.reshape(layer(tf.constant(inputs)), [1, -1])).numpy()
    assert (everyone == everyone[0]).all()
    if kind == "words":
        assert f"only{sp.size() - 1}" in layer.get_vocabulary()


def test_layers_of_replicas_are_refused():
    model = small_model(keras.layers.BatchNormalization(synchronized=True))
    with pytest.raises(InputError, match="Use SyncBatchNormalization of sciml_par.horovod"):
        begin(hvd.BroadcastGlobalVariablesCallback(0), model)


def test_an_optimizer_from_another_program_is_refused():
    model = small_model()
    name = keras.optimizers.serialize(DistributedOptimizer(model.optimizer))["config"]["name"]
    model.optimizer.name = f"{name[:-1]}x"  # of options that this program has never used
    with pytest.raises(InputError, match=r"hvd.DistributedOptimizer\(model.optimizer\)"):
        begin(hvd.BroadcastGlobalVariablesCallback(0), model)
    model.optimizer = DistributedOptimizer(model.optimizer)
    begin(hvd.BroadcastGlobalVariablesCallback(0), model)


def test_broadcast_of_models_that_differ():
    width = 2 if sp.rank() == 0 else 3
    model = small_model(keras.layers.Dense(width))
    with pytest.raises(CollectiveMismatchError, match=r"rank 0 has 6: float32 \[2, 2\].* rank 1"):
        begin(hvd.BroadcastGlobalVariablesCallback(0), model)


def test_metrics_are_averaged_whatever_their_order():
    everyone = range(sp.size())
    logs = {
        "loss": 1.0 + sp.rank(),
        "f1": np.array([0.5, 2.0 * sp.rank()], "float32"),
        "n": sp.rank(),
    }
    if sp.rank() == 0:
        logs = dict(reversed(logs.items()))
    hvd.MetricAverageCallback().on_epoch_end(0, logs)
    mean = np.mean(everyone)
    assert logs.keys() == {"loss", "f1", "n"}
    assert logs["loss"] == pytest.approx(1.0 + mean) and isinstance(logs["loss"], float)
    assert logs["n"] == pytest.approx(mean)
    np.testing.assert_allclose(logs["f1"], [0.5, 2.0 * mean])
    hvd.MetricAverageCallback().on_epoch_end(0, {})
    hvd.MetricAverageCallback().on_epoch_end(0)


@pytest.mark.parametrize("extra", (1.0, "text"))
def test_a_metric_of_one_rank_only_is_an_error_on_all(extra):
    logs = {"loss": 1.0} | ({"val_loss": extra} if sp.rank() == 1 else {})
    with pytest.raises(InputError, match="'val_loss': .* on rank 1"):
        hvd.MetricAverageCallback().on_epoch_end(0, logs)
    assert logs["loss"] == 1.0


@alone
def test_a_metric_that_is_no_number():
    with pytest.raises(InputError, match="«name»"):
        hvd.MetricAverageCallback().on_epoch_end(0, {"name": "text"})


def test_other_callbacks_see_the_averages():
    # Alone, rank 0 would see the loss rise and stop, the others would see it fall.
    model = small_model()
    seen = []

    class OwnLoss(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs["loss"] = float(epoch if sp.rank() == 0 else -3 * epoch)

    class Recorder(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append(logs["loss"])

    stop = keras.callbacks.EarlyStopping("loss", patience=0)
    x = np.ones((2, 2), "float32")
    history = model.fit(
        x,
        x[:, :1],
        epochs=3,
        verbose=0,
        callbacks=[OwnLoss(), hvd.MetricAverageCallback(), stop, Recorder()],
    )
    slope = (1 - 3 * (sp.size() - 1)) / sp.size()
    epochs = 2 if slope > 0 else 3
    assert seen == history.history["loss"] == pytest.approx([slope * e for e in range(epochs)])


def test_the_best_model_is_written_by_rank_0(tmp_path):
    model = small_model()
    x = np.ones((4, 2), "float32")
    callback = hvd.BestModelCheckpoint(monitor="loss")
    with pytest.raises(InputError, match="filepath"):
        model.fit(x, x[:, :1], verbose=0, callbacks=[callback])
    callback.filepath = str(tmp_path / "best.keras")
    model.fit(x, x[:, :1], epochs=2, verbose=0, callbacks=[callback])
    assert [each.name for each in tmp_path.iterdir()] == ["best.keras"] * (sp.rank() == 0)
    if sp.rank() == 0:
        best = keras.models.load_model(callback.filepath)
        assert best.input_shape == (None, 2)


@alone
def test_a_callback_of_the_other_keras_says_so():
    with pytest.raises(InputError, match="TF_USE_LEGACY_KERAS"):
        hvd.MetricAverageCallback()._implements_train_batch_hooks()
    assert not hasattr(hvd.MetricAverageCallback(), "something")


def distributed_model():
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    model.compile(sp.DistributedOptimizer(keras.optimizers.SGD(0.01)), loss="mse")
    return model


def rows(number):
    x = np.random.default_rng(sp.rank()).normal(size=[number, 2]).astype("float32")
    return x, x[:, :1] + sp.rank()


@pytest.mark.ranks(least=1, most=2, reason="one rank is an ordinary case of it")
def test_metrics_are_those_over_all_rows():
    model = distributed_model()
    model.compile(keras.optimizers.SGD(0.0), loss="mse")
    x, y = rows(3 + 4 * sp.rank())
    callbacks = [hvd.BroadcastGlobalVariablesCallback(0), hvd.MetricAverageCallback()]
    data = rows(9 - 2 * sp.rank())
    history = model.fit(
        x, y, batch_size=2, verbose=0, callbacks=callbacks, validation_data=data
    ).history
    for name, part in (("loss", (x, y)), ("val_loss", data)):
        squares = np.concatenate(
            sp.current_world().communicator.allgather_object(
                np.square(part[1] - model.predict(part[0], verbose=0))
            )
        )
        assert history[name] == pytest.approx([squares.mean()], rel=1e-5)


def test_uneven_batches_fail_in_the_first_epoch():
    model = distributed_model()
    x, y = rows(4 + 2 * (sp.rank() == 0))
    callbacks = [hvd.BroadcastGlobalVariablesCallback(0)]
    with pytest.raises(
        (CollectiveMismatchError, tf.errors.FailedPreconditionError), match="steps_per_epoch"
    ) as caught:
        model.fit(x, y, batch_size=2, epochs=3, verbose=0, callbacks=callbacks)
    assert "at the end of epoch 1, after 2 steps" in str(caught.value)


def test_a_schedule_on_one_rank_fails_at_the_end_of_an_epoch():
    model = distributed_model()
    callbacks = [hvd.BroadcastGlobalVariablesCallback(0)]
    if sp.rank() == 0:
        callbacks.append(keras.callbacks.LearningRateScheduler(lambda epoch: 0.01 / (1 + epoch)))
    x, y = rows(2)
    with pytest.raises(CollectiveMismatchError, match="different learning rates"):
        model.fit(x, y, batch_size=2, epochs=3, verbose=0, callbacks=callbacks)


def test_all_ranks_continue_from_the_backup_of_rank_0(tmp_path):
    folder = sp.current_world().communicator.broadcast_object(str(tmp_path / "backup"))
    x, y = rows(4)
    epochs = []

    class Stop(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            epochs.append(epoch)
            if epochs == [0, 1, 2]:
                raise InterruptedError

    def fit(model):
        callbacks = [hvd.BackupAndRestore(folder), hvd.BroadcastGlobalVariablesCallback(0), Stop()]
        model.fit(x, y, batch_size=2, epochs=4, verbose=0, callbacks=callbacks)

    model, other = distributed_model(), distributed_model()
    with pytest.raises(InterruptedError):
        fit(model)
    del epochs[:]
    fit(other)
    assert epochs == [2, 3] and int(other.optimizer.iterations) == 8
    group = sp.current_world().communicator
    assert len(set(map(str, group.allgather_object(other.get_weights())))) == 1

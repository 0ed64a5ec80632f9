"""DistributedOptimizer against the plain optimizer that sees the average gradients."""

from __future__ import annotations

import copy
import pickle

import keras
import numpy as np
import pytest
import tensorflow as tf
from ranks import compiled, eager, graph, normal, normals, same_on_all_ranks

import sciml_par.parallel as sp
from sciml_par.errors import InputError

pytestmark = pytest.mark.ranks(
    least=2, most=2, reason="what more ranks average is tested in test_tape.py"
)
alone = pytest.mark.ranks(least=1, most=1, reason="nothing travels")

SHAPES = ((3, 2), (4,))


def new_variables():
    starts = [normals(shape, f"start {shape}")[0] for shape in SHAPES]
    names = ("first", "second")
    pairs = zip(starts, names, strict=True)
    return [keras.Variable(start, dtype="float64", name=name) for start, name in pairs]


def of_rank(rank, step):
    return [normal(rank, shape, f"{shape} {step}") for shape in SHAPES]


def mine(step):
    return [tf.constant(g) for g in of_rank(sp.rank(), step)]


def mean(step):
    everyone = [of_rank(rank, step) for rank in range(sp.size())]
    return [tf.constant(np.mean(of_all, axis=0)) for of_all in zip(*everyone, strict=True)]


def serially(optimizer, steps, gradients=mean):
    """The variables after the plain optimizer has seen the gradients of all ranks."""
    variables = new_variables()
    for step in steps:
        optimizer.apply_gradients(zip(gradients(step), variables, strict=True))
    return variables


def train(optimizer, steps, context=eager):
    variables = new_variables()
    optimizer.build(variables)

    def update(*gradients):
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return []

    update = context(update)
    for step in steps:
        update(*mine(step))
    return variables


def check(got, expected):
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, 1e-10, 1e-13)


def decay():
    return keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)


def constant_rate():
    return 0.05


def several():
    optimizers = keras.optimizers.OptimizerMap(keras.optimizers.SGD(0.1))
    optimizers["second"] = keras.optimizers.Adam(0.2)
    return keras.optimizers.MultiOptimizer(optimizers)


OPTIMIZERS = {
    **({"several": several} if hasattr(keras.optimizers, "MultiOptimizer") else {}),
    "clipnorm": lambda: keras.optimizers.SGD(0.1, momentum=0.9, clipnorm=0.3),
    "global_clipnorm": lambda: keras.optimizers.Adam(0.1, global_clipnorm=0.3),
    "schedule and decay": lambda: keras.optimizers.AdamW(decay(), weight_decay=0.1),
    "average weights": lambda: keras.optimizers.RMSprop(
        0.1, use_ema=True, ema_overwrite_frequency=2
    ),
    "accumulation": lambda: keras.optimizers.Adam(0.1, gradient_accumulation_steps=2),
    "loss scaling": lambda: keras.optimizers.LossScaleOptimizer(
        keras.optimizers.Adam(0.1), initial_scale=4.0, dynamic_growth_steps=2
    ),
    "function as rate": lambda: keras.optimizers.SGD(constant_rate),
}


@pytest.mark.ranks(least=1, most=2, reason="one rank is an ordinary case of it")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_sees_what_the_serial_one_would(name):
    make = OPTIMIZERS[name]
    optimizer = sp.DistributedOptimizer(make())
    got = train(optimizer, range(5))
    check(got, serially(make(), range(5)))
    assert same_on_all_ranks([*got, *optimizer.variables])


@pytest.mark.parametrize("context", (graph, compiled))
def test_inside_a_function(context):
    optimizer = sp.DistributedOptimizer(keras.optimizers.Adam(0.1), sp.Sum)
    before = sp.current_world().communicator.progress.sequence
    got = train(optimizer, range(3), context)
    # The first reduction compares the settings of the optimizer as well.
    assert sp.current_world().communicator.progress.sequence - before == 4

    def sums(step):
        return [sp.size() * g for g in mean(step)]

    check(got, serially(keras.optimizers.Adam(0.1), range(3), sums))


@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_several_passes_for_one_step(context):
    average = context is not graph
    optimizer = sp.DistributedOptimizer(
        keras.optimizers.Adam(0.1), backward_passes_per_step=2, average_aggregated_gradients=average
    )
    before = sp.current_world().communicator.progress.sequence
    got = train(optimizer, range(5), context)  # the fifth pass waits for a sixth
    assert sp.current_world().communicator.progress.sequence - before == 3
    assert int(optimizer.iterations) == 2
    factor = 0.5 if average else 1.0

    def pairs(step):
        two = zip(mean(2 * step), mean(2 * step + 1), strict=True)
        return [factor * (first + second) for first, second in two]

    check(got, serially(keras.optimizers.Adam(0.1), range(2), pairs))


def test_takes_over_what_the_given_one_has_reached():
    plain = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1), initial_scale=8.0)
    variables = serially(plain, range(2))
    optimizer = sp.DistributedOptimizer(plain)
    assert optimizer.built and int(optimizer.iterations) == 2
    expected = new_variables()
    for variable, reached in zip(expected, variables, strict=True):
        variable.assign(reached)
    plain_again = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1))
    plain_again.build(expected)
    for new, old in zip(plain_again.variables, plain.variables, strict=True):
        new.assign(old)
    optimizer.apply_gradients(zip(mine(2), variables, strict=True))
    plain_again.apply_gradients(zip(mean(2), expected, strict=True))
    check(variables, expected)


@alone
def test_keeps_what_is_excluded_from_weight_decay():
    plain = keras.optimizers.AdamW(0.1, weight_decay=0.5)
    plain.exclude_from_weight_decay(var_names=["bias"])
    kernel, bias = (keras.Variable(2.0, name=name) for name in ("kernel", "bias"))
    optimizer = sp.DistributedOptimizer(plain)
    optimizer.apply_gradients([(tf.constant(0.0), kernel), (tf.constant(0.0), bias)])
    assert float(kernel) < 2.0 and float(bias) == 2.0


def test_no_gradient_is_passed_on():
    variables = [keras.Variable(1.0), keras.Variable(2.0)]
    optimizer = sp.DistributedOptimizer(keras.optimizers.SGD(1.0))
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        optimizer.apply_gradients(
            [(tf.constant(float(sp.rank())), variables[0]), (None, variables[1])]
        )
    assert float(variables[0]) == pytest.approx(1 - (sp.size() - 1) / 2)
    assert float(variables[1]) == 2.0


@pytest.mark.parametrize("local", (False, True))
@pytest.mark.parametrize("passes", (1, 2))
def test_an_overflow_on_one_rank_stops_the_step_on_all(local, passes):
    shared, own = keras.Variable([1.0, 2.0]), keras.Variable(3.0)
    optimizer = sp.DistributedOptimizer(
        keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=16.0),
        local_variables=[own],
        backward_passes_per_step=passes,
    )
    gradients = [tf.constant([16.0, 32.0]) * sp.rank(), tf.constant(16.0)]
    overflowing = list(gradients)
    if sp.rank() == sp.size() - 1:
        overflowing[int(local)] = overflowing[int(local)] * float("inf") + float("inf")
    for _ in range(passes):
        optimizer.apply(overflowing, [shared, own])
    np.testing.assert_array_equal(shared, [1.0, 2.0])
    assert float(optimizer.dynamic_scale) == 8.0 and int(optimizer.iterations) == 0
    for _ in range(passes):
        optimizer.apply(gradients, [shared, own])
    total = passes * 2 * (sp.size() - 1) / 2  # gradients were scaled by 16, and the scale is 8
    np.testing.assert_allclose(shared, [1.0 - total, 2.0 - 2 * total])
    assert float(own) == pytest.approx(3.0 - 2 * passes / sp.size())


@alone
def test_norms_of_all_gradients_need_all_of_them():
    variable = keras.Variable(1.0)
    optimizer = sp.DistributedOptimizer(
        keras.optimizers.SGD(1.0, global_clipnorm=1.0), local_variables=[variable]
    )
    with pytest.raises(InputError, match="global_clipnorm"):
        optimizer.apply([tf.constant(1.0)], [variable])


def sgd():
    return keras.optimizers.SGD(0.5, momentum=0.5, name="ours")


def of_configuration(optimizer):
    return keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))


def by_a_model(copy_model):
    def copied(optimizer):
        dense = keras.layers.Dense(1, dtype="float64")
        model = keras.Sequential([keras.Input([1]), dense])
        model.compile(optimizer, "mse")
        return copy_model(model).optimizer

    return copied


COPIES = {
    "the method from_config": lambda o: o.from_config(o.get_config()),
    "from_config of the type": lambda o: type(o).from_config(o.get_config()),
    "from_config of the class": lambda o: o.__class__.from_config(o.get_config()),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda o: pickle.loads(pickle.dumps(o)),
    "serialize": of_configuration,
    "clone_model": by_a_model(keras.models.clone_model),
    "deepcopy of the model": by_a_model(copy.deepcopy),
    "distributed again": lambda o: sp.DistributedOptimizer(sp.DistributedOptimizer(sgd()), sp.Sum),
    "a copy's copy": lambda o: copy.deepcopy(of_configuration(o)),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_reduces_too(name):
    optimizer = sp.DistributedOptimizer(sgd(), sp.Sum)
    optimizer.apply([tf.constant(1.0)], [keras.Variable(0.0)])
    again = COPIES[name](optimizer)
    assert again is not optimizer and again.name == "ours"
    assert again.get_config() == optimizer.get_config()
    variables = again._trainable_variables if again.built else [keras.Variable(0.0)]
    before = [np.array(variable) for variable in variables]
    again.apply([tf.cast(tf.fill(v.shape, 1.0 + sp.rank()), v.dtype) for v in variables], variables)
    change = -0.5 * sum(rank + 1 for rank in range(sp.size()))
    check(variables, [start + change for start in before])
    assert type(of_configuration(sgd())) is keras.optimizers.SGD


def test_copies_of_an_optimizer_with_local_variables():
    shared, own = keras.Variable(0.0), keras.Variable(0.0)
    optimizer = sp.DistributedOptimizer(keras.optimizers.SGD(1.0), scale_local_gradients=False)
    optimizer.register_local_var(keras.Variable(0.0))
    with pytest.raises(InputError, match="cannot be pickled"):
        pickle.dumps(optimizer)
    again = of_configuration(optimizer)
    gradient = tf.constant(float(sp.rank()))
    with pytest.raises(InputError, match="register_local_var"):
        again.apply([gradient, gradient], [shared, own])
    again.register_local_var(own)
    again.apply([gradient, gradient], [shared, own])
    assert float(shared) == -(sp.size() - 1) / 2 and float(own) == -sp.rank()


class Warm(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule without get_config."""

    def __call__(self, step):
        return 0.5 * (1.0 + tf.cast(step, tf.float32))


class Weighted(keras.optimizers.SGD):
    """An optimizer without get_config, with an argument and a variable besides Keras'."""

    def __init__(self, weight, **options):
        super().__init__(**options)
        self.weight = weight
        self.factors = {"last": [self.add_variable((), name="factor")]}

    def update_step(self, gradient, variable, learning_rate):
        self.factors["last"][0].assign(self.weight)
        super().update_step(self.weight * gradient, variable, learning_rate)


def test_an_optimizer_without_configuration():
    plain = Weighted(2.0, learning_rate=Warm(), momentum=0.5)
    plain.apply([tf.constant(0.0)], [before := keras.Variable(0.0)])
    optimizer = sp.DistributedOptimizer(plain)
    plain.factors["last"][0].assign(7.0)
    assert [float(v) for v in optimizer.variables] == [1.0, 2.0, 0.0]  # iteration, factor, momentum
    mean = (sp.size() - 1) / 2
    optimizer.apply([tf.constant(float(sp.rank()))], [before])
    assert float(before) == pytest.approx(-2 * mean)  # the second rate is 1
    assert [float(v) for v in optimizer.variables] == pytest.approx([2.0, 2.0, -2 * mean])
    assert [float(v) for v in plain.variables] == [1.0, 7.0, 0.0]
    with pytest.raises(InputError, match="Weighted cannot be copied.*all arguments"):
        copy.copy(optimizer)
    assert len(optimizer._variables) == 3 and optimizer.factors["last"][0] is optimizer.variables[1]


@alone
def test_what_cannot_be_distributed():
    for optimizer, says in (
        (tf.compat.v1.train.AdamOptimizer(), "sciml_par.horovod.tensorflow"),
        ("adam", "keras.optimizers.Adam"),
    ):
        with pytest.raises(InputError, match=says):
            sp.DistributedOptimizer(optimizer)
    with pytest.raises(InputError, match="backward_passes_per_step"):
        sp.DistributedOptimizer(keras.optimizers.Adam(), backward_passes_per_step=0)
    with pytest.raises(InputError, match="DistributedOptimizer: .* Adasum"):
        sp.DistributedOptimizer(keras.optimizers.Adam(), sp.Min)


@alone
def test_a_distributed_optimizer_is_outermost():
    with pytest.raises(InputError, match="the other way round"):
        keras.optimizers.LossScaleOptimizer(sp.DistributedOptimizer(keras.optimizers.Adam()))
    model = keras.Sequential([keras.layers.Dense(1, dtype="mixed_float16")], name="mixed")
    model.dtype_policy = "mixed_float16"
    with pytest.raises(InputError, match="the other way round"):
        model.compile(sp.DistributedOptimizer(keras.optimizers.Adam()), loss="mse")


def test_a_mixed_policy_adds_loss_scaling():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        optimizer = sp.DistributedOptimizer(keras.optimizers.SGD(0.5))
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(optimizer, loss="mse")
    finally:
        keras.config.set_dtype_policy("float32")
    assert isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    assert model.optimizer is optimizer
    variable = keras.Variable(1.0)
    optimizer.build([variable])
    scaled = optimizer.scale_loss(tf.constant(float(sp.rank())))
    optimizer.apply([scaled], [variable])
    assert float(variable) == pytest.approx(1 - 0.5 * (sp.size() - 1) / 2)

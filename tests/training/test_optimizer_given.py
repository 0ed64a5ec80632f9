"""What may be given as optimizer, and the one sentence that other things get."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import keras
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.horovod import tensorflow as horovod
from sciml_par.parallel import DistributedOptimizer
from sciml_par.training import SGD, Adam, CosineDecay
from sciml_par.training.optimizers.keras_optimizer import KerasOptimizer
from sciml_par.training.optimizers.phases import as_optimizer

pytestmark = pytest.mark.ranks(most=1, reason="nothing here knows of ranks")

k = keras.optimizers


class Transformation(NamedTuple):
    """What an optimizer of optax looks like."""

    init: Any
    update: Any


def model() -> Any:
    made = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    made.compile(k.Adam(0.02), "mse")
    return made


def excluding_a_variable() -> Any:
    optimizer = k.AdamW()
    optimizer.exclude_from_weight_decay(var_list=[keras.Variable(1.0)])
    return optimizer


def of_keras_2() -> Any:
    return pytest.importorskip("tf_keras").optimizers.Adam()


def test_takes_ours_and_those_of_keras() -> None:
    assert as_optimizer(None) == Adam()
    ours = SGD(CosineDecay(1e-3, 10))
    assert as_optimizer(ours) is ours
    assert isinstance(as_optimizer(k.Adam()), KerasOptimizer)
    wrapped = as_optimizer(k.Adam())
    assert as_optimizer(wrapped) is wrapped


def test_takes_the_optimizer_of_a_compiled_model() -> None:
    compiled = model()
    compiled.fit(tf.ones([1, 1]), tf.ones([1, 1]), verbose=0)
    found = as_optimizer(compiled.optimizer)
    assert found.key == as_optimizer(k.Adam(0.02)).key
    assert found.describe()["learning_rate"] == str(float(tf.constant(0.02)))


REFUSED = {
    "a class of ours": (lambda: Adam, r"the class Adam, not an object: Adam\(…\)"),
    "a class of Keras": (lambda: k.SGD, r"the class SGD, not an object: SGD\(…\)"),
    "a name": (lambda: "adm", r"such as Adam\(1e-3\).*got 'adm'"),
    "a number": (lambda: 1e-3, "got 0.001"),
    "phases": (lambda: [(Adam(), 10)], "phases="),
    "a model": (model, "got Sequential, a model.*model.optimizer"),
    "Keras 2": (of_keras_2, "Adam of tf_keras, which is not of Keras 3"),
    "TensorFlow 1": (
        tf.compat.v1.train.AdamOptimizer,
        "AdamOptimizer of tensorflow, which is not of Keras 3",
    ),
    "optax": (lambda: Transformation(len, len), "Transformation of .*FirstOrder"),
    "a distributed one": (lambda: DistributedOptimizer(k.Adam()), "DistributedOptimizer.*without"),
    "a distributed one of the facade": (
        lambda: horovod.DistributedOptimizer(k.Adam()),
        "DistributedOptimizer.*without",
    ),
    "half precision": (
        lambda: k.LossScaleOptimizer(k.Adam()),
        "half precision.*pass the Adam inside, its inner_optimizer",
    ),
    "one for each part": (lambda: k.MultiOptimizer(k.OptimizerMap(k.Adam())), "MultiOptimizer"),
    "a rate by a function": (
        lambda: k.Adam(learning_rate=lambda: 1e-3),
        "learning_rate of Adam is a function.*LearningRateSchedule",
    ),
    "the class of a schedule": (
        lambda: k.Adam(learning_rate=k.schedules.CosineDecay),
        "the class CosineDecay, not an object",
    ),
    "a variable left out": (excluding_a_variable, r"var_list.*var_names=\['bias'\]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name: str) -> None:
    make, said = REFUSED[name]
    value = make()
    with pytest.raises(InputError, match=f"^optimizer: .*{said}") as caught:
        as_optimizer(value)
    text = str(caught.value)
    assert "\n" not in text and len(re.findall(r"\.(?: |$)", text)) <= 2

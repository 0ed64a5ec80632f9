"""A small nonlinear problem for stacked members, trained in one compiled loop as by the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from engine import At, ParameterLayout
from one_rank import GivenObjective

Tensor = Any

LAYOUT = ParameterLayout(
    shapes=((2, 4), (4,), (4, 1)),
    names=("net/hidden/kernel", "net/hidden/bias", "net/output/kernel"),
)


class SmallObjective(GivenObjective):
    """Least squares of tanh(x W + b) V for M members, [M, 1] terms, on 12 points."""

    def __init__(self, dtype: str = "float64") -> None:
        rng = np.random.default_rng(5)
        self.layout = LAYOUT
        self._x = tf.constant(rng.normal(size=(12, 2)), dtype)
        self._y = tf.constant(rng.normal(size=(12, 1)), dtype)

    def value(self, parameters: Tensor, batch: Any) -> Tensor:
        flat = tf.split(parameters, self.layout.sizes, axis=1)
        w, b, v = (
            tf.reshape(part, [parameters.shape[0], *shape])
            for part, shape in zip(flat, self.layout.shapes, strict=True)
        )
        u = tf.tanh(self._x @ w + b[:, None]) @ v
        return tf.reduce_mean((u - self._y) ** 2, axis=[1, 2])[:, None]


def initial(members: int = 1, dtype: str = "float64") -> Tensor:
    """θ: [M, p], the first rows the same for any number of members."""
    rng = np.random.default_rng(11)
    return tf.constant(rng.normal(size=(members, LAYOUT.size)), dtype)


class Trainings:
    """Steps of several optimizers, each on a training of its own, in one compiled loop.

    Parameters
    ----------
    members : how many are stacked.
    """

    def __init__(self, optimizers: Mapping[str, Any], *, steps: int, members: int = 1) -> None:
        self._optimizers, self._steps, self._members = optimizers, steps, members
        self._objective = SmallObjective()
        self._run = tf.function(self._loop, jit_compile=True, autograph=False)

    def run(self, *, first: int = 0, factors: Sequence[float] = ()) -> dict[str, np.ndarray]:
        """θ of each training at its end: [M, p]; the same function for all arguments.

        Parameters
        ----------
        first : the number of the first of these members.
        factors : of the members' learning rates.
        """
        m = self._members
        theta = initial(first + m)[first:]
        factor = tf.reshape(tf.constant(factors or [1.0] * m, theta.dtype), [m, 1])
        states = {n: o.init(self._objective, theta) for n, o in self._optimizers.items()}
        thetas, states = self._run(dict.fromkeys(self._optimizers, theta), states, factor)
        assert self._run.experimental_get_tracing_count() == 1
        return {
            name: optimizer.finish(self._objective, thetas[name], states[name]).numpy()
            for name, optimizer in self._optimizers.items()
        }

    def _loop(self, thetas: Any, states: Any, factor: Tensor) -> Any:
        def step(done: Tensor, thetas: Any, states: Any) -> Any:
            at = At(done + 1, factor)
            new = {
                name: optimizer.step(self._objective, thetas[name], states[name], (), at)
                for name, optimizer in self._optimizers.items()
            }
            thetas = {name: each[0] for name, each in new.items()}
            return done + 1, thetas, {name: each[1] for name, each in new.items()}

        start = (tf.constant(0), thetas, states)
        return tf.while_loop(lambda done, *_: done < self._steps, step, start)[1:]


def keras_train_all(optimizers: Mapping[Any, Any], *, steps: int) -> dict[Any, np.ndarray]:
    """The same by Keras' own `apply` on variables of float64, in one graph: [1, p] each."""
    import keras

    objective = SmallObjective()
    variables = {name: keras_variables() for name in optimizers}
    for name, optimizer in optimizers.items():
        optimizer.build(variables[name])

    # Compiled as ours: Keras' schedules compute in single precision, a cosine of which differs.
    @tf.function(autograph=False, jit_compile=True)
    def run() -> None:
        def step(done: Tensor) -> Tensor:
            for name, optimizer in optimizers.items():
                tensors = [v.value for v in variables[name]]
                theta = LAYOUT.flatten([tf.convert_to_tensor(t) for t in tensors])[None]
                _, gradient = objective.value_and_gradient(theta, ())
                optimizer.apply(LAYOUT.unflatten(gradient[0]))
            return [done + 1]

        tf.while_loop(lambda done: done < steps, step, [tf.constant(0)], parallel_iterations=1)

    run()
    for name, optimizer in optimizers.items():
        optimizer.finalize_variable_values(variables[name])
    assert keras.backend.backend() == "tensorflow"
    return {
        name: LAYOUT.flatten([tf.convert_to_tensor(v.value) for v in each]).numpy()[None]
        for name, each in variables.items()
    }


def keras_variables() -> list[Any]:
    """Variables with the values of the first member, named as those of a network."""
    import contextlib

    import keras

    made = []
    for value, path in zip(LAYOUT.unflatten(initial()[0]), LAYOUT.names, strict=True):
        with contextlib.ExitStack() as scopes:
            for part in path.split("/")[:-1]:
                scopes.enter_context(keras.name_scope(part))
            made.append(keras.Variable(value, dtype="float64", name=path.split("/")[-1]))
    assert [v.path for v in made] == list(LAYOUT.names)
    return made

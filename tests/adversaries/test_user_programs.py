"""Programs around a training: classes, closures, loops, callbacks, files, own networks."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from outcomes import Row, Table, on_root, on_two
from setups import UNIT, X, bent, rod, solve

import sciml_par as sp
from sciml_par.networks import MLP
from sciml_par.problems import (
    Box,
    Dirichlet,
    Initial,
    Interval,
    Observations,
    Problem,
    Residual,
    Time,
    Unknown,
    derivative,
    laplacian,
    poisson,
)
from sciml_par.training import Adam, Ensemble

pytestmark = pytest.mark.long
table = Table()


@table.gives(1e-4)
def a_function_of_a_function_redefined() -> Any:
    def source(x: Any) -> Any:
        return 2.0 * tf.ones_like(x)

    def residual(u: Any, x: Any) -> Any:
        return laplacian(u, x) + source(x)

    problem = Problem(UNIT, residual, conditions=[Dirichlet(0.0)])
    first = solve(problem).predict(X).mean

    def source(x: Any) -> Any:  # as in a notebook's cell that is run again
        return 6.0 * tf.ones_like(x)

    return [(first, bent(1.0)), (solve(problem).predict(X).mean, bent(3.0))]


@table.gives(1e-4)
def an_exponent_that_is_an_integer_in_a_loop() -> Any:
    found = []
    for n in (0, 1, 2):
        problem = Problem(
            UNIT,
            lambda u, x, n=n: derivative(u, x, 0) - (n + 1) * x**n,
            conditions=[Dirichlet(0.0, on="left")],
        )
        found.append((solve(problem).predict(X).mean, X ** (n + 1)))
    return found


@table.gives(1e-4, on_two)
def lambdas_that_bind_late_in_an_ensemble() -> Any:
    problems = []
    for k in (1.0, 2.0, 3.0):  # all three read the last k, as Python has it
        problems.append(rod(lambda u, x: laplacian(u, x) + 2 * k))
    result = solve(problems[0], mode=Ensemble(members=3, problems=problems))
    return on_root(lambda: (result.predict(X).members, np.stack([bent(3.0)] * 3)))


@table.gives(1e-4)
def a_sweep_by_partial_as_one_ensemble() -> Any:
    def residual(u: Any, x: Any, load: float) -> Any:
        return laplacian(u, x) + 2 * load

    def problem(number: int) -> Problem:
        equation = functools.partial(residual, load=1.0 + number)
        ends = Dirichlet(lambda x: number * 1e-3 + 0 * x)
        return Problem(UNIT, equation, conditions=[ends])

    # The largest load takes more steps than the usual ones.
    result = solve(problem(0), mode=Ensemble(members=3, problems=problem), steps=80)
    wanted = np.stack([bent(1.0 + j) + 1e-3 * j for j in range(3)])
    return on_root(lambda: (result.predict(X).members, wanted))


@table.gives(2e-3, or_says="variable|changed")
def a_coefficient_that_a_callback_changes() -> Any:
    # Continuation, as in Keras: the equation at the end of training is the one to be solved.
    load = tf.Variable(1.0, trainable=False, dtype=tf.float64)

    def harder(progress: Any) -> None:
        load.assign(4.0)

    problem = rod(lambda u, x: laplacian(u, x) + 2 * load)
    result = solve(problem, optimizer=Adam(1e-2), steps=3000, callbacks=[harder], keep="last")
    return result.predict(X).mean, bent(4.0)


@table.says("have changed .* did not see this change.* tf.Variable")
def a_python_number_that_a_callback_changes() -> Any:
    state = {"load": 1.0}

    def harder(progress: Any) -> None:
        state["load"] = 4.0

    problem = rod(lambda u, x: laplacian(u, x) + 2 * state["load"])
    solve(problem, optimizer=Adam(1e-2), steps=300, callbacks=[harder], keep="last")


@table.gives(0.0, on_two)
def callbacks_that_change_nothing() -> Any:
    load = tf.Variable(1.0, trainable=False, dtype=tf.float64)

    def watch(progress: Any) -> None:
        load.assign(2.0)
        progress.networks()

    make = lambda: keras.Sequential([keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
    two = Problem(
        UNIT,
        Residual(lambda u, x, f, *, k: laplacian(u, x) + k * load + f, data=lambda x: np.sin(x)),
        conditions=[Dirichlet(lambda x, *, k: k * 0), Observations([[0.5]], [[1.0]])],
        unknowns={"k": Unknown(1.0)},
        ansatz=lambda N, x: x * N(x),
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for options in ({}, {"network": make}, {"mode": Ensemble(members=2)}):
            solve(two, optimizer=Adam(1e-2), steps=3, callbacks=[watch], **options)
    return float(sum("something else" in str(each.message) for each in caught)), 0.0


@table.gives(1e-4)
def a_variable_assigned_between_two_trainings() -> Any:
    load = tf.Variable(1.0, trainable=False, dtype=tf.float64)
    problem = rod(lambda u, x: laplacian(u, x) + 2 * load)
    first = solve(problem).predict(X).mean
    load.assign(3.0)
    return [(first, bent(1.0)), (solve(problem).predict(X).mean, bent(3.0))]


@table.gives(1e-4)
def the_same_model_trained_on_a_sequence_of_loads() -> Any:
    keras.utils.set_random_seed(3)
    double = {"dtype": "float64"}
    hidden, last = keras.layers.Dense(8, "tanh", **double), keras.layers.Dense(1, **double)
    model = keras.Sequential([keras.Input([1], **double), hidden, last])
    found = []
    for load in (1.0, 2.0):
        problem = rod(lambda u, x, load=load: laplacian(u, x) + 2 * load)
        result = solve(problem, network=model, steps=60)
        found.append((result.predict(X).mean, bent(load)))
        found.append((np.asarray(model(X)), bent(load)))
    return found


@table.gives(1e-4)
def a_solution_that_drives_the_next_equation() -> Any:
    first = solve(rod())
    second = Problem(
        UNIT,
        Residual(lambda v, x, f: derivative(v, x, 0) - f, data=lambda x: first.predict(x).mean),
        conditions=[Dirichlet(0.0, on="left")],
    )
    return solve(second).predict(X).mean, X**2 / 2 - X**3 / 3


@table.gives(1e-4)
def a_frozen_network_inside_a_residual() -> Any:
    first = solve(rod())
    model = first.networks[0]
    model.trainable = False
    second = Problem(
        UNIT, lambda v, x: derivative(v, x, 0) - model(x), conditions=[Dirichlet(0.0, on="left")]
    )
    return solve(second).predict(X).mean, X**2 / 2 - X**3 / 3


@table.says("network")
def a_tf_module_for_a_network() -> Any:
    class Net(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(tf.ones([1, 1]))

        def __call__(self, x: Any) -> Any:
            return x @ self.w

    return solve(poisson(), network=Net())


@table.gives(1e-12)
def one_point_of_the_plane() -> Any:
    problem = Problem(Box([0, 0], [1, 1]), laplacian, conditions=[Dirichlet(lambda x: x[:, 0])])
    result = solve(problem, steps=10, points=25)
    wanted = result.predict([[0.25, 0.5]]).mean
    try:
        return result.predict([0.25, 0.5]).mean, wanted
    except sp.errors.InputError as error:
        assert "[n, 2]" in str(error) or "(1, 2)" in str(error)
        return None


@table.gives(1e-10, on_two)
def the_loss_by_hand() -> Any:
    # The loss that is reported, recomputed from the prediction by finite differences.
    problem = Problem(
        UNIT,
        Residual(lambda u, x: derivative(u, x, 0) - u(x), weight=2.0, name="growth"),
        conditions=[Dirichlet(1.0, on="left", weight=5.0, name="start")],
    )
    result = solve(problem, points=11, optimizer=Adam(1e-2), steps=200, keep="last")
    x, h = np.linspace(0, 1, 11)[:, None], 1e-3
    at = lambda x: result.predict(x).mean
    slope = (8 * (at(x + h) - at(x - h)) - at(x + 2 * h) + at(x - 2 * h)) / (12 * h)
    loss = 2 * np.mean((slope - at(x)) ** 2) + 5 * (at([[0.0]])[0, 0] - 1) ** 2
    return result.members[0].kept_loss, loss


@table.gives(1e-3, on_two)
def a_diffusivity_and_a_decay_from_noiseless_data() -> Any:
    exact = lambda x: np.exp(-(0.2 * np.pi**2 + 0.5) * x[:, 1:]) * np.sin(np.pi * x[:, :1])
    rng = np.random.default_rng(3)
    at = rng.uniform(size=(60, 2))
    problem = Problem(
        Interval(0, 1) * Time(0, 1),
        lambda u, x, *, c: (
            derivative(u, x, "t") - c[0] * derivative(u, x, "x", "x") + 0.5 * u(x) + c[1]
        ),
        conditions=[
            Dirichlet(0.0, on=["left", "right"]),
            Initial(exact),
            Observations(at.tolist(), exact(at).tolist()),
        ],
        unknowns={"c": Unknown([1.0, 0.3])},
    )
    network = functools.partial(MLP, width=10, depth=2)
    found = solve(problem, network=network, points=300, steps=80).unknowns["c"].mean
    return found, np.array([0.2, 0.0])


@table.gives(1e-4)
def an_unknown_value_at_the_boundary() -> Any:
    problem = Problem(
        UNIT,
        lambda u, x: laplacian(u, x) + 2,
        conditions=[
            Dirichlet(0.0, on="left"),
            Dirichlet(lambda x, *, end: end + 0 * x, on="right"),
            Observations([0.5], [1.25]),
        ],
        unknowns={"end": 0.0},
    )
    return solve(problem, steps=60).unknowns["end"].mean, 2.0


@table.gives(1e-4)
def one_component_seen_of_two() -> Any:
    # u″ = −u as a system; only the position is seen, the speed at 0 is asked for.
    t = np.linspace(0, 2, 30)
    problem = Problem(
        Time(0, 2),
        lambda u, t, *, w: tf.concat(
            [derivative(u["p"], t, 0) - u["v"](t), derivative(u["v"], t, 0) + w**2 * u["p"](t)],
            axis=1,
        ),
        conditions=[Observations(t, np.sin(1.5 * t), component="p")],
        outputs=("p", "v"),
        unknowns={"w": Unknown(1.0, lower=0)},
    )
    result = solve(problem, steps=100, network=functools.partial(MLP, width=12, depth=1))
    return [
        (result.unknowns["w"].mean, 1.5),
        (result.predict([[0.0]]).mean, np.array([[0.0, 1.5]])),
    ]


table.add(
    Row(
        "layer sizes as in deepxde",
        lambda: solve(poisson(), network=[1, 20, 20, 1]),
        says="network",
    )
)

test_programs = table.as_test()

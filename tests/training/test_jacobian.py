"""The Jacobian of the residuals, by each of its ways, against differences and the gradient."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from engine import Engine, ParameterLayout, Rows, jacobians_of

import sciml_par.parallel as sp
from sciml_par.networks import MLP, FourierFeatures, ModifiedMLP, PeriodicEmbedding, make_network
from sciml_par.problems import (
    Box,
    Dirichlet,
    Interval,
    LogNormal,
    Neumann,
    Observations,
    Problem,
    Residual,
    Robin,
    Smooth,
    Unknown,
    UnknownFunction,
    derivative,
    divergence,
    gradient,
    hessian,
    jacobian,
    laplacian,
)
from sciml_par.training import Points
from sciml_par.training.loss.jacobian import JacobianOfTerm, weighted
from sciml_par.training.loss.known import Gradient, Jacobian, Residuals

pytestmark = pytest.mark.ranks(most=1, reason="the Jacobian is that of a rank's own points")
SQUARE = Box([0.0, -1.0], [1.0, 2.0])


def _mlp(d: int, m: int, **_: Any) -> MLP:
    return MLP(d, m, width=5, depth=2, activation="tanh", seed=3, dtype="float64")


def _skip(d: int, m: int, **_: Any) -> Any:
    """A model that is no chain of layers."""
    x = keras.Input((d,))
    h = keras.layers.Dense(4, "tanh", dtype="float64")(x)
    h = keras.layers.Concatenate(dtype="float64")([h, x])
    return keras.Model(x, keras.layers.Dense(m, dtype="float64")(h))


def _chain(d: int, m: int, **_: Any) -> Any:
    layers = [
        keras.layers.Rescaling(0.5, 0.1, dtype="float64"),
        keras.layers.Dense(4, "gelu", dtype="float64"),
        keras.layers.Dense(3, "sigmoid", use_bias=False, dtype="float64"),
        keras.layers.Dense(m, dtype="float64"),
    ]
    layers[1].trainable = True
    return keras.Sequential(layers)


def _frozen(d: int, m: int, **_: Any) -> Any:
    model = _chain(d, m)
    model.build((None, d))
    model.layers[1].trainable = False
    return model


def _navier_stokes(u: Any, x: Any) -> Any:
    velocity = u(x)
    gradients = jacobian(u, x)
    steady = tf.reduce_sum(velocity[:, None, :2] * gradients[:, :2], axis=2)
    return tf.concat([steady - 0.1 * laplacian(u, x)[:, :2], gradients[:, 0, :1]], axis=1)


def _by_tapes(u: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = u(x)
    return tape.gradient(value, x)[:, :1] * u(x) + laplacian(u, x)


def _correlated(n: int) -> Observations:
    x = np.linspace(0, 1, n)
    return Observations(x, np.cos(x), noise=np.exp(-np.abs(x[:, None] - x)) + np.eye(n))


CASES = {
    "poisson": Problem(
        SQUARE,
        Residual(lambda u, x, f: laplacian(u, x) - f, data=lambda x: np.sin(x[:, :1]), weight=2.0),
        conditions=[Dirichlet(1.0), Neumann(0.5, weight=3.0), Robin(1.0, -2.0, 0.25)],
    ),
    "nonlinear, mixed derivatives": Problem(
        SQUARE, lambda u, x: hessian(u, x)[:, 0, :, 1] * u(x) + tf.sin(u(x) * x[:, :1])
    ),
    "root": Problem(SQUARE, lambda u, x: laplacian(u, x) + tf.sqrt(u(x) + 3.0)),
    "system": Problem(SQUARE, _navier_stokes, outputs=3, conditions=[Dirichlet(0.0)]),
    "ansatz": Problem(
        Interval(0, 2),
        lambda u, x: laplacian(u, x) + u(x) ** 3,
        ansatz=lambda n, x: x * (2 - x) * tf.exp(n(x)),
        input_scaling=True,
    ),
    "third order": Problem(
        SQUARE,
        lambda u, x: derivative(u, x, 0, 0, 0) + u(x) * derivative(u, x, "y"),
        ansatz=lambda n, x: x[:, :1] * n(x) + x[:, 1:],
        input_scaling=True,
    ),
    "fourth order, ansatz": Problem(
        Interval(0, 2),
        lambda u, x: derivative(u, x, *"xxxx") - u(x) ** 2,
        ansatz=lambda n, x: x * n(x),
    ),
    "function of the field": Problem(
        Interval(0, 2), lambda u, x: derivative(lambda z: z * gradient(u, z) * u(z), x, "x")
    ),
    "two places": Problem(Interval(0, 1), lambda u, x: laplacian(u, x) + u(1 - x) * u(x)),
    "tapes": Problem(Interval(0, 1), _by_tapes),
    "mean over the points": Problem(
        Interval(0, 1), lambda u, x: laplacian(u, x) - tf.reduce_mean(u(x), axis=0, keepdims=True)
    ),
    "unknowns": Problem(
        SQUARE,
        [
            lambda u, x, *, c: tf.exp(c[0]) * laplacian(u, x) + c[1] * u(x) ** 3 - u(x),
            lambda u, x, *, D, c: tf.concat([D * u(x), c[0] * D**2 + x[:, :1]], axis=1),
        ],
        conditions=[Dirichlet(lambda x, *, D: D * x[:, :1])],
        unknowns={"D": Unknown(0.3, lower=0, upper=2), "c": Unknown([0.5, -2.0], upper=1)},
    ),
    "unknown where the field is evaluated": Problem(
        Interval(0, 1), lambda u, x, *, a: laplacian(u, x) - u(a * x), unknowns={"a": Unknown(0.7)}
    ),
    "unknown functions": Problem(
        SQUARE,
        lambda u, x, *, k, c: divergence(lambda z: k(z) * gradient(u, z), x) + c(x) * u(x),
        unknowns={
            "k": UnknownFunction(1.2, of="u", lower=0, network=_mlp),
            "c": UnknownFunction(0.5, of="x", network=_mlp),
        },
    ),
    "correlated observations and priors": Problem(
        Interval(0, 1),
        lambda u, x, *, k, a: k(x) * u(x) - a[0] * a[1],
        conditions=[_correlated(5), _correlated(20)],
        unknowns={
            "a": Unknown([0.5, 2.0], lower=0, prior=LogNormal(1.0, [0.5, 0.3])),
            "k": UnknownFunction(1.0, network=_mlp, prior=Smooth(length=0.3, amplitude=0.5)),
        },
    ),
    "does not see the network": Problem(Interval(0, 1), lambda u, x: x + 0 * u(x)),
}
MODELS = {
    "mlp": _mlp,
    "skip": _skip,
    "chain": _chain,
    "frozen": _frozen,
    "adaptive": partial(MLP, width=4, depth=1, adaptive="unit"),
    "periodic": partial(MLP, width=4, depth=1, embedding=PeriodicEmbedding({0: 1.0})),
    "gates": partial(ModifiedMLP, width=3, depth=2, embedding=FourierFeatures(2)),
}
USUAL = [
    ("poisson", "mlp"),
    ("unknowns", "mlp"),
    ("unknown functions", "mlp"),
    ("ansatz", "mlp"),
    ("system", "frozen"),
]
LONG = [
    ("nonlinear, mixed derivatives", "adaptive"),
    ("fourth order, ansatz", "mlp"),
    ("function of the field", "mlp"),
    ("two places", "mlp"),
    ("tapes", "mlp"),
    ("mean over the points", "chain"),
    ("unknown where the field is evaluated", "mlp"),
    ("correlated observations and priors", "mlp"),
    ("does not see the network", "mlp"),
    ("poisson", "skip"),
    ("poisson", "periodic"),
    ("poisson", "gates"),
]


@pytest.mark.parametrize(
    ("case", "model"),
    [
        *USUAL,
        *(pytest.param(*pair, marks=pytest.mark.long) for pair in LONG),
        *(
            pytest.param(case, "mlp", marks=pytest.mark.all)
            for case in CASES
            if (case, "mlp") not in USUAL + LONG
        ),
    ],
)
def test_jacobian_agrees_with_differences_and_with_the_gradient(case: str, model: str) -> None:
    engine = Engine(
        CASES[case], sp.current_world().communicator, MODELS[model], points=Points(27, boundary=150)
    )
    objective, batch = engine.objective, engine.feed.whole(0)
    objective.prepare(Jacobian, engine.parameters, batch)
    rng = np.random.default_rng(1)
    theta = engine.parameters + 0.1 * rng.normal(size=engine.parameters.shape)

    @tf.function(autograph=False)
    def compute(parameters: Any) -> Any:
        known = objective.evaluate(Gradient, parameters, batch)
        return (
            *engine.residuals_and_jacobian(parameters, batch),
            objective.evaluate(Residuals, parameters, batch).residuals,
            (known.terms, known.gradient),
        )

    residuals, slopes, again, (terms, gradient) = compute(theta)
    r = np.concatenate([each.numpy()[0] for each in residuals])
    jacobian_ = np.concatenate([each.numpy()[0] for each in slopes], axis=1).T
    np.testing.assert_allclose(np.concatenate([each.numpy()[0] for each in again]), r, rtol=1e-12)
    np.testing.assert_allclose(
        [np.sum(each.numpy() ** 2) for each in residuals], terms[0], rtol=1e-12
    )
    scale = np.abs(gradient).max() + 1
    np.testing.assert_allclose(2 * jacobian_.T @ r, gradient[0], rtol=0, atol=1e-12 * scale)
    for _ in range(2):
        direction, h = rng.normal(size=theta.shape[1]), 1e-5
        ahead, behind = (
            np.concatenate([e.numpy()[0] for e in compute(theta + s * h * direction)[2]])
            for s in (1, -1)
        )
        expected = (ahead - behind) / (2 * h)
        size = np.abs(expected).max() + 1
        np.testing.assert_allclose(jacobian_ @ direction, expected, rtol=0, atol=1e-7 * size)


ROWS = 28
MATRIX = np.random.default_rng(0).uniform(size=(ROWS, ROWS))
NODES = np.linspace(0, 1, ROWS)[:, None]
PERMUTATION = np.random.default_rng(1).permutation(ROWS)


def _after_six(u: Any, x: Any) -> Any:
    first = tf.range(x.shape[0])[:, None] < 7
    return laplacian(u, x) + tf.where(first, u(x), tf.roll(u(x), 1, axis=0))


def _where_many(u: Any, x: Any) -> Any:
    return laplacian(u, x) + (tf.reverse(u(x), [0]) if x.shape[0] > 6 else u(x))


COUPLED = {
    "other points": lambda u, x: u(x + 0.1) - 2 * u(x) + u(x - 0.1),
    "backwards": lambda u, x: laplacian(u, x) + u(x)[::-1],
    "reflected": lambda u, x: u(x) + tf.reverse(u(1 - x), [0]),
    "backwards where there are many": _where_many,
    "rolled after the sixth": _after_six,
    "permuted points": lambda u, x: u(x) - u(tf.gather(x, PERMUTATION)),
    "matrix": lambda u, x: u(x) - tf.constant(MATRIX) @ u(x),
    "as many nodes": lambda u, x: u(x) - tf.exp(-x * NODES.T) @ u(tf.constant(NODES)) / ROWS,
    "running sum": lambda u, x: laplacian(u, x) - tf.cumsum(u(x)),
    "ordered": lambda u, x: x - tf.sort(u(x), axis=0),
    "one component": lambda u, x: tf.concat([u(x), u(x) - u(x)[::-1]], axis=1),
    "first point": lambda u, x: u(x) - u(x[:1]),
    "running sum of points": lambda u, x: u(x) * tf.cumsum(x),
}
COUPLED_PROBLEMS = {name: Problem(Interval(0, 1), each) for name, each in COUPLED.items()} | {
    "ansatz": Problem(
        Interval(0, 1), COUPLED["backwards"], ansatz=lambda n, x: x * n(x), input_scaling=True
    ),
    "unknown": Problem(
        Interval(0, 1),
        lambda u, x, *, k: k * u(x) - k**2 * u(x)[::-1],
        unknowns={"k": Unknown(0.5)},
    ),
    "unknown function": Problem(
        Interval(0, 1),
        lambda u, x, *, k: k(x) * u(x) - k(x)[::-1],
        unknowns={"k": UnknownFunction(1.0, network=_mlp)},
    ),
    "two outputs": Problem(
        Interval(0, 1),
        lambda u, x: u(x)[::-1, 1:] + laplacian(u, x)[:, :1],
        outputs=2,
        conditions=[Dirichlet(1.0)],
    ),
}


@pytest.mark.long_after(10)
@pytest.mark.parametrize(
    ("case", "model"), [(case, (_mlp, _skip)[i % 2]) for i, case in enumerate(COUPLED_PROBLEMS)]
)
def test_jacobian_of_coupled_points_agrees_with_differences(
    case: str, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Blocks of a few rows, of which the last one has fewer.
    monkeypatch.setattr("sciml_par.training.loss.jacobian._AT_ONCE", 4 * ROWS)
    engine = Engine(
        COUPLED_PROBLEMS[case], sp.current_world().communicator, model, points=Points(ROWS)
    )
    objective, batch = engine.objective, engine.feed.whole(0)
    objective.prepare(Jacobian, engine.parameters, batch)
    rng = np.random.default_rng(1)
    theta = engine.parameters + rng.normal(size=engine.parameters.shape)
    direction, h = rng.normal(size=theta.shape), 1e-5

    def residuals(at: Any) -> np.ndarray:
        # Of the loss, which has no Jacobian.
        u = engine.field(objective.layout.unflatten(at[0]))
        pairs = zip(engine.problem.terms, batch, strict=True)
        parts = [weighted(term.residual(u, *rows.arrays), rows.weights) for term, rows in pairs]
        return np.concatenate(parts)

    r, slopes = engine.residuals_and_jacobian(theta, batch)
    np.testing.assert_allclose(np.concatenate([e[0] for e in r]), residuals(theta), rtol=1e-12)
    found = np.concatenate([each[0] for each in slopes], axis=1).T @ direction[0]
    expected = (residuals(theta + h * direction) - residuals(theta - h * direction)) / (2 * h)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize(
    "case", ["root", "tapes", pytest.param("third order", marks=pytest.mark.all)]
)
def test_neither_rounding_nor_nan_makes_a_pointwise_residual_slow(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a reverse pass for each row")

    monkeypatch.setattr(JacobianOfTerm, "_row_by_row", refuse)
    problem = CASES[case]
    model = MLP(problem.domain.dimension, problem.outputs, width=40, depth=3, dtype="float32")
    network = make_network(model, problem.domain.dimension, problem.outputs, dtype="float32")
    layout = ParameterLayout.of(network.trainable_variables)
    flat = layout.flatten(network.trainable_variables)
    for each in jacobians_of(problem, network, layout):
        arrays = tuple(tf.constant(a, tf.float32) for a in each.term.points(2_000))
        rows = Rows(tf.constant(1e-3), arrays)
        each.prepare(flat, rows)
        each(flat, rows)

"""Gradients by the parameters of what operators return, against finite differences."""

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.networks import MLP
from sciml_par.problems import (
    Box,
    Field,
    Term,
    derivative,
    divergence,
    gradient,
    hessian,
    jacobian,
    laplacian,
)

OPERATORS = {
    "value": lambda u, x: u(x),
    "derivative": lambda u, x: derivative(u, x, 1),
    "mixed": lambda u, x: derivative(u, x, 0, 1),
    "third": lambda u, x: derivative(u, x, 0, 1, 1),
    "gradient": lambda u, x: gradient(first(u), x),
    "jacobian": lambda u, x: flat(jacobian(u, x)),
    "divergence": divergence,
    "laplacian": laplacian,
    "hessian": lambda u, x: flat(hessian(u, x)),
    "equation": lambda u, x: laplacian(u, x) + u(x) * derivative(u, x, 0) - derivative(u, x, 1, 1),
    "ansatz": lambda u, x: laplacian(lambda z: (1 - z[:, 0:1] ** 2) * u(z), x),
}


def first(u):
    return lambda x: u(x)[:, 0:1]


def flat(tensor):
    return tf.reshape(tensor, [tensor.shape[0], -1])


@pytest.fixture(scope="module")
def case():
    model = MLP(2, 2, width=6, depth=2, dtype="float64", seed=1)
    x = tf.constant(Box([-1, -1], [1, 1]).sample(5, seed=0))
    rng = np.random.default_rng(0)
    # Away from zero biases, whose gradients vanish by symmetry and would hide an error.
    values = [tf.constant(v.numpy() + 0.3 * rng.normal(size=v.shape)) for v in model.variables]
    direction = [tf.constant(rng.normal(size=v.shape)) for v in values]
    return model, x, values, direction


def loss_of(operator, model, path):
    term = Term("test", 1.0, lambda n: (), operator)

    def loss(parameters, x):
        jet = (lambda x, s: model.jet(parameters, x, s)) if path == "jet" else None
        return term.sum_of_squares(Field(lambda x: model.apply(parameters, x), jet=jet), x)

    return loss


def slope(loss, x, direction):
    """The derivative of the loss along `direction`, by reverse differentiation."""

    def along(*parameters):
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            value = loss(parameters, x)
        gradients = tape.gradient(value, parameters, unconnected_gradients="zero")
        return tf.add_n([tf.reduce_sum(g * v) for g, v in zip(gradients, direction, strict=True)])

    return along


# Training is compiled. The operators that use most of the others are enough for it, and tapes are
# what other networks than the package's own go by.
CASES = [("equation", "jet", "jit"), ("third", "jet", "jit"), ("ansatz", "tape", "graph")]
CASES += [(name, "jet", "eager") for name in OPERATORS]
CASES += [(name, "tape", "eager") for name in OPERATORS if name != "ansatz"]
CASES += [(name, "jet", "jit") for name in OPERATORS if name not in ("equation", "third")]
CASES += [("equation", "tape", "jit"), ("ansatz", "tape", "jit"), ("ansatz", "jet", "graph")]


@pytest.mark.all_after(3 + len(OPERATORS))
@pytest.mark.parametrize(("name", "path", "mode"), CASES)
def test_directional_derivative(case, name, path, mode):
    model, x, values, direction = case
    loss = loss_of(OPERATORS[name], model, path)
    along = slope(loss, x, direction)
    if mode != "eager":
        along = tf.function(along, jit_compile=mode == "jit", autograph=False)
    step = 1e-4
    sides = [
        loss([p + s * step * v for p, v in zip(values, direction, strict=True)], x).numpy()
        for s in (-2, -1, 1, 2)
    ]
    # Fourth-order central difference.
    expected = (sides[0] - 8 * sides[1] + 8 * sides[2] - sides[3]) / (12 * step)
    assert abs(expected) > 1e-3
    np.testing.assert_allclose(along(*values), expected, rtol=1e-6)

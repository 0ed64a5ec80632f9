"""An imposed condition holds to rounding, whatever the network is."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.networks import MLP, RandomFeatures
from sciml_par.problems import (
    Ball,
    Box,
    Dirichlet,
    Domain,
    Ellipse,
    Extruded,
    Initial,
    Interval,
    Neumann,
    Periodic,
    PointCloud,
    Polygon,
    Problem,
    Time,
    distance_to,
    impose,
    impose_dirichlet,
    impose_initial,
    laplacian,
)
from sciml_par.training import LeastSquares, train

ROD = Box([0, 0.5], [2, 1.5], names=("x", "t"))
ENDS = ("x=lower", "x=upper")


def network(outputs=1, d=2):
    net = MLP(d, outputs, width=6, depth=1, seed=2, dtype="float64")
    parameters = [tf.convert_to_tensor(v) for v in net.trainable_variables]
    return lambda x: net.apply(parameters, x), lambda x, s: net.jet(parameters, x, s)


def largest_residual(ansatz, conditions, domain=ROD, outputs=1):
    problem = Problem(
        domain, lambda u, x: u(x), conditions=conditions, ansatz=ansatz, outputs=outputs
    )
    value, jet = network(problem.outputs, domain.dimension)
    u = problem.field(value, jet=jet)
    return max(
        np.abs(term.residual(u, *map(tf.constant, term.points(50)))).max()
        for term in problem.terms[1:]
    )


def smooth(x):
    return tf.sin(x[:, 0:1]) * tf.exp(x[:, 1:2])


CASES = {
    "one face": [Dirichlet(3.0, on="x=upper")],
    "two ends": [Dirichlet(0.0, on=ENDS)],
    "different ends": [Dirichlet(1.0, on="x=lower"), Dirichlet(lambda x: x[:, 1], on="x=upper")],
    "all faces": [Dirichlet(smooth)],
    "initial": [Initial(lambda x: x[:, 0:1] ** 2)],
    "initial with velocity": [Initial(smooth, velocity=smooth)],
    "ends and initial": [Dirichlet(smooth, on=ENDS), Initial(smooth)],
    "ends, initial and velocity": [Initial(smooth, velocity=smooth), Dirichlet(smooth, on=ENDS)],
}


@pytest.mark.parametrize("name", CASES)
def test_imposed_conditions_hold(name):
    assert largest_residual(impose(ROD, CASES[name]), CASES[name]) < 1e-13


def test_components():
    conditions = [
        Dirichlet((1.0, 2.0), component=("v", "u"), on="x=lower"),
        Dirichlet(smooth, component="p"),
    ]
    names = ("u", "v", "p", "free")
    ansatz = impose(ROD, conditions, outputs=names)
    assert largest_residual(ansatz, conditions, outputs=names) < 1e-13
    x = tf.constant(ROD.sample(5, seed=0))
    value, _ = network(4)
    np.testing.assert_array_equal(ansatz(value, x)[:, 3], value(x)[:, 3])


def test_three_dimensions():
    box = Box([0, 0, 0], [1, 2, 1])
    conditions = [Dirichlet(lambda x: x[:, :1] * x[:, 1:2] - x[:, 2:] ** 2)]
    assert largest_residual(impose(box, conditions), conditions, box) < 1e-13


def test_the_network_counts_everywhere_else():
    ansatz = impose(ROD, CASES["all faces"])
    x = tf.constant(ROD.sample(20, seed=0))
    one, other = (ansatz(lambda x, c=c: c + 0 * x[:, :1], x).numpy() for c in (0.0, 1.0))
    np.testing.assert_allclose(other - one, distance_to(ROD)(x), rtol=1e-12)
    assert np.all(other - one > 0)


def test_derivatives_are_those_of_tapes():
    ansatz = impose(ROD, CASES["ends, initial and velocity"])
    problem = Problem(ROD, lambda u, x: u(x), ansatz=ansatz)
    value, jet = network()
    x = tf.constant(ROD.sample(9, seed=3))
    by_jet, by_tape = problem.field(value, jet=jet), problem.field(value)
    both = [laplacian(u, x, over=(0, 1)) for u in (by_jet, by_tape)]
    np.testing.assert_allclose(*both, rtol=1e-9)


def test_impose_dirichlet_with_a_function_of_ones_own():
    circle = impose_dirichlet(smooth, lambda x: 1 - tf.reduce_sum(x**2, axis=1, keepdims=True))
    angle = np.linspace(0, 6, 7)
    x = tf.constant(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    np.testing.assert_allclose(circle(network()[0], x), smooth(x), atol=1e-14)
    assert np.all(
        impose_dirichlet(2.0, distance_to(ROD))(network()[0], tf.constant(ROD.grid(9)[:1])) == 2
    )
    with pytest.raises(InputError, match=r"distance must return \[n, 1\]"):
        impose_dirichlet(0.0, lambda x: x[:, 0])(network()[0], x)
    with pytest.raises(InputError, match="distance must be a function"):
        impose_dirichlet(0.0, 1.0)


def test_impose_initial_of_an_ordinary_differential_equation():
    time = Interval(0, 4, name="t")
    ansatz = impose_initial(time, 1.0, 0.5)
    assert largest_residual(ansatz, [Initial(1.0, velocity=0.5)], time) < 1e-14


def test_distances():
    x = tf.constant([[0.0, 1.0], [1.0, 1.0], [2.0, 0.5], [0.5, 1.5]], tf.float64)
    for on, expected in {
        None: [0, 1, 0, 0],
        "x=lower": [0, 0.5, 1, 0.25],
        ("x=lower", "x=upper"): [0, 1, 0, 0.75],
        ("t=upper", "x=lower"): [0, 0.25, 1, 0],
    }.items():
        np.testing.assert_allclose(distance_to(ROD, on)(x)[:, 0], expected)


TRIANGLE = Polygon([[0, 0], [2, 0], [1, 2]])
RING = Ball([0, 0], 1) - Ball([0, 0], 0.5)
CIRCLE = [[np.cos(t), np.sin(t)] for t in np.arange(20) * np.pi / 10]


@pytest.mark.parametrize(
    ("domain", "on"),
    [
        (Ball([1, 2, 3], 2.0), None),
        (Ellipse([1, 0], [2, 1], angle=0.4), None),
        (TRIANGLE, None),
        (TRIANGLE, "edge 2"),
        (Box([0, 0], [4, 2]) - Ball([1, 1], 0.5), ["left", "surface"]),
        (RING, "surface 2"),
        (RING * Time(0, 2), ["surface", "initial"]),
        (Box([0, 0], [2, 2]) & Ball([0, 0], 2.0), None),
        (Extruded(RING, 0, 2), ["surface", "z=upper"]),
    ],
)
def test_distances_to_other_faces(domain: Domain, on: Any):
    phi, (x, _) = distance_to(domain, on), domain.boundary(300)
    here = domain.on_faces(x, domain.faces if on is None else on)
    found = phi(tf.constant(x)).numpy()[:, 0]
    assert np.abs(found[here]).max() < 1e-14
    assert here.all() or found[~here].min() > 1e-6
    inside = phi(tf.constant(domain.sample(1000, seed=1))).numpy()
    assert inside.min() > 0 and inside.max() == pytest.approx(1.0, rel=0.05)


def test_an_equation_in_a_ring_without_a_condition():
    def exact(x: Any) -> Any:
        return np.log(4 * np.sum(x**2, axis=1, keepdims=True)) / 2 + 1

    def value(x: tf.Tensor) -> tf.Tensor:  # 1 on the inner circle and 1 + log 2 on the outer one
        return 1 + np.log(2) * (2 * tf.norm(x, axis=1) - 1)

    ansatz = impose_dirichlet(value, distance_to(RING))
    problem = Problem(RING, laplacian, ansatz=ansatz, exact=exact)
    result = train(
        problem,
        network=partial(RandomFeatures, features=150, scale=4.0),
        optimizer=LeastSquares(),
        points=600,
        precision="float64",
        progress=False,
        estimate=False,
    )
    assert result.members[0].on_own_domain.relative_l2_error < 1e-5
    on, _ = RING.boundary(50)
    np.testing.assert_allclose(result.predict(on).mean, exact(on), atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: impose(ROD, Neumann(0.0)), "Neumann cannot be imposed exactly"),
        (lambda: impose(ROD, 0), "int cannot be imposed exactly"),
        (lambda: impose(ROD, [Periodic("x")]), "Periodic cannot be imposed exactly"),
        (lambda: impose(ROD, Initial(order=1)), "velocity=..."),
        (lambda: impose(ROD, Dirichlet(where=lambda x: x[:, 1] < 1)), "part of a face"),
        (lambda: impose(ROD, Dirichlet(points=5)), "part of a face"),
        (lambda: impose(ROD, [Dirichlet(0.0), Initial(0.0)]), "given twice.*on all faces"),
        (
            lambda: impose(ROD, [Initial(0.0, velocity=1.0), Dirichlet(on="t=upper")]),
            "end of time cannot be imposed",
        ),
        (lambda: impose(ROD, Dirichlet(np.sin)), "write tf.sin, not np.sin"),
        (lambda: impose(ROD, Dirichlet(on="top")), "no face 'top'"),
        (
            lambda: impose(ROD, [Dirichlet(0.0, on=ENDS), Initial(1.0)]),
            r"contradict one another at x = \[.*differ by 1",
        ),
        (
            lambda: impose(ROD, [Dirichlet(0.0, on=ENDS), Initial(0.0, velocity=2.0)]),
            "where values differ by 2",
        ),
        (lambda: distance_to(3.0), "expected a domain"),
        (lambda: distance_to(TRIANGLE, "edge 4"), "no face 'edge 4'"),
        (lambda: distance_to(ROD | Box([1, 1], [3, 3])), "continuation of a face crosses"),
        (lambda: distance_to(PointCloud(np.eye(2), boundary=np.eye(2))), "has others"),
        (lambda: distance_to(Polygon(CIRCLE)), "up to 12 faces"),
        (lambda: impose(3.0, Dirichlet()), "use impose_dirichlet"),
    ],
)
def test_mistakes(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_another_number_of_components():
    with pytest.raises(InputError, match="outputs=2"):
        impose(ROD, Dirichlet())(network(2)[0], tf.constant(ROD.grid(9)))

"""Strains, stresses and forces of elastic materials, against exact ones."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.networks import RandomFeatures
from sciml_par.problems import (
    Box,
    Dirichlet,
    Elastic,
    Interval,
    Neumann,
    Problem,
    Time,
    Traction,
    Unknown,
    divergence,
)
from sciml_par.training import LeastSquares, train

RANDOM = partial(RandomFeatures, features=60, scale=1.0)

pytestmark = pytest.mark.ranks(most=1, reason="operators of one rank")

YOUNG, POISSON = 2.0, 0.3
STEEL = Elastic(young=YOUNG, poisson=POISSON)
PLANES = [(2, "strain"), (2, "stress"), (3, "strain")]
PULLED = np.diag([1.0, -POISSON, -POISSON]) / YOUNG
"""The strain of a rod with the stress 1 along x."""


def points(d: int) -> Any:
    return tf.constant(Box([-1.0] * d, [1.0] * d).sample(9, seed=1))


def linear(slopes: Any) -> Any:
    """w = A x, whose strain is the symmetric part of A."""
    return lambda x: tf.linalg.matvec(tf.constant(slopes, x.dtype), x)


def test_a_rod_that_is_pulled() -> None:
    material, x = Elastic(young=YOUNG, poisson=POISSON), points(3)
    turned = PULLED + [[0, -2, 0], [2, 0, 0], [0, 0, 0]]  # a rotation has no strain
    np.testing.assert_allclose(material.strain(linear(turned), x), np.tile(PULLED, (9, 1, 1)))
    stress = material.stress(linear(turned), x)
    np.testing.assert_allclose(stress[4], np.diag([1, 0, 0]), atol=1e-14)
    np.testing.assert_allclose(material.von_mises(linear(turned), x), np.ones((9, 1)))
    normals = tf.tile(tf.constant([[0.6, 0.8, 0.0]], x.dtype), [9, 1])
    traction = material.traction(linear(turned), x, normals)
    np.testing.assert_allclose(traction[0], [0.6, 0, 0], atol=1e-14)


def polynomial(x: Any) -> Any:
    """u = x² y, v = x y³ in the plane; u = x² y z, v = y² z, w = x z³ in space."""
    if x.shape[1] == 2:
        return tf.concat([x[:, :1] ** 2 * x[:, 1:], x[:, :1] * x[:, 1:] ** 3], axis=1)
    a, b, c = x[:, :1], x[:, 1:2], x[:, 2:]
    return tf.concat([a**2 * b * c, b**2 * c, a * c**3], axis=1)


def exact_stress(x: Any, plane: str = "strain") -> Any:
    """σ of `polynomial` in space, by E and ν: [n, 3, 3]."""
    slopes, zero = np.zeros((len(x), 3, 3)), np.zeros(len(x))
    a, b, *rest = np.array(x).T
    if not rest:
        rows = [[2 * a * b, a**2], [b**3, 3 * a * b**2]]
    else:
        (c,) = rest
        rows = [[2 * a * b * c, a**2 * c, a**2 * b], [zero, 2 * b * c, b**2]]
        rows.append([c**3, zero, 3 * a * c**2])
    d = len(rows)
    slopes[:, :d, :d] = np.array(rows).transpose(2, 0, 1)
    if plane == "stress":
        slopes[:, 2, 2] = -POISSON / (1 - POISSON) * (slopes[:, 0, 0] + slopes[:, 1, 1])
    strain = (slopes + slopes.transpose(0, 2, 1)) / 2
    volume = np.einsum("nii->n", strain)[:, None, None] * np.eye(3)
    return YOUNG / (1 + POISSON) * (strain + POISSON / (1 - 2 * POISSON) * volume)


def differences(sigma: Any) -> Any:
    """The stress of von Mises by the differences of stresses: [n, 3, 3] -> [n, 1]."""
    xx, yy, zz = (sigma[:, i, i] for i in range(3))
    across = sigma[:, 0, 1] ** 2 + sigma[:, 1, 2] ** 2 + sigma[:, 2, 0] ** 2
    squares = (xx - yy) ** 2 + (yy - zz) ** 2 + (zz - xx) ** 2 + 6 * across
    return np.sqrt(squares / 2)[:, None]


@pytest.mark.parametrize(("d", "plane"), PLANES)
def test_stresses_of_polynomials(d: int, plane: str) -> None:
    material, x = Elastic(young=YOUNG, poisson=POISSON, plane=plane), points(d)
    sigma = exact_stress(x, plane)
    assert plane == "strain" or np.abs(sigma[:, 2, 2]).max() < 1e-12
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(material.stress(polynomial, x), sigma[:, :d, :d], **close)
    np.testing.assert_allclose(material.von_mises(polynomial, x), differences(sigma), **close)
    normals = np.random.default_rng(2).normal(size=x.shape)
    found = material.traction(polynomial, x, tf.constant(normals))
    np.testing.assert_allclose(found, np.einsum("nij,nj->ni", sigma[:, :d, :d], normals), **close)


@pytest.mark.parametrize(("d", "plane"), PLANES)
def test_the_force_is_the_divergence_of_the_stress(d: int, plane: str) -> None:
    material = Elastic(young=YOUNG, poisson=POISSON, plane=plane)
    x = points(d)

    def w(x: Any) -> Any:
        return tf.sin(x * np.arange(1.0, d + 1)) * tf.reduce_sum(x**2, axis=1, keepdims=True)

    force = material.force(w, x)
    for i in range(d):
        row = divergence(lambda x, i=i: material.stress(w, x)[:, i], x)
        np.testing.assert_allclose(force[:, i : i + 1], row, rtol=1e-10, atol=1e-10)


def test_time_and_an_unknown_modulus() -> None:
    """A rod of unknown stiffness, pulled with the stress t; its end has moved by t / 2."""
    problem = Problem(
        Box([0, 0], [1, 1]) * Time(0, 1),
        lambda w, x: Elastic(young=1.0, poisson=0.0).force(w, x, over="space"),
        conditions=[
            Dirichlet(lambda x: np.stack([x[:, 2] * x[:, 0] / 2, 0 * x[:, 0]], axis=1)),
            Traction(
                lambda *, young: Elastic(young=young, poisson=0.0),
                lambda x: np.stack([x[:, 2], 0 * x[:, 2]], axis=1),
                on="x=upper",
            ),
        ],
        outputs=("u", "v"),
        unknowns={"young": Unknown(1.0)},
    )
    result = train(problem, optimizer=LeastSquares(), points=200, precision="float64",
                   network=RANDOM, progress=False, estimate=False)  # fmt: skip
    assert result.unknowns["young"].mean == pytest.approx(2.0, rel=1e-5)


def test_displacements_are_chosen_by_name() -> None:
    box = Box([-1, -1, 0], [1, 1, 1], names=("x", "y", "t"))
    problem = Problem(box, lambda w, x: w(x), outputs=("u", "T", "v"))

    def moving(x: Any) -> Any:
        w = polynomial(x[:, :2]) * x[:, 2:]
        return tf.concat([w[:, :1], x[:, :1], w[:, 1:]], axis=1)

    x = tf.constant(box.sample(5, seed=0))
    found = STEEL.stress(problem.field(moving)["u", "v"], x, over="space")
    expected = exact_stress(x[:, :2])[:, :2, :2] * x.numpy()[:, 2:, None]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"young": 1.0, "poisson": 0.5}, "poisson to be a number between -1 and 0.5; got 0.5"),
        ({"young": -1.0, "poisson": 0.3}, "young to be a number > 0"),
        ({"young": 1.0}, "young= and poisson=, or lame= and shear="),
        ({"young": 1.0, "poisson": 0.3, "shear": 1.0}, "young= and poisson=, or lame= and shear="),
        ({"lame": -1.0, "shear": 1.0}, "lame to be a number above"),
        ({"young": 1.0, "poisson": 0.3, "plane": "thin"}, "'strain' or 'stress'"),
        ({"E": 1.0, "nu": 0.3}, "young=E, poisson=nu"),
        ({"young": tf.ones([9, 1]), "poisson": 0.3}, r"the shape \[9, 1\]"),
        ({"young": Unknown(1.0), "poisson": 0.3}, "An unknown of the problem is an argument"),
    ],
)
def test_materials_that_are_refused(given: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        Elastic(**given)


def test_time_is_not_taken_for_a_coordinate() -> None:
    """Three displacements over (x, y, t) would otherwise be those of a body in space."""
    material = Elastic(young=YOUNG, poisson=POISSON)
    problem = Problem(
        Box([0, 0], [1, 1]) * Time(0, 1),
        material.force,
        conditions=[Dirichlet(0.0)],
        outputs=("u", "v", "w"),
    )
    with pytest.raises(InputError, match='over="space" to leave t out'):
        train(problem, network=RANDOM, points=9, steps=1, progress=False)


def test_as_many_displacements_as_coordinates() -> None:
    material = Elastic(young=YOUNG, poisson=POISSON)
    with pytest.raises(InputError, match="'stress' is for two dimensions"):
        Elastic(young=YOUNG, poisson=POISSON, plane="stress").force(linear(PULLED), points(3))
    for compute in (material.strain, material.force, material.von_mises):
        with pytest.raises(InputError, match="has 1 components in 2 dimensions"):
            compute(lambda x: x[:, :1], points(2))
    with pytest.raises(InputError, match="two displacements in two"):
        material.stress(lambda x: x, tf.constant(Interval(0, 1).sample(3, seed=0)))


@pytest.mark.parametrize(("d", "plane"), PLANES)
def test_traction_is_a_condition(d: int, plane: str) -> None:
    material, box = Elastic(young=YOUNG, poisson=POISSON, plane=plane), Box([-1] * d, [1] * d)

    def given(x: Any) -> Any:
        return exact_stress(x, plane)[:, :d, 0]

    def residual(condition: Any) -> Any:
        problem = Problem(box, material.force, conditions=[condition], outputs=("u", "v", "w")[:d])
        arrays = [tf.constant(a) for a in problem.conditions[0].points(box, 60)]
        assert (arrays[0].numpy()[:, 0] == 1).all()
        return problem.terms[1].residual(problem.field(polynomial), *arrays).numpy()

    np.testing.assert_allclose(residual(Traction(material, given, on="x=upper")), 0, atol=1e-12)
    other = Elastic(young=1.1 * YOUNG, poisson=POISSON, plane=plane)
    assert np.abs(residual(Traction(other, given, on="x=upper"))).max() > 1e-2
    free = residual(Traction(material, on="x=upper"))
    along = residual(Traction(material, component="v", on="x=upper"))
    np.testing.assert_allclose(along, free[:, 1:2], rtol=1e-12)


def test_tractions_of_equal_materials_are_equal() -> None:
    first = Traction(Elastic(young=2.0, poisson=0.3), (1.0, 0.0), on="x=upper")
    assert first == Traction(Elastic(young=2.0, poisson=0.3), (1.0, 0.0), on="x=upper")
    assert first != Traction(Elastic(young=2.0, poisson=0.2), (1.0, 0.0), on="x=upper")


SQUARE = Box([0, 0], [1, 1])


@pytest.mark.parametrize(
    ("domain", "outputs", "make", "text"),
    [
        (SQUARE, 2, lambda: Traction((1.0, 0.0), STEEL), "expected first a material"),
        (SQUARE, 2, lambda: Traction(STEEL.traction), "expected first a material"),
        (SQUARE, 2, lambda: Traction(lambda young: STEEL), "that follow a star"),
        (SQUARE, 2, lambda: Traction(STEEL, (1.0,)), "1 values .* for 2 component"),
        (SQUARE, 2, lambda: Traction(STEEL, lambda x: x[:, :1]), r"\[\d+, 2\], .* got \[\d+, 1\]"),
        (SQUARE, 3, lambda: Traction(STEEL), "along each of x, y; the outputs .* u1, u2, u3"),
        (SQUARE, 2, lambda: Traction(STEEL, on="interior"), "points inside have no normals"),
        (SQUARE, 2, lambda: Neumann(on="interior"), "points inside have no normals"),
        (SQUARE * Time(0, 1), 2, lambda: Traction(STEEL, on="initial"), "faces in space"),
        (SQUARE * Time(0, 1), 2, lambda: Traction(STEEL, on="t=upper"), "faces in space"),
        (SQUARE * Time(0, 1), 2, lambda: Traction(STEEL), "Give the names of faces in space"),
    ],
)
def test_tractions_that_are_refused(domain: Any, outputs: int, make: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        problem = Problem(domain, lambda w, x: w(x), conditions=[make()], outputs=outputs)
        arrays = [tf.constant(a) for a in problem.conditions[0].points(domain, 60)]
        problem.terms[1].residual(problem.field(lambda x: x[:, :2]), *arrays)

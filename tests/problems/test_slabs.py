"""Slabs of time: domains that have them, and what each slab has of a problem."""

from __future__ import annotations

import numpy as np
import pytest

from sciml_par.errors import InputError
from sciml_par.problems import (
    Ball,
    Box,
    Condition,
    Dirichlet,
    Initial,
    IntegralCondition,
    Interval,
    Observations,
    Periodic,
    Problem,
    Time,
    Unknown,
    derivative,
    laplacian,
)

SQUARE = Interval(0, 1) * Time(0, 4, slabs=4)


def heat(u, x):
    return derivative(u, x, "t") - laplacian(u, x, over="space")


def on_slab(condition, k, domain=SQUARE):
    """Return the arrays of a condition on a slab; None if the slab does not have it."""
    problem = Problem(domain, heat, conditions=[condition], outputs=1)
    found = problem.on_slab(domain.slabs[k])
    return found.terms[1].points(16) if len(found.terms) > 1 else None


def test_slabs_are_equal_or_end_at_given_times():
    assert Time(0, 3, slabs=3).slabs == (Time(0, 1), Time(1, 2), Time(2, 3))
    assert Time(0, 3, slabs=[0.5]).slabs == (Time(0, 0.5), Time(0.5, 3))
    assert SQUARE.slabs[1] == Box([0, 1], [1, 2], names=("x", "t"))
    disc = (Ball([0, 0], 1) * Time(0, 2, slabs=2)).slabs
    assert disc == (Ball([0, 0], 1) * Time(0, 1), Ball([0, 0], 1) * Time(1, 2))
    assert Time(0, 3, slabs=1) == Time(0, 3)
    assert Interval(0, 1).slabs == (Interval(0, 1),)


@pytest.mark.parametrize(
    ("domain", "without"),
    [
        (Time(0, 3, slabs=3), Time(0, 3)),
        (SQUARE, Interval(0, 1) * Time(0, 4)),
        (Ball([0], 1) * Time(0, 2, slabs=[0.5]), Ball([0], 1) * Time(0, 2)),
    ],
)
def test_slabs_are_a_part_of_the_domain(domain, without):
    again = eval(repr(domain))
    assert again == domain and again.slabs == domain.slabs and hash(again) == hash(domain)
    assert without != domain and "slabs=" not in repr(without)


@pytest.mark.parametrize("slabs", [0, -1, 2.5, True, "many", [1, 1], [2, 1], [0.0, 1], [1, 3.0]])
def test_slabs_must_be_a_number_or_increasing_times(slabs):
    with pytest.raises(InputError, match="slabs must be"):
        Time(0, 3, slabs=slabs)


def test_domains_with_slabs_are_not_combined():
    with pytest.raises(InputError, match="slabs"):
        SQUARE - Box([0.2, 1], [0.4, 2], names=("x", "t"))


def test_a_slab_has_the_conditions_of_its_time():
    assert set(on_slab(Initial(1.0), 2)[0][:, 1]) == {2.0}
    x = on_slab(Dirichlet(0.0, on=("left", "right")), 1)[0]
    assert x[:, 1].min() >= 1 and x[:, 1].max() <= 2 and set(x[:, 0]) == {0.0, 1.0}
    late = Dirichlet(0.0, on="left", where=lambda x: x[:, 1] > 2.5)
    assert [on_slab(late, k) is None for k in range(4)] == [True, True, False, False]
    given = Dirichlet(0.0, points=[[0.0, 0.5], [0.0, 2.0], [0.0, 3.5]])
    assert [0 if (a := on_slab(given, k)) is None else len(a[0]) for k in range(4)] == [1, 1, 0, 1]


def test_observations_and_integrals_belong_to_the_slab_of_their_time():
    t = np.array([0.0, 1.0, 1.5, 4.0])  # those between two slabs are of the earlier one
    x = np.column_stack([0 * t + 0.5, t])
    data = Observations(x, t, noise=[0.1, 0.2, 0.3, 0.4])
    found = [on_slab(data, k) for k in range(4)]
    assert [None if a is None else a[2].ravel().tolist() for a in found] == [
        [0.1, 0.2],
        [0.3],
        None,
        [0.4],
    ]
    mass = IntegralCondition(lambda u, x: u(x), [1.0, 2.0], at=("t", [0.5, 3.5]))
    assert [None if (a := on_slab(mass, k)) is None else a[2].item() for k in range(4)] == [
        1.0,
        None,
        None,
        2.0,
    ]


def test_a_slab_begins_with_values_and_derivatives_of_the_one_before():
    def before(x, order):
        return np.column_stack([x[:, 0] + 10 * order, x[:, 0] + 10 * order + 5])

    conditions = [
        Initial(1.0, velocity=0.0, component="a"),
        Dirichlet(2.0, on="t=lower", component="b"),
        Dirichlet(3.0, on="left", component="b"),
    ]
    problem = Problem(SQUARE, heat, conditions=conditions, outputs=("a", "b"))
    slab = problem.on_slab(SQUARE.slabs[1]).starting_from(before)
    x, _, value, velocity = slab.terms[1].points(16)
    np.testing.assert_allclose(value, x[:, :1])
    np.testing.assert_allclose(velocity, x[:, :1] + 10)
    x, _, value = slab.terms[2].points(16)
    np.testing.assert_allclose(value, x[:, :1] + 5)
    assert set(slab.terms[3].points(16)[2].ravel()) == {3.0}


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (Periodic("t"), "periodic in t"),
        (Dirichlet(0.0, on="final"), "final time"),
        (Dirichlet(0.0), "must name its faces"),
        (Dirichlet(0.0, on=("left", "initial")), "one condition at the initial time"),
        (Condition(lambda u, x: u(x), on="initial"), "values at the initial time are Initial"),
        (IntegralCondition(lambda u, x: u(x), 1.0), "integral over t"),
        (IntegralCondition(lambda u, x: u(x), 1.0, on="left"), "integral over t"),
        (Observations([[0.5, 0.5], [0.5, 2.5]], [1, 2], noise=np.eye(2)), "covariance"),
    ],
)
def test_what_slabs_cannot_share_is_refused(condition, said):
    with pytest.raises(InputError, match=said):
        on_slab(condition, 0)


def test_unknowns_and_missing_initial_values_are_refused():
    def sought(u, x, *, k):
        return derivative(u, x, "t") - k * laplacian(u, x, over="space")

    problem = Problem(SQUARE, sought, conditions=[Initial(0.0)], unknowns={"k": Unknown(1.0)})
    with pytest.raises(InputError, match="unknowns"):
        problem.on_slab(SQUARE.slabs[0])
    problem = Problem(SQUARE, heat, conditions=[Dirichlet(0.0, on="left")])
    with pytest.raises(InputError, match="no condition at the initial time"):
        problem.on_slab(SQUARE.slabs[1]).starting_from(lambda x, order: x)

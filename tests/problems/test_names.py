"""Names of coordinates and of components."""

import copy
import pickle

import numpy as np
import pytest

from sciml_par.errors import InputError
from sciml_par.problems import Box, Interval, Problem


def residual(u, x):
    return u(x)


def test_default_names():
    assert Interval(0, 1).names == ("x",)
    assert Box([0, 0], [1, 1]).names == ("x", "y")
    assert Box([0] * 3, [1] * 3).names == ("x", "y", "z")
    assert Box([0] * 4, [1] * 4).names == ("x1", "x2", "x3", "x4")
    assert Problem(Interval(0, 1), residual).output_names == ("u",)
    assert Problem(Interval(0, 1), residual, outputs=2).output_names == ("u1", "u2")


def test_names_of_ones_own():
    box = Box([0, 0], [1, 2], names=["x", "t"])
    assert box.names == ("x", "t") and Interval(0, 1, name="r").names == ("r",)
    problem = Problem(box, residual, outputs=("u", "v", "p"))
    assert (problem.outputs, problem.output_names) == (3, ("u", "v", "p"))
    assert Problem(box, residual, outputs="T").output_names == ("T",)
    with pytest.raises(AttributeError):
        box.names = ("a", "b")


def test_names_do_not_change_what_a_domain_is():
    plain, named = Box([0, 0], [1, 2]), Box([0, 0], [1, 2], names=("x", "t"))
    assert plain == named and hash(plain) == hash(named)
    np.testing.assert_array_equal(plain.grid(20), named.grid(20))


@pytest.mark.parametrize(
    "domain", [Box([0, 0], [1, 2], names=("x", "t")), Interval(-1, 1, name="r"), Interval(0, 1)]
)
def test_names_are_kept(domain):
    assert eval(repr(domain), {"Box": Box, "Interval": Interval}).names == domain.names
    assert copy.deepcopy(domain).names == pickle.loads(pickle.dumps(domain)).names == domain.names
    assert [part.names for part in domain.split(2)] == [domain.names] * 2
    other = domain.with_bounds(domain.lower - 1, domain.upper + 1)
    assert type(other) is type(domain) and other.names == domain.names
    np.testing.assert_array_equal(other.extent, domain.extent + 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Box([0, 0], [1, 1], names=("x",)), r"must be 2, one for each axis, got \('x',\)"),
        (lambda: Box([0, 0], [1, 1], names="xt"), "must be 2"),
        (lambda: Box([0, 0], [1, 1], names=("x", "x")), "differ from one another"),
        (lambda: Box([0, 0], [1, 1], names=("x", "")), "non-empty texts"),
        (lambda: Interval(0, 1, name=3), "Interval: names .* non-empty texts"),
        (lambda: Problem(Interval(0, 1), residual, outputs=()), "at least one component"),
        (lambda: Problem(Interval(0, 1), residual, outputs=("u", "u")), "differ"),
        (lambda: Problem(Interval(0, 1), residual, outputs=0), "outputs, unless names, must be an"),
        (lambda: Problem(Interval(0, 1, name="u"), residual), "'u' is the name of an output and"),
    ],
)
def test_bad_names(make, message):
    with pytest.raises(InputError, match=message):
        make()

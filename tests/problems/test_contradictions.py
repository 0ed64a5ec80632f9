"""Conditions that differ where both hold are found, with the place."""

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.problems import Box, Dirichlet, Initial, Interval, Neumann, Periodic, Problem
from sciml_par.problems.conditions.contradictions import contradictions

ROD = Box([0, 0], [1, 2], names=("x", "t"))
ENDS = ("x=lower", "x=upper")
WARM = Initial(lambda x: np.sin(np.pi * x[:, 0]))


def found(*conditions, domain=ROD, outputs=1):
    problem = Problem(domain, lambda u, x: u(x), conditions=conditions, outputs=outputs)
    names = [term.name for term in problem.terms[1:]]
    return contradictions(problem.conditions, names, domain, problem.outputs)


@pytest.mark.parametrize(
    "conditions",
    [
        [Dirichlet(0.0, on=ENDS), WARM],
        [Dirichlet(0.0, on="x=lower"), Dirichlet(1.0, on="x=upper")],
        [Dirichlet(lambda x: x[:, 0] * x[:, 1]), Initial(0.0, velocity=lambda x: x[:, 0])],
        [Dirichlet(0.0), Neumann(1.0, on=ENDS)],
        [Dirichlet(0.0, on=ENDS), Initial(1.0, order=1)],
        [Dirichlet(0.0, where=lambda x: x[:, 1] > 0.5), Initial(3.0)],
        [Periodic("x"), Initial(1.0)],
        # As the end of a training before this one, which has an error.
        [Dirichlet(0.0, on=ENDS), Initial(lambda x: 10 * np.sin(np.pi * x[:, 0]) + 5e-3)],
    ],
)
def test_conditions_that_agree(conditions):
    assert found(*conditions) == []


@pytest.mark.parametrize(
    ("conditions", "place"),
    [
        ([Dirichlet(0.0), WARM], "x = 0.5, t = 0 (0 and 1)"),
        ([Dirichlet(1.0, on=ENDS), WARM], "t = 0 (1 and 0)"),
        ([Dirichlet(1.0, on="t=upper"), Dirichlet(0.0, on="x=lower")], "x = 0, t = 2 (1 and 0)"),
        ([Dirichlet(0.0, on=ENDS), Initial(lambda x: np.sin(np.pi * x[:, 0]) + 5e-3)], "0.005)"),
        ([Dirichlet(lambda x: tf.cos(x[:, :1])), Dirichlet(0.0)], "x = 0, t = "),
    ],
)
def test_conditions_that_contradict_one_another(conditions, place):
    (sentence,) = found(*conditions)
    assert "contradict one another at" in sentence and place in sentence


def test_components_are_compared_each_with_itself():
    apart = [Dirichlet(0.0, component="u"), Dirichlet(1.0, component="v")]
    assert found(*apart, outputs=("u", "v")) == []
    (sentence,) = found(apart[1], Dirichlet((0.0, 2.0)), outputs=("u", "v"))
    assert "component 1: 1 and 2" in sentence


def test_the_same_condition_twice():
    for pair in ([WARM, WARM], [Dirichlet(1.0), Dirichlet(1.0)], [Periodic("x"), Periodic(0)]):
        assert "is given twice" in found(*pair)[0]
    assert found(Dirichlet(0.0, points=[[0.0, 0.0]]), Dirichlet(0.0, points=[[1.0, 1.0]])) == []


def test_the_ends_of_an_interval():
    (sentence,) = found(Dirichlet(0.0), Dirichlet(1.0, on="x=upper"), domain=Interval(0, 1))
    assert "x = 1 (0 and 1)" in sentence

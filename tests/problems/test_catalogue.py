"""The exact solutions of the catalogue satisfy their problems."""

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.problems import (
    Box,
    Interval,
    function_approximation,
    poisson,
    two_sines,
)


def largest_residuals(problem, u, n=41):
    return [
        float(tf.reduce_max(tf.abs(t.residual(u, *(tf.constant(a) for a in t.points(n))))))
        for t in problem.terms
    ]


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("domain", [None, Interval(0, 1), Interval(-2, 3)])
def test_poisson(k, domain):
    problem = poisson(k=k, domain=domain)
    solution = lambda x: tf.sin(k * np.pi * x)  # noqa: E731
    interior, ends = largest_residuals(problem, solution)
    assert interior < 1e-9
    assert ends < 1e-13
    assert min(largest_residuals(problem, lambda x: 1.1 * solution(x) + 0.1)) > 0.09
    x = np.linspace(-1, 1, 9)[:, None]
    np.testing.assert_allclose(problem.exact(x), solution(x), atol=1e-14)


def test_the_loss_of_poisson_is_that_of_its_docstring():
    """For u = c the loss is mean f² + 2 c²."""
    problem = poisson(k=2)
    loss = 0.0
    for term in problem.terms:
        arrays = [tf.constant(a) for a in term.points(101)]
        squares = term.sum_of_squares(lambda x: 0.3 * tf.ones_like(x), *arrays)
        loss += term.weight * float(squares) / len(arrays[0])
    x = np.linspace(-1, 1, 101)
    f = (2 * np.pi) ** 2 * np.sin(2 * np.pi * x)
    np.testing.assert_allclose(loss, np.mean(f**2) + 0.3**2 + 0.3**2, rtol=1e-12)


@pytest.mark.parametrize("k", [0, -1, 1.5, 2.0, "2", True, None])
def test_poisson_needs_a_wave_number(k):
    with pytest.raises(InputError, match="k must be an integer of at least 1"):
        poisson(k=k)


def test_poisson_needs_ends_where_its_solution_vanishes():
    assert poisson(k=2, domain=Interval(0, 0.5)).domain == Interval(0, 0.5)
    with pytest.raises(InputError, match="does not vanish at the ends"):
        poisson(k=1, domain=Interval(0, 0.5))
    with pytest.raises(InputError, match="must be an Interval"):
        poisson(domain=Box([0, 0], [1, 1]))


def test_function_approximation():
    problem = function_approximation(
        lambda x: np.stack([x[:, 0], x[:, 1] ** 2], axis=1),
        domain=Box([0, 0], [1, 1]),
        outputs=2,
    )
    (misfit,) = largest_residuals(problem, lambda x: x ** tf.constant([1.0, 2.0], x.dtype))
    assert misfit == 0.0
    assert len(problem.terms) == 1
    with pytest.raises(InputError, match="exact solution"):
        function_approximation(np.sin, domain=Interval(0, 1), outputs=2)


def test_two_sines():
    problem = two_sines()
    assert problem.domain == Interval(-1, 1)
    np.testing.assert_allclose(problem.exact([[1 / 8], [0.25]]), [[1 + np.sqrt(0.5)], [1]])
    exact = lambda x: tf.sin(2 * np.pi * x) + tf.sin(4 * np.pi * x)  # noqa: E731
    assert max(largest_residuals(problem, exact)) < 1e-13
    assert two_sines(domain=Interval(0, 1)).domain == Interval(0, 1)

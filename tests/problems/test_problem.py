"""Problems: their terms, their loss, and the errors of wrong residuals."""

import math

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import (
    Box,
    Condition,
    Dirichlet,
    Field,
    Interval,
    Neumann,
    Problem,
    Residual,
    Robin,
    laplacian,
)

UNIT = Interval(0, 1)


def equation(u, x):
    return laplacian(u, x) - 2.0


def parabola(x):
    return x * (x - 1)


def test_terms_of_a_problem():
    problem = Problem(
        UNIT,
        [Residual(equation, weight=3.0, name="balance"), equation, equation],
        conditions=[Dirichlet(weight=2.0), Neumann(1.0), Dirichlet(0.0)],
        name="p",
    )
    names = [term.name for term in problem.terms]
    assert names == ["balance", "residual 1", "residual 2", "dirichlet 1", "neumann", "dirichlet 2"]
    assert [term.weight for term in problem.terms] == [3.0, 1.0, 1.0, 2.0, 1.0, 1.0]
    assert [len(term.points(11)[0]) for term in problem.terms] == [11, 11, 11, 2, 2, 2]


def test_functions_of_tensorflow_are_taken_as_those_of_python():
    """As a field is no tensor, `tf.function` could not call them."""
    there = Condition(tf.function(lambda u, x: u(x) - 1.0), on="right")
    problem = Problem(UNIT, tf.function(equation), conditions=[Dirichlet(on="left"), there])
    same = Condition(lambda u, x: u(x) - 1.0, on="right")
    of_python = Problem(UNIT, equation, conditions=[Dirichlet(on="left"), same])
    for one, other in zip(problem.terms, of_python.terms, strict=True):
        x = [tf.constant(a) for a in one.points(5)]
        u = Field(lambda x: x**3)
        np.testing.assert_array_equal(one.residual(u, *x), other.residual(u, *x))


def test_points_are_float64_with_one_row_per_point():
    data = Residual(lambda u, x, f: u(x) - f, data=lambda x: np.sin(x[:, 0]))
    problem = Problem(Box([0, 0], [1, 2]), data, conditions=[Neumann()])
    for term in problem.terms:
        arrays = term.points(50)
        assert all(a.dtype == np.float64 and len(a) == len(arrays[0]) for a in arrays)
    x, f = problem.terms[0].points((3, 4))
    assert x.shape == (12, 2)
    np.testing.assert_array_equal(f, np.sin(x[:, 0:1]))


def test_the_loss_by_hand():
    """u = x³: r = 6x − 2 inside, u(0) = 0 and u(1) = 1 at the ends."""
    problem = Problem(UNIT, equation, conditions=[Dirichlet(0.5)])
    interior, ends = problem.terms
    x = [tf.constant(a) for a in interior.points(5)]
    s = np.linspace(0, 1, 5)
    expected = np.sum((6 * s - 2) ** 2)
    np.testing.assert_allclose(np.sum(interior.residual(lambda x: x**3, *x) ** 2), expected)
    x = [tf.constant(a) for a in ends.points(5)]
    np.testing.assert_allclose(np.sum(ends.residual(lambda x: x**3, *x) ** 2), 0.5)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda u, x: None, "got None"),
        (lambda u, x: u(x)[:, 0], r"got shape \(8,\)"),
        (lambda u, x: tf.transpose(u(x)), r"got shape \(1, 8\)"),
        (lambda u, x: u(x)[1:], r"got shape \(7, 1\)"),
        (lambda u, x: tf.reduce_mean(u(x)), r"got shape \(\)"),
        (lambda u, x: u(x)[None], r"got shape \(1, 8, 1\)"),
        (lambda u, x: tf.cast(u(x), tf.int32), r"dtype float32, got .* and dtype int32.*tf.cast"),
        (lambda u, x: u(x) > 0, "and dtype bool"),
        (lambda u, x: tf.cast(u(x), tf.float64), "and dtype float64"),
        (lambda u, x: (u(x), u(x)), "a tuple;.* tf.concat"),
        (lambda u, x: {"mass": u(x), "heat": u(x)}, "a dict;.* several Residuals"),
        (lambda u, x: 0.0, "got a float"),
        (lambda u, x: np.zeros((8, 1)), "got a ndarray;.*with TensorFlow"),
        (lambda u, x: tf.sin(x), "never asks for u.*leave the term out"),
        (lambda u, x: u(x) - x[:, 0], r"every pair of points.*x\[:, i:i\+1\]"),
    ],
)
def test_what_is_wrong_with_a_residual_is_said(function, expected):
    problem = Problem(UNIT, function, name="trial")
    with pytest.raises(InputError, match=r"in term 'residual' of problem 'trial'") as caught:
        problem.check(MLP(1, 1), n=8)
    caught.match(expected)


def test_as_many_equations_as_points_is_no_error():
    problem = Problem(UNIT, lambda u, x: tf.concat([u(x), x, x], axis=1))
    problem.check(MLP(1, 1), n=3)


def test_data_of_ones_own_without_a_second_axis():
    data = np.zeros(50, "float32")
    with pytest.raises(InputError, match=r"has the shape \[n, 1\], not \[n\]"):
        Problem(UNIT, lambda u, x: u(x) - data).check(MLP(1, 1), n=50)


def test_a_wrong_residual_is_found_without_a_check():
    term = Problem(UNIT, lambda u, x: u(x)[:, 0]).terms[0]
    with pytest.raises(InputError, match="residual"):
        term.residual(MLP(1, 1), tf.zeros([4, 1]))


def test_an_exception_of_the_residual_goes_through_with_a_note():
    def broken(u, x):
        raise KeyError("viscosity")

    with pytest.raises(KeyError, match="viscosity") as caught:
        Problem(UNIT, broken, name="flow").check(MLP(1, 1))
    assert "in term 'residual' of problem 'flow'" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("residual", "advice"),
    [
        (lambda u, x: u(x) - np.sin(u(x)), r"tf.sin\(u\(x\)\) in place of np.sin\(u\(x\)\)"),
        (lambda u, x: u(x) - math.sin(x), r"tf.sin\(u\(x\)\) in place of .* or math.sin"),
        (lambda u, x: np.gradient(u(x), x), r"derivative\(u, x, 0\) in place of np.gradient"),
        (lambda u, x: np.concatenate([u(x), x], axis=1), "in place of np.concatenate"),
        (lambda u, x: u(x) - float(u(x)), "leave out float, np.array, .numpy"),
        (lambda u, x: u(x) - x.numpy(), "leave out float, np.array, .numpy"),
        (lambda u, x: u(x) if u(x) > 0 else 2.0, r"tf.where\(u\(x\) > 0, a, b\)"),
        (lambda u, x: max(u(x), 0.0), r"tf.maximum\(u\(x\), 0\) in place of max"),
        (lambda u, x: u(x) - sum(row for row in x), "for the first component"),
        (lambda u, x: np.zeros((len(x), 1)), "zeros are tf.zeros_like"),
        (lambda u, x: tf.sin(u), r"write u\(x\), as in tf.sin\(u\(x\)\)"),
        (lambda u, x: np.sin(u), r"write u\(x\), as in tf.sin\(u\(x\)\)"),
    ],
)
def test_numpy_and_python_on_a_tensor_get_a_sentence(residual, advice):
    """With the user's line, and no word of what TensorFlow does inside."""
    with pytest.raises(InputError, match=f"^[^{{}}]*{advice}") as caught:
        Problem(UNIT, residual).check(MLP(1, 1))
    words = str(caught.value)
    assert "symbolic" not in words.lower()
    assert "a Field" in words or "test_problem.py is: (lambda u, x:" in words


def test_errors_of_a_residual_come_with_advice():
    with pytest.raises(TypeError) as caught:  # in the order of DeepXDE
        Problem(UNIT, lambda x, u: u(x)).check(MLP(1, 1))
    for advice in ("residual(u, x)", "tf.sin, not np.sin", "tf.where(", "not over tensors"):
        assert advice in caught.value.__notes__[1]


def test_the_network_must_fit_the_problem():
    problem = Problem(UNIT, equation, outputs=1, name="scalar")
    with pytest.raises(InputError, match="field of 1 components"):
        problem.check(MLP(1, 2))
    model = MLP(2, 1)
    with pytest.raises(InputError, match=r"\[n, 2\]"):
        problem.check(lambda x: model.apply(list(model.trainable_variables), x))
    model = MLP(1, 1, dtype="float64")
    with pytest.raises(InputError, match="float64"):
        problem.check(lambda x: model.apply(list(model.trainable_variables), x))


def test_exact_solutions():
    problem = Problem(UNIT, equation, exact=lambda x: parabola(x[:, 0]))
    np.testing.assert_array_equal(problem.exact([[0.5], [1.0]]), [[-0.25], [0.0]])
    assert Problem(UNIT, equation).exact is None
    with pytest.raises(InputError, match=r"points must have the shape \[n, 1\]"):
        problem.exact([0.5])


@pytest.mark.parametrize(
    ("exact", "outputs"),
    [
        (lambda x: x, 2),
        (lambda x: x[:, 0], 2),
        (lambda x: x - x[:, 0], 1),
        (lambda x: 1 + np.sum(x), 1),
        (lambda x: x.T, 1),
    ],
)
def test_exact_solutions_of_another_shape(exact, outputs):
    with pytest.raises(InputError, match=rf"must have the shape \[5, {outputs}\]"):
        Problem(UNIT, equation, exact=exact, outputs=outputs, name="p")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"domain": (0, 1)}, "domain"),
        ({"residual": 3}, "residual"),
        ({"residual": []}, "at least one residual or condition"),
        ({"residual": [equation, None]}, "residual"),
        ({"conditions": [0.0]}, "must be Condition objects"),
        ({"outputs": 0}, "outputs"),
        ({"outputs": 1.5}, "outputs"),
        ({"exact": 3.0}, "exact"),
        ({"exact": lambda u, x: x}, r"exact solution .* a function of \(x\), got one of \(u, x\)"),
        ({"exact": lambda: 1.0}, r"must be a function of \(x\), got one of \(\)"),
        ({"residual": lambda u: u}, r"term 'residual' must be a function of \(u, x\), got one"),
        ({"residual": Residual(equation, data=np.sin)}, r"must be a function of \(u, x, f\)"),
    ],
)
def test_bad_arguments(arguments, message):
    everything = {"domain": UNIT, "residual": equation} | arguments
    with pytest.raises(InputError, match=message):
        Problem(everything.pop("domain"), everything.pop("residual"), **everything)


def test_bad_residuals():
    with pytest.raises(InputError, match="function must be callable"):
        Residual(None)
    with pytest.raises(InputError, match="data must be callable"):
        Residual(equation, data=3.0)
    with pytest.raises(InputError, match="weight"):
        Residual(equation, weight=-1)
    wrong = Residual(equation, data=lambda x: np.zeros((2, 1)))
    with pytest.raises(InputError, match=r"data of the residual must have the shape \[5, k\]"):
        wrong.points(UNIT, 5)


def weights(problem):
    return [term.weight for term in problem.terms]


def with_conditions(*conditions, kind=Problem, **more):
    residual = Residual(equation, weight=3.0)
    return kind(UNIT, residual, conditions=conditions, **more)


def test_conditions_without_a_weight_have_that_of_the_problem():
    problem = with_conditions(
        Dirichlet(), Neumann(weight=2.0), Robin(1.0, 1.0), Dirichlet(weight=1)
    )
    assert problem.condition_weight is None
    assert weights(problem) == [3.0, 1.0, 2.0, 1.0, 1.0]
    other = problem.with_condition_weight(100)
    assert (other.condition_weight, weights(other)) == (100.0, [3.0, 100.0, 2.0, 100.0, 1.0])
    assert weights(problem) == [3.0, 1.0, 2.0, 1.0, 1.0]
    assert weights(other.with_condition_weight(7)) == [3.0, 7.0, 2.0, 7.0, 1.0]
    assert [c.weight for c in other.conditions] == [None, 2.0, None, 1]
    assert [t.name for t in other.terms] == [t.name for t in problem.terms]


def test_another_weight_of_conditions_keeps_all_else():
    problem = with_conditions(
        Dirichlet(0.5), exact=parabola, ansatz=lambda N, x: x * N(x), input_scaling=True, name="p"
    )
    field = problem.field(MLP(1, 1, width=4, dtype="float64"))
    ends = problem.terms[1]
    arrays = [tf.constant(a) for a in ends.points(2)]
    before = ends.residual(field, *arrays)
    other = problem.with_condition_weight(4)
    assert (other.name, other.ansatz, other.domain) == ("p", problem.ansatz, UNIT)
    assert other.input_scaling and other.exact_function is parabola
    np.testing.assert_array_equal(other.terms[1].residual(field, *arrays), before)


def test_plans_are_recorded_once_for_all_weights():
    runs = []

    def counted(u, x):
        runs.append(1)
        return laplacian(u, x)

    model = MLP(1, 1, width=3)
    problem = Problem(UNIT, counted, conditions=[Dirichlet()])
    parameters = model.trainable_variables
    u = problem.field(model, jet=lambda x, second: model.jet(parameters, x, second))
    x = tf.constant([[0.25]])
    problem.terms[0].residual(u, x)
    recorded = len(runs)
    problem.with_condition_weight(9).terms[0].residual(u, x)
    assert recorded > 1 and len(runs) == recorded + 1  # the residual itself, and no plan


class Own(Problem):
    """Whose constructor takes other arguments, and which holds more."""

    def __init__(self, slope):
        self.slope = slope
        super().__init__(UNIT, equation, conditions=[Neumann(slope)])


def test_a_problem_of_a_class_of_ones_own_stays_one():
    other = Own(2.0).with_condition_weight(5)
    assert type(other) is Own and other.slope == 2.0
    assert weights(other) == [1.0, 5.0]


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf"), "100", None, True])
def test_weights_of_conditions_that_are_refused(weight):
    with pytest.raises(InputError, match="with_condition_weight: weight must"):
        with_conditions(Dirichlet()).with_condition_weight(weight)

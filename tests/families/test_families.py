"""Families: `learn` once, then queries with their errors, on every number of ranks."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sciml_par as sp
from sciml_par.errors import InputError, ResultWarning
from sciml_par.families import Answer, Operator, learn
from sciml_par.parallel import current_world
from sciml_par.problems import (
    Condition,
    Dirichlet,
    Initial,
    Interval,
    Observations,
    Problem,
    Smooth,
    Time,
    Unknown,
    UnknownFunction,
    derivative,
    integral_to,
    laplacian,
)

LINE = Interval(0, 1)


def screened(u: Any, x: Any, *, k: Any) -> Any:
    return laplacian(u, x) - k**2 * u(x) + 1.0


def exact(x: Any, k: Any) -> Any:
    """u″ − k² u + 1 = 0, u(0) = u(1) = 0."""
    return (1 - np.cosh(k * (x - 0.5)) / np.cosh(k / 2)) / k**2


def one_number(equation: Any = screened, lower: float = 0.5, upper: float = 8.0) -> Problem:
    unknowns = {"k": Unknown((lower + upper) / 2, lower=lower, upper=upper)}
    return Problem(LINE, equation, conditions=[Dirichlet(0.0)], unknowns=unknowns)


def of_function() -> Problem:
    """u″ = c u − f(x), whose f is drawn."""
    return Problem(
        LINE,
        lambda u, x, *, c, f: laplacian(u, x) - c * u(x) + f(x),
        conditions=[Dirichlet(0.0)],
        unknowns={
            "c": Unknown(1.0, lower=0.1, upper=4.0),
            "f": UnknownFunction(0.0, prior=Smooth(length=0.8, amplitude=1.0)),
        },
    )


@pytest.fixture(scope="module")
def operator() -> Operator:
    return learn(one_number(), tolerance=1e-6, progress=False)


@pytest.fixture(scope="module")
def with_function() -> Operator:
    return learn(of_function(), tolerance=1e-4, progress=False)


X = np.linspace(0, 1, 41)[:, None]


def relative(found: Any, true: Any) -> float:
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))


def test_queries_are_answered_with_true_errors(operator: Operator) -> None:
    k = np.linspace(0.6, 7.9, 50)
    answers = operator(k=k)
    u = answers.predict(X)
    true = np.array([relative(u[i], exact(X, k[i])) for i in range(len(k))])
    assert u.shape == (50, 41, 1) and true.max() < 1e-6
    known = np.isfinite(answers.relative)
    assert known.any()
    assert (true[known] <= 3 * answers.relative[known] + 1e-14).all()


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
def test_a_query_alone_is_the_one_among_many(operator: Operator) -> None:
    alone, among = operator(k=3.0), operator(k=[1.0, 3.0])[1]
    assert isinstance(alone, Answer) and alone.level == 1
    np.testing.assert_allclose(alone(X), among(X), rtol=0, atol=1e-12)
    np.testing.assert_allclose(alone(X), exact(X, 3.0), rtol=0, atol=1e-8)


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
def test_a_quantity_has_its_error(operator: Operator) -> None:
    slope = operator(k=2.0).evaluate(lambda u, x: derivative(u, x, 0), [0.0])
    true = np.tanh(1.0) / 2.0
    error = abs(slope.mean[0, 0] - true)
    assert error <= 3 * slope.error[0, 0] + 1e-12 < 1e-6


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
def test_derivatives_by_inputs_are_those_of_the_solution(
    operator: Operator, with_function: Operator
) -> None:
    k, h = 3.0, 1e-6
    true = (exact(X, k + h) - exact(X, k - h)) / (2 * h)
    assert relative(operator.gradient(X, k=k)["k"], true) < 1e-4
    f = np.cos(with_function.nodes("f")[:, 0])
    by = with_function.gradient(X, c=1.0, f=f)
    changed, before = (with_function(c=1.0, f=f + s * np.eye(len(f))[2])(X) for s in (0.05, -0.05))
    assert by["c"].shape == X.shape and by["f"].shape == (*X.shape, len(f))
    assert relative(by["f"][..., 2], (changed - before) / 0.1) < 1e-6
    with pytest.raises(InputError, match="one query"):
        operator.gradient(X, k=[1.0, 2.0])
    with pytest.raises(InputError, match="outside of the range"):
        operator.gradient(X, k=50.0)
    with pytest.raises(AttributeError, match="what predicts is"):
        operator.predict(X)


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
@pytest.mark.parametrize("tolerance", [1e-5, 1e-9, 1e-12])
def test_an_answer_climbs_until_it_meets_its_tolerance(
    operator: Operator, tolerance: float
) -> None:
    answer = operator(k=5.0, tolerance=tolerance)
    assert answer.error.relative <= tolerance
    assert relative(answer(X), exact(X, 5.0)) <= 3 * tolerance


def test_a_query_outside_is_solved_and_not_extrapolated(operator: Operator) -> None:
    with pytest.warns(ResultWarning, match="k is outside of the range"):
        answer = operator(k=20.0)
    assert answer.level == 3 and relative(answer(X), exact(X, 20.0)) < 1e-6


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
def test_a_nonlinear_family_with_a_condition_that_takes_its_input() -> None:
    """u = 1 / (1 + k x) solves u″ = 2 k² u³."""
    problem = Problem(
        LINE,
        lambda u, x, *, k: laplacian(u, x) - 2 * k**2 * u(x) ** 3,
        conditions=[
            Dirichlet(1.0, on="left"),
            Condition(lambda u, x, *, k: u(x) - 1 / (1 + k), on="right"),
        ],
        unknowns={"k": Unknown(1.0, lower=0.5, upper=2.0)},
    )
    answer = learn(problem, tolerance=1e-4, progress=False)(k=1.7)
    assert relative(answer(X), 1 / (1 + 1.7 * X)) < 1e-4


def with_memory(u: Any, x: Any, *, k: Any) -> Any:
    return laplacian(u, x) + 3 * integral_to(u, x, 0) - k * (1 - tf.cos(3 * x) - 9 * tf.sin(3 * x))


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
def test_an_equation_that_asks_elsewhere_and_by_its_own_tape() -> None:
    """u = k sin 3x."""

    def equation(u: Any, x: Any, *, k: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            first = derivative(u, x, 0)
        second = tape.gradient(first, x)
        source = 9 * tf.sin(3 * x) - tf.sin(1.5 * x) - 1 + tf.cos(3 * x)
        return second + u(x / 2) + 3 * integral_to(u, x, 0) + k * source

    sides = [Dirichlet(0.0, on="left")]
    sides += [Condition(lambda u, x, *, k: u(x) - k * np.sin(3.0), on="right")]
    unknowns = {"k": Unknown(1.0, lower=0.5, upper=2.0)}
    problem = Problem(LINE, equation, conditions=sides, unknowns=unknowns)
    answer = learn(problem, tolerance=1e-4, progress=False)(k=1.7)
    assert relative(answer(X), 1.7 * np.sin(3 * X)) < 1e-6 and answer.error.known


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
def test_an_equation_that_is_not_finite_for_every_u() -> None:
    """√(u + 0.1), for u = k x (1 − x)."""

    def equation(u: Any, x: Any, *, k: Any) -> Any:
        known = k * x * (1 - x)
        return laplacian(u, x) + tf.sqrt(u(x) + 0.1) + 2 * k - tf.sqrt(known + 0.1)

    answer = learn(one_number(equation, 0.5, 2.0), tolerance=1e-4, progress=False)(k=1.2)
    assert relative(answer(X), 1.2 * X * (1 - X)) < 1e-4


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
@pytest.mark.parametrize("term", [lambda u, x: 40 * x * u, lambda u, x: 1e4 * u**3])
def test_a_term_that_no_drawn_query_has_is_not_left_out(term: Any) -> None:
    """Above the queries that `learn` draws, u″ = k² u − 1 gains a term, linear or not."""

    def equation(u: Any, x: Any, *, k: Any) -> Any:
        return screened(u, x, k=k) - tf.where(k > 4.99999, term(u(x), x), 0.0)

    answer = learn(one_number(equation, 1.0, 5.0), tolerance=1e-6, progress=False)(k=5.0)
    solved = sp.solve(
        Problem(LINE, lambda u, x: equation(u, x, k=5.0), conditions=[Dirichlet(0.0)])
    )
    true = relative(answer(X), solved.predict(X).mean)
    assert true > 0.05, "the basis has functions for such queries; choose another one"
    assert not answer.error.relative < true / 3


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
def test_a_function_is_an_input(with_function: Operator) -> None:
    c, frequency = 2.0, 3.0
    answer = with_function(c=c, f=lambda x: tf.sin(frequency * x))
    root = np.sqrt(c)
    true = np.sin(frequency * X) - np.sin(frequency) * np.sinh(root * X) / np.sinh(root)
    error = relative(answer(X), true / (frequency**2 + c))
    assert error < 1e-2
    assert not answer.error.known or error <= 3 * answer.error.relative
    nodes = with_function.nodes("f")
    same = with_function(c=c, f=np.sin(frequency * nodes[:, 0]))
    np.testing.assert_allclose(same(X), answer(X), rtol=0, atol=1e-12)


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
def test_no_level_is_climbed_where_only_nodes_are_too_few(with_function: Operator) -> None:
    with pytest.warns(ResultWarning, match="differs from what its values at nodes tell"):
        answer = with_function(c=1.0, f=lambda x: tf.sin(3.0 * x), tolerance=1e-13)
    assert answer.level == 1 and answer.error.relative > 1e-13


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
def test_what_nodes_do_not_tell_of_a_function_is_a_part_of_the_error(
    with_function: Operator,
) -> None:
    """It is between them, for a query alone and for each among many."""

    def fine(x: Any) -> Any:
        return 1.0 + tf.sin(120.0 * x)

    f = [lambda x: 1.0 + 0.0 * x, fine]
    smooth, rough = with_function(c=1.0, f=f)
    alone = with_function(c=1.0, f=fine)
    assert smooth.error.relative < 1e-3
    for answer in (rough, alone):
        assert not answer.error.known or answer.error.relative > 0.1


def test_drawn_queries_are_alike_on_every_rank(with_function: Operator) -> None:
    many = with_function.draw(5, seed=3)
    u = with_function(**many).predict(X)
    everyone = current_world().communicator.allgather_object(u)
    assert all(np.array_equal(u, other) for other in everyone)


@pytest.mark.ranks(most=1, reason="files are the same on any number of ranks")
def test_what_is_saved_answers_alike(
    operator: Operator, with_function: Operator, tmp_path: Path
) -> None:
    for made, problem in ((operator, one_number()), (with_function, of_function())):
        folder = tmp_path / made.inputs[-1]
        made.save(folder)
        again = Operator.load(folder, problem=problem)
        many = made.draw(4, seed=1)
        first, second = made(**many), again(**many)
        np.testing.assert_allclose(first.predict(X), second.predict(X), rtol=0, atol=1e-13)
        assert repr(again) == repr(made)
    with pytest.raises(InputError, match="overwrite=True"):
        operator.save(tmp_path / "k")
    operator.save(tmp_path / "k", overwrite=True)
    other = one_number(lambda u, x, *, k: laplacian(u, x) - k * u(x) + 1.0)
    with pytest.raises(InputError, match="of another problem"):
        Operator.load(tmp_path / "k", problem=other)
    with pytest.raises(InputError, match="expected a path"):
        operator.save("")
    with pytest.raises(InputError, match="no operator in"):
        Operator.load(tmp_path / "nothing", problem=one_number())


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "expected the inputs k; got none"),
        ({"D": 1.0}, "expected the inputs k; got D"),
        ({"k": np.nan}, "k must be finite"),
        ({"k": "two"}, "k must be finite|k to be a number"),
        ({"k": np.ones((2, 2))}, "k to be a number"),
        ({"k": []}, "at least one query"),
        ({"k": 2.0, "tolerance": 0.0}, "tolerance must be a number > 0"),
    ],
)
def test_a_query_that_is_none_is_refused(
    operator: Operator, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        operator(**given)


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
@pytest.mark.parametrize(
    ("f", "said"),
    [
        (np.ones(7), "its values at the .* nodes"),
        (lambda x: x * np.nan, "finite everywhere"),
        (lambda x: tf.concat([x, x], axis=1), "the function f"),
    ],
)
def test_a_function_that_is_none_is_refused(with_function: Operator, f: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        with_function(c=1.0, f=f)


@pytest.mark.parametrize(
    ("unknowns", "said"),
    [
        (None, "the problem has no parameters"),
        ({"k": Unknown(2.0, lower=0.5)}, "'k' has no range"),
        ({"k": UnknownFunction(2.0)}, "'k' has no prior"),
    ],
)
def test_a_problem_that_is_no_family_is_refused(unknowns: Any, said: str) -> None:
    def equation(u: Any, x: Any, *, k: Any = 1.0) -> Any:
        factor = k(x) if callable(k) else k
        return laplacian(u, x) - factor * u(x) + 1.0

    problem = Problem(LINE, equation, conditions=[Dirichlet(0.0)], unknowns=unknowns)
    with pytest.raises(InputError, match=said):
        learn(problem, progress=False)


@pytest.mark.ranks(least=2, reason="of one rank there is no other")
def test_ranks_with_other_tolerances_are_refused() -> None:
    communicator = current_world().communicator
    with pytest.raises(InputError, match="the same arguments on every rank"):
        learn(one_number(), tolerance=1e-5 * (1 + communicator.rank), progress=False)


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
def test_the_known_problem_is_solved_alone() -> None:
    problem = one_number().with_values({"k": 3.0})
    assert not problem.unknowns and len(problem.terms) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = sp.solve(problem, tolerance=1e-9, progress=False)
    assert relative(result.predict(X).mean, exact(X, 3.0)) < 1e-9
    with pytest.raises(InputError, match="has the unknowns k; got values of none"):
        one_number().with_values({})


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
def test_a_fit_finds_the_input_within_its_interval(operator: Operator) -> None:
    rng, inside = np.random.default_rng(0), 0
    x = np.linspace(0.05, 0.95, 25)[:, None]
    for k in rng.uniform(1.0, 7.0, 20):
        u = exact(x, k)
        noise = 0.01 * np.abs(u).max()
        found = operator.fit(Observations(x, u + noise * rng.normal(size=u.shape), noise=noise))
        low, high = found.intervals(0.95)["k"]
        inside += low <= k <= high
        assert abs(found.values["k"] - k) < 5 * found.deviations["k"]
    assert inside >= 16


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
def test_solutions_that_are_polynomials_have_an_error_at_rounding() -> None:
    problem = one_number(lambda u, x, *, k: laplacian(u, x) + k)
    answer = learn(problem, progress=False)(k=3.0)
    assert relative(answer(X), 1.5 * X * (1 - X)) <= answer.error.relative < 1e-10


@pytest.mark.ranks(least=2, reason="of one rank there is no other")
def test_ranks_with_other_problems_are_refused() -> None:
    communicator = current_world().communicator
    factor = 1.0 + communicator.rank
    problem = one_number(lambda u, x, *, k: laplacian(u, x) - factor * k * u(x) + 1.0)
    with pytest.raises(InputError, match="the ranks differ in"):
        learn(problem, progress=False)


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
def test_inputs_that_data_do_not_determine_have_no_narrow_interval() -> None:
    """u ∝ q / (π² + k²) tells k and q together alone."""
    problem = Problem(
        LINE,
        lambda u, x, *, k, q: laplacian(u, x) - k**2 * u(x) + q * tf.sin(np.pi * x),
        conditions=[Dirichlet(0.0)],
        unknowns={
            "k": Unknown(2.0, lower=0.5, upper=8.0),
            "q": Unknown(10.0, lower=1.0, upper=100.0),
        },
    )
    operator = learn(problem, tolerance=1e-6, progress=False)
    x = np.linspace(0.05, 0.95, 20)[:, None]
    u = 20.0 * np.sin(np.pi * x) / (np.pi**2 + 9.0)
    low, high = operator.fit(Observations(x, u, noise=0.01)).intervals(0.95)["q"]
    assert low < 12.0 and high > 40.0


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
def test_noise_that_is_not_given_is_estimated(operator: Operator) -> None:
    rng, x = np.random.default_rng(1), np.linspace(0.02, 0.98, 40)[:, None]
    u = exact(x, 3.0)
    noisy = u + 1e-3 * rng.normal(size=u.shape)
    known = operator.fit(Observations(x, noisy, noise=1e-3))
    estimated = operator.fit(Observations(x, noisy))
    assert estimated.values["k"] == pytest.approx(known.values["k"], abs=1e-6)
    assert estimated.deviations["k"] == pytest.approx(known.deviations["k"], rel=0.3)


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
def test_a_function_is_fitted_with_its_prior(with_function: Operator) -> None:
    many = with_function.draw(1, seed=5)
    one = {name: values[0] for name, values in many.items()}
    x = np.linspace(0.02, 0.98, 60)[:, None]
    u = with_function(**one)(x)
    noise = 1e-3 * np.abs(u).max()
    noisy = u + noise * np.random.default_rng(2).normal(size=u.shape)
    found = with_function.fit(Observations(x, noisy, noise=noise))
    assert found.chi_squared < 2 * len(x)
    assert relative(found.answer(x), u) < 5e-3


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
def test_a_cost_is_minimized(operator: Operator) -> None:
    best = operator.minimize(lambda u: float((u([0.5]).item() - exact(0.5, 4.0)) ** 2) * 1e4)
    assert best.parameters["k"] == pytest.approx(4.0, rel=1e-3)


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
def test_observations_belong_to_the_fit_and_have_known_noise(operator: Operator) -> None:
    measured = Observations([[0.5]], [0.1], noise="unknown")
    with pytest.raises(InputError, match="known deviations"):
        operator.fit(measured)
    problem = Problem(
        LINE,
        screened,
        conditions=[Dirichlet(0.0), Observations([[0.5]], [0.1])],
        unknowns={"k": Unknown(2.0, lower=0.5, upper=8.0)},
    )
    with pytest.raises(InputError, match=r"operator\.fit"):
        learn(problem, progress=False)


def of_rows(u: Any, x: Any, *, k: Any) -> Any:
    return laplacian(u, x) - tf.reduce_mean(k) * u(x) + 1.0


def of_integral(u: Any, x: Any, *, k: Any) -> Any:
    return laplacian(u, x) - k * tf.reduce_mean(u(x)) + 1.0


def of_shape(u: Any, x: Any, *, k: Any) -> Any:
    return laplacian(u, x) - tf.reshape(k, []) * u(x) + 1.0


@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
@pytest.mark.parametrize(
    ("equation", "said"),
    [(of_integral, "couples points"), (of_rows, "a row for each"), (of_shape, "a row for each")],
)
def test_an_equation_that_is_not_pointwise_is_refused(equation: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        learn(one_number(equation), progress=False)


def test_a_rough_solution_is_answered_as_well_as_polynomials_have_it() -> None:
    """At the corners u = 0 and u_t = f differ; the sum of squares of residuals is theirs alone."""
    prior = Smooth(length=0.3, amplitude=1.0)
    problem = Problem(
        LINE * Time(0, 1),
        lambda u, x, *, f: derivative(u, x, "t") - 0.01 * derivative(u, x, "x", "x") - f(x),
        conditions=[Initial(0.0), Dirichlet(0.0, on=["left", "right"])],
        unknowns={"f": UnknownFunction(0.0, of="x", prior=prior)},
    )
    operator = learn(problem, tolerance=2e-2, progress=False)
    drawn = operator.draw(8, seed=1)
    x, n = problem.domain.sample(500, seed=1), np.arange(1, 300) * np.pi
    z = (np.arange(2000)[:, None] + 0.5) / 2000
    modes = (1 - np.exp(-0.01 * n**2 * x[:, 1:])) / (0.01 * n**2) * np.sin(n * x[:, :1])
    answers = operator(**drawn)
    u = answers.predict(x)[..., 0]
    errors = [
        relative(found, modes @ (np.sin(z * n).T @ np.asarray(f(z))[:, 0] / 1000))
        for f, found in zip(drawn["f"], u, strict=True)
    ]
    assert max(errors) < 6e-3
    ratio = answers.relative / errors
    assert np.isfinite(ratio).sum() >= 4
    assert np.nanmin(ratio) > 0.5 and np.nanmax(ratio) < 2


def test_components_count_alike_in_any_units() -> None:
    """T and c, of the sizes 1e5 and 1, are both answered to the tolerance."""
    unit = 1e5
    problem = Problem(
        LINE,
        [
            lambda u, x, *, k: laplacian(u["T"], x) + k * unit * np.pi**2 * tf.sin(np.pi * x),
            lambda u, x, *, k: laplacian(u["c"], x) - k * np.pi**2 * (u["c"](x) - u["T"](x) / unit),
        ],
        outputs=("T", "c"),
        conditions=[Dirichlet(0.0, component="T"), Dirichlet(0.0, component="c")],
        unknowns={"k": Unknown(2.0, lower=1, upper=9)},
    )
    operator = learn(problem, tolerance=1e-5, progress=False)
    answer = operator(k=5.0)
    u, wave = answer.predict(X).mean, np.sin(np.pi * X[:, 0])
    errors = relative(u[:, 0], 5 * unit * wave), relative(u[:, 1], 25 / 6 * wave)
    assert max(errors) < 1e-5 and answer.error.relative < 1e-5
    assert answer.error.absolute[0] > 1e3 * answer.error.absolute[1]


def test_a_resonance_in_the_middle_of_the_family() -> None:
    problem = one_number(
        lambda u, x, *, k: laplacian(u, x) + k**2 * u(x) + 1.0, 1.0, 2 * np.pi - 1.0
    )
    operator = learn(problem, tolerance=1e-6, progress=False)
    k = np.array([1.5, np.pi + 1e-2, 4.0])
    answers = operator(k=k)
    errors = [
        relative(u, exact(X, 1j * each).real) for u, each in zip(answers.predict(X), k, strict=True)
    ]
    assert max(errors) < 1e-6
    assert np.min(answers.relative / errors) > 0.5 and np.max(answers.relative / errors) < 2


@pytest.mark.ranks(most=1, reason="one rank warns for all")
def test_a_family_that_is_too_rough_warns() -> None:
    def equation(u: Any, x: Any, *, k: Any) -> Any:
        return laplacian(u, x) + tf.exp(-((x - k) ** 2) / 1e-5)

    with pytest.warns(ResultWarning, match="unseen queries are known to meet"):
        operator = learn(one_number(equation, 0.2, 0.8), tolerance=1e-6, progress=False)
    answer = operator(k=0.5)
    assert not answer.error.known or answer.error.relative > 1e-6

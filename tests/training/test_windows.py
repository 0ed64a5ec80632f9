"""Networks in windows: what they are, and that least squares finds their weights by sparsity."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from _programs import problem_named

from sciml_par.errors import InputError, ResultWarning
from sciml_par.networks import MLP, ModifiedMLP, RandomFeatures, Windows
from sciml_par.problems import (
    Ball,
    Box,
    Condition,
    Dirichlet,
    IntegralCondition,
    Interval,
    Neumann,
    Observations,
    Periodic,
    Problem,
    Residual,
    Unknown,
    derivative,
    laplacian,
)
from sciml_par.results import Result
from sciml_par.training import Adam, LeastSquares, LevenbergMarquardt, Points, ReLoBRaLo, train

pytestmark = [
    pytest.mark.beside,
    pytest.mark.ranks(most=1, reason="the same on any number of ranks"),
]


def solution(x: Any) -> Any:
    return np.sin(np.pi * x[:, :1]) * np.cos(np.pi * x[:, 1:]) + x[:, :1]


def source(x: Any) -> Any:
    return 2 * np.pi**2 * np.sin(np.pi * x[:, :1]) * np.cos(np.pi * x[:, 1:])


def poisson(domain: Any = None, *conditions: Any) -> Problem:
    return Problem(
        domain or Box([0, 0], [2, 1]),
        Residual(lambda u, x, f: -laplacian(u, x) - f, data=source),
        conditions=[Dirichlet(solution), *conditions],
        exact=solution,
    )


def windows(features: int = 80, parts: Any = (3, 2), scale: float = 6.0) -> Windows:
    return Windows(partial(RandomFeatures, features=features, scale=scale), parts=parts)


def trained(problem: Problem, **options: Any) -> Result:
    given: dict[str, Any] = {"network": windows(), "optimizer": LeastSquares(), "points": 1600}
    given |= {"precision": "float64", "progress": False, "estimate": False} | options
    return train(problem, **given)


def error_of(result: Result) -> float:
    return float(result.members[0].on_own_domain.relative_l2_error)


@pytest.mark.ranks(most=3, reason="three ranks have strips of all kinds")
def test_split_windows_solve_as_exactly_on_any_number_of_ranks() -> None:
    split = windows(100).split(2, 3, 6).enrich(0, 7)
    assert error_of(trained(poisson(), network=split, points=6000)) < 1e-9


def test_a_part_with_more_features_resolves_a_peak() -> None:
    """The two windows that meet in it decide, and the others keep few features."""

    def peak(x: Any) -> Any:
        return np.exp(-150 * (x - 0.5) ** 2)

    def curvature(x: Any) -> Any:
        return (300**2 * (x - 0.5) ** 2 - 300) * peak(x)

    equation = Residual(lambda u, x, f: laplacian(u, x) - f, data=curvature)
    problem = Problem(Interval(0, 1), equation, conditions=[Dirichlet(0.0)], exact=peak)
    few = windows(16, 4)
    poor, rich = (
        trained(problem, network=network, points=800) for network in (few, few.enrich(1, 2, 1, 2))
    )
    assert error_of(rich) < 0.1 * error_of(poor)


@pytest.mark.ranks(most=3, reason="three ranks have separators on both sides")
def test_strips_of_ranks_between_two_separators() -> None:
    problem = poisson(Box([0, 0], [4, 1]))
    assert error_of(trained(problem, network=windows(100, (7, 1)), points=3000)) < 1e-9


def test_a_nonlinear_equation_with_an_unknown_and_observations() -> None:
    places = np.linspace(0.05, 0.95, 15)[:, None]
    true = 0.7

    def balance(u: Any, x: Any, f: Any, *, a: Any) -> Any:
        return -laplacian(u, x) + a * u(x) ** 3 - f

    def force(x: Any) -> Any:
        return np.pi**2 * np.sin(np.pi * x) + true * np.sin(np.pi * x) ** 3

    problem = Problem(
        Interval(0, 1),
        Residual(balance, data=force),
        conditions=[Dirichlet(0.0), Observations(places, np.sin(np.pi * places))],
        unknowns={"a": Unknown(0.1)},
        exact=lambda x: np.sin(np.pi * x),
    )
    result = trained(problem, network=windows(20, 4), points=400)
    assert error_of(result) < 1e-7
    assert result.unknowns["a"].mean == pytest.approx(true, abs=1e-5)


def test_two_components_and_a_condition_at_pairs_of_points() -> None:
    """u′ = v, v′ = −u on a period, of which Periodic leaves the phase to a Dirichlet value."""

    def oscillator(w: Any, t: Any) -> Any:
        u, v = w["u"], w["v"]
        return tf.concat([derivative(u, t, 0) - v(t), derivative(v, t, 0) + u(t)], axis=1)

    problem = Problem(
        Interval(0, 2 * np.pi, name="t"),
        oscillator,
        conditions=[
            Periodic("t"),
            Dirichlet(0.0, component="u", on="t=lower"),
            Dirichlet(1.0, component="v", on="t=lower"),
        ],
        outputs=("u", "v"),
        exact=lambda t: np.concatenate([np.sin(t), np.cos(t)], axis=1),
    )
    assert error_of(trained(problem, network=windows(20, 4), points=300)) < 1e-8


@pytest.mark.long
def test_the_error_is_estimated_by_richer_windows() -> None:
    """Also where one of them has more features than the others."""
    few = windows(40, (2, 1)).enrich(1)
    result = trained(poisson(), network=few, points=400, estimate=True)
    assert result.error.known
    assert result.error.relative == pytest.approx(error_of(result), rel=0.1)
    found = result.error.by_window
    assert found is not None and found.residual.sum() == pytest.approx(1.0)
    # The windows are of one size.
    assert np.sqrt(np.mean(found.error**2)) == pytest.approx(result.error.relative, rel=0.2)


def test_an_error_is_not_claimed_where_a_constant_is_free() -> None:
    problem = Problem(
        Interval(0, 1),
        Residual(lambda u, x, f: -laplacian(u, x) - f, data=lambda x: np.pi**2 * np.cos(np.pi * x)),
        conditions=[Neumann(0.0)],
    )
    result = trained(problem, network=windows(12, 2), points=100, estimate=True)
    assert not result.error.known and "do not determine the solution" in result.error.reason


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"points": Points(600, method="uniform", resample_every=2)}, "resample_every"),
        ({"points": Points(600, batch_size=50)}, "batch_size"),
        ({"weights": ReLoBRaLo()}, "constant weights"),
    ],
)
def test_what_changes_from_step_to_step_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        trained(poisson(), **options)


def test_windows_outside_of_the_domain_do_not_matter_and_empty_ones_are_refused() -> None:
    disc = poisson(Ball([0.0, 0.0], 1.0))
    assert error_of(trained(disc, network=windows(60, (5, 5), 4.0), points=4000)) < 1e-7
    with pytest.raises(InputError, match=r"no point lies in window \(\d+, \d+\)"):
        trained(poisson(), network=windows(60, (20, 20)), points=100)


@pytest.mark.long
def test_other_optimizers_train_windows() -> None:
    options = {"network": windows(15, (2, 1)), "points": 400, "grow": False}
    dense = trained(poisson(), optimizer=LevenbergMarquardt(), steps=60, **options)
    assert error_of(dense) == pytest.approx(error_of(trained(poisson(), **options)), rel=0.1)
    adam = trained(poisson(), optimizer=Adam(1e-2), steps=100, **options).members[0]
    assert adam.loss < 0.5 * adam.losses[0]


@pytest.mark.parametrize("splits", [(), (0, 1, 5, 5, 2)])
def test_the_weights_of_windows_add_up_to_one_everywhere(splits: Any) -> None:
    of = Windows(partial(MLP, width=3), parts=(3, 1), overlap=0.4, splits=splits)
    model = of(2, 1, box=([0, 0], [3, 1]))
    for variable in model.trainable_variables:
        variable.assign(np.zeros(variable.shape))
    model.linear_variables[1].assign(np.ones((3 + 3 * len(splits), 1)))
    x = np.random.default_rng(0).uniform(-1, 4, (1000, 2))
    np.testing.assert_allclose(model(x), 1.0, rtol=1e-14)


def test_parts_of_equal_size_have_the_windows_of_a_grid() -> None:
    """Half of a part on a coarse grid is a part of the fine one, and all derivatives agree."""
    coarse = windows(parts=(2, 1)).split(0, 1)(2, 1)
    fine = windows(parts=(4, 2))(2, 1)
    x = tf.constant(np.random.default_rng(0).uniform(-1.2, 1.2, (50, 2)))
    order = [
        int(np.argmin(np.abs(fine.partition.boxes()[0] - low).sum(axis=1)))
        for low in coarse.partition.boxes()[0]
    ]
    values = [np.random.default_rng(1).normal(size=v.shape) for v in fine.variables]
    for model, numbers in ((fine, np.arange(8)), (coarse, order)):
        for variable, value in zip(model.variables, values, strict=True):
            variable.assign(value[numbers])
    found = [
        model.jet([v.value for v in model.trainable_variables], x, np.eye(2)[None])
        for model in (fine, coarse)
    ]
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.abs(a).max())


@pytest.mark.parametrize(("points", "splits"), [(30, ()), (5000, ()), (30, (1, 4, 6))])
def test_derivatives_are_those_of_tapes(points: int, splits: Any) -> None:
    """Many points are computed in parts."""
    inner = partial(RandomFeatures, features=300, scale=5.0)
    model = Windows(inner, parts=(3, 2), splits=splits)(2, 2)
    rng = np.random.default_rng(0)
    kernel, bias = model.linear_variables
    kernel.assign(rng.normal(size=kernel.shape))
    bias.assign(rng.normal(size=bias.shape))
    parameters = [v.value for v in model.trainable_variables]
    x = tf.constant(rng.uniform(-1.2, 1.2, (points, 2)))
    second = np.array([np.eye(2), [[0.0, 0.5], [0.5, 0.0]]])
    u, du, operators = model.jet(parameters, x, second)
    few = x[:30]
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(few)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(few)
            values = model.apply(parameters, few)
            parts = [tf.reduce_sum(values[:, j]) for j in range(2)]
        slopes = [tape.gradient(part, few) for part in parts]
        sums = [[tf.reduce_sum(slope[:, i]) for i in range(2)] for slope in slopes]
    np.testing.assert_allclose(u[:30], values, atol=1e-12)
    for j in range(2):
        np.testing.assert_allclose(du[:30, j], slopes[j], atol=1e-10)
        by_x, by_y = (outer.gradient(each, few).numpy() for each in sums[j])
        expected = np.stack([by_x[:, 0] + by_y[:, 1], by_x[:, 1]], axis=1)
        np.testing.assert_allclose(operators[:30, j], expected, atol=1e-8)


def test_they_are_saved_and_loaded(tmp_path: Path) -> None:
    model = windows().split(1, 7).enrich(8)(2, 1)
    model.linear_variables[0].assign(np.random.default_rng(0).normal(size=(12, 160, 1)))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    x = np.random.default_rng(1).uniform(-1, 1, (20, 2))
    np.testing.assert_array_equal(model(x), again(x))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Windows(RandomFeatures, overlap=0.0), "overlap must be in"),
        (lambda: Windows(RandomFeatures, overlap=0.6), "overlap must be in"),
        (lambda: Windows(RandomFeatures, parts=0), "parts"),
        (lambda: Windows(RandomFeatures, parts=(2, 2.5)), "parts"),
        (
            lambda: Windows(RandomFeatures, parts=2, splits=(4,))(2, 1),
            "part 4 to split does not exist",
        ),
        (lambda: windows(parts=2).split(0).enrich(7)(2, 1), "part 7 to enrich does not exist"),
        (lambda: Windows(MLP, parts=2).enrich(0)(2, 1), "only windows of RandomFeatures"),
        (lambda: Windows(MLP(2, 1)), "a function that makes the network of a window"),
        (
            lambda: Windows(RandomFeatures, parts=(2, 2, 2))(2, 1),
            "3 numbers, and the points have 2",
        ),
        (lambda: Windows(ModifiedMLP)(2, 1), "got ModifiedMLP"),
    ],
)
def test_bad_arguments(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_windows_that_resolve_little_are_doubtful() -> None:
    fine = problem_named("poisson-two-scales")
    with pytest.warns(ResultWarning, match="little of the solution has been found"):
        result = trained(fine, network=windows(20, (2, 1)), points=300)
    assert error_of(result) > 1


@pytest.mark.ranks(most=3, reason="three ranks have strips of all kinds")
def test_an_integral_over_all_windows() -> None:
    """With fluxes alone it determines the constant."""
    conditions = [Neumann(1 / 3), IntegralCondition(lambda u, x: u(x), 0.7)]
    problem = Problem(
        Box([0, 0], [2, 1]), lambda u, x: laplacian(u, x) - 1.0, conditions=conditions
    )
    result = trained(problem)
    mean = result.predict(problem.domain.sample(4096, seed=0)).mean.mean()
    assert mean == pytest.approx(0.35, abs=1e-6) and result.loss < 1e-10


def test_points_that_an_unknown_moves_are_refused() -> None:
    """As of a delay, by which derivatives would be zero, so that it stayed at its start."""
    problem = Problem(
        Interval(0, 3),
        lambda u, x, *, delay: derivative(u, x, 0) - u(x - delay),
        conditions=[Observations([[0.0], [1.0]], [[1.0], [2.0]])],
        unknowns={"delay": Unknown(0.3)},
    )
    with pytest.raises(InputError, match="depend on u or unknowns"):
        trained(problem, network=windows(20, 4), points=100)


def test_derivatives_that_windows_do_not_have_are_refused() -> None:
    equation = Problem(Box([0, 0], [1, 1]), lambda u, x: derivative(u, x, 0, 0, 0) - 1)
    with pytest.raises(InputError, match="of order 3, and its windows have those of order two"):
        trained(equation)


def by_levenberg_marquardt(problem: Problem, solver: str, parts: Any, points: Any) -> Result:
    network = Windows(partial(MLP, width=3, depth=1), parts=parts)
    method = LevenbergMarquardt(solver=solver)
    return trained(problem, network=network, optimizer=method, steps=4, points=points, grow=False)


PLACES = np.linspace(0.05, 0.95, 15)[:, None]
WITH_AN_UNKNOWN = Problem(
    Interval(0, 1),
    lambda u, x, *, a: laplacian(u, x) + a * u(x) ** 3 + 1,
    conditions=[Periodic(0), Observations(PLACES, np.sin(np.pi * PLACES))],
    unknowns={"a": Unknown(0.1)},
)


@pytest.mark.parametrize(
    ("problem", "parts", "points"),
    [
        pytest.param(
            WITH_AN_UNKNOWN, 4, 60, marks=pytest.mark.ranks(most=2, reason="ranks divide windows")
        ),
        pytest.param(poisson(), (3, 2), Points(200, boundary=60), marks=pytest.mark.all),
        pytest.param(poisson(Ball([0, 0], 1)), 3, 200, marks=pytest.mark.all),
        pytest.param(poisson(Box([0, 0], [1, 2]), Periodic(1)), (1, 4), 100, marks=pytest.mark.all),
    ],
)
def test_levenberg_marquardt_makes_the_same_steps_by_sparsity(
    problem: Problem, parts: Any, points: Any
) -> None:
    dense, sparse = (
        by_levenberg_marquardt(problem, solver, parts, points)
        for solver in ("normal equations", "windows")
    )
    assert sparse.members[0].loss == pytest.approx(dense.members[0].loss, rel=1e-5)
    for name, unknown in sparse.unknowns.items():
        assert unknown.mean == pytest.approx(dense.unknowns[name].mean, rel=1e-5)


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param(IntegralCondition(lambda u, x: u(x), 0.0), marks=pytest.mark.all),
        Condition(lambda u, x: u(x) - u(2 - x), on="x=lower"),
    ],
)
def test_levenberg_marquardt_refuses_what_is_not_sparse(condition: Any) -> None:
    coupled = Problem(Interval(0, 2), laplacian, conditions=[condition])
    with pytest.raises(InputError, match="windows that do not overlap"):
        by_levenberg_marquardt(coupled, "windows", 4, 40)


def test_the_solver_of_windows_wants_windows() -> None:
    with pytest.raises(InputError, match="whose network is a Windows"):
        trained(poisson(), network=MLP, optimizer=LevenbergMarquardt(solver="windows"))

"""Observations with noise: what a training finds, and what it says of their fit."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from trainings import prepared, shared, warned

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import Initial, Interval, Observations, Problem, Unknown, derivative
from sciml_par.results import Result
from sciml_par.training import Adam, Checkpoint, Ensemble, LevenbergMarquardt, train

pytestmark = [
    pytest.mark.beside,
    pytest.mark.ranks(most=1, reason="the same on any number of ranks"),
]
two = pytest.mark.ranks(most=2, reason="two ranks show what more would")
RATE, NOISE = 1.5, 0.05
SEEN = np.linspace(0.02, 1, 40)[:, None]
WITH_NOISE = np.exp(-RATE * SEEN) + NOISE * np.random.default_rng(1).normal(size=(40, 1))
small = partial(
    train,
    network=partial(MLP, width=6, depth=1),
    points=24,
    optimizer=LevenbergMarquardt(),
    steps=200,
    precision="float64",
    evaluation_points=11,
    progress=False,
    grow=False,
    uncertainty=False,
)
short = partial(small, optimizer=Adam(), steps=1)


def decay(u: Any = WITH_NOISE, noise: Any = NOISE, **options: Any) -> Problem:
    """u' = −k u with u(0) = 1."""
    return Problem(
        Interval(0, 1, name="t"),
        lambda u, x, *, k: derivative(u, x, 0) + k * u(x),
        conditions=[Initial(1.0), Observations(SEEN, u, noise=noise, **options)],
        unknowns={"k": Unknown(0.5, lower=0, true=RATE)},
        name="decay",
    )


def least_squares(u: Any = WITH_NOISE) -> tuple[float, float]:
    """The rate by a fit of the solution itself, and its deviation."""
    from scipy.optimize import curve_fit

    best, _ = curve_fit(lambda x, k: np.exp(-k * x), SEEN[:, 0], u[:, 0], [1.0])
    slopes = SEEN * np.exp(-best[0] * SEEN)
    return float(best[0]), NOISE / float(np.sqrt(np.sum(slopes**2)))


def rate(result: Result) -> float:
    return float(result.unknowns["k"].mean)


@two
def test_noise_that_is_known_or_not() -> None:
    """The rate is that of least squares; χ² is of order n, and σ is found with n − 1 degrees."""
    best, deviation = least_squares()
    with warned("where 1 is likely") as said:
        known, unknown = small(decay()), small(decay(noise="unknown"))
    assert not said
    squares = np.sum((np.exp(-best * SEEN) - WITH_NOISE) ** 2)
    for result in (known, unknown):
        assert abs(rate(result) - best) < 0.02 * deviation
    fit = known.members[0].fits["observations"]
    assert fit.chi_square == pytest.approx(squares / NOISE**2 / 40, rel=1e-3)
    assert (fit.values, fit.degrees_of_freedom, fit.deviation) == (40, 39, ())
    assert f"χ²/n of 'observations' {fit.chi_square:.3g}" in repr(known)
    (found,) = unknown.members[0].fits["observations"].deviation
    assert found == pytest.approx(np.sqrt(squares / 39), rel=1e-3)
    assert f"σ of 'observations' {found:.3g}" in repr(unknown)


@pytest.mark.parametrize(
    ("noise", "says"),
    [
        (NOISE / 4, "disagree with the equations by more than their noise"),
        (NOISE * 4, "noise= is too large, or the noise itself is fitted"),
    ],
)
def test_a_deviation_that_is_wrong_is_told(noise: float, says: str) -> None:
    with warned(says) as said:
        result = small(decay(noise=noise))
    assert len(said) == (sp.rank() == 0)
    assert abs(rate(result) - least_squares()[0]) < 1e-3, "it changes no weight"


@pytest.mark.filterwarnings("ignore:train. the model:RuntimeWarning")
def test_gross_outliers_leave_a_coefficient_right_with_a_robust_loss() -> None:
    wrong = WITH_NOISE.copy()
    wrong[[5, 14, 22, 37]] += 1.0  # 10 %, twenty deviations off
    deviation = least_squares()[1]
    apart = {
        loss: abs(rate(small(decay(wrong, loss=loss))) - RATE) / deviation
        for loss in ("huber", "student")
    }
    assert apart["huber"] < 3 and apart["student"] < 2
    assert abs(least_squares(wrong)[0] - RATE) > 5 * deviation


def test_a_fit_without_equations_says_that_it_fits_the_noise() -> None:
    x = np.linspace(0, 1, 60)
    u = np.sin(3 * x) + 0.1 * np.random.default_rng(0).normal(size=60)
    fit = Problem(Interval(0, 1), None, conditions=[Observations(x, u, noise=0.1)])
    result = small(fit, network=partial(MLP, width=2, depth=1))
    assert 0.6 < result.members[0].fits["observations"].chi_square < 1.4
    few = Problem(Interval(0, 1), [], conditions=[Observations(x[::3], u[::3], noise=0.1)])
    with warned("the noise itself is fitted") as said:
        small(few, network=partial(MLP, width=20, depth=2), steps=400)
    assert len(said) == (sp.rank() == 0)


def test_what_observations_cannot_determine_is_told() -> None:
    problem = Problem(
        Interval(0, 1),
        lambda u, x, *, k, c: derivative(u, x, 0) + k * u(x) - c,
        conditions=[Initial(1.0), Observations([0.5], [0.4], noise=0.1)],
        unknowns={"k": Unknown(1.0), "c": Unknown(1.0)},
    )
    _, said = prepared(problem, points=24)
    assert ["2 unknown numbers and 1 observed value" in each for each in said] == [True]


@pytest.mark.long
def test_deviation_of_a_bootstrap_is_that_of_the_noise() -> None:
    deviation = least_squares()[1]
    result = small(decay(), mode=Ensemble(members=12, bootstrap=True), steps=80)
    found = result.unknowns["k"].deviation
    assert 0.5 < found / deviation < 1.7, "within three of its own deviations"
    band = result.predict([[0.5]], interval=0.95)
    assert band.lower < np.exp(-0.5 * RATE) < band.upper


def test_members_that_share_all_data_or_are_equal_are_told() -> None:
    _, alike = prepared(decay(), points=24, mode=Ensemble(members=2))
    assert ["all members have the same observations" in each for each in alike] == [True]
    equal = Ensemble(members=2, seeds=[3, 3], bootstrap=True)
    _, said = prepared(decay(), points=24, mode=equal)
    assert ["are copies of one model" in each for each in said] == [True]


def test_fits_are_loaded_and_known_of_correlated_errors(tmp_path: Any) -> None:
    result = short(decay(noise="unknown"))
    folder = result.save(shared(tmp_path) / "run", plots=False)
    # By their texts, as NaN is not equal to NaN that has been sent or read.
    assert repr(Result.load(folder).members[0].fits) == repr(result.members[0].fits)
    correlated = short(decay(noise=NOISE**2 * np.eye(40))).members[0].fits["observations"]
    independent = short(decay()).members[0].fits["observations"]
    assert correlated.values == 40
    assert correlated.chi_square == pytest.approx(independent.chi_square, rel=1e-2)


# −u′ = k u of the decay is observed: at 40 points, and once through the unknown.
RATES = 1.5 * np.exp(-RATE * SEEN) + NOISE * np.random.default_rng(2).normal(size=(40, 1))


def by_slope(u: Any, x: Any) -> Any:
    return -derivative(u, x, 0)


def by_unknown(u: Any, x: Any, *, k: Any) -> Any:
    return k * u(x)


def observed(operator: Any, **options: Any) -> Problem:
    return decay(RATES, operator=operator, **options)


def test_an_observed_quantity_determines_what_least_squares_says() -> None:
    from scipy.optimize import curve_fit

    best, covariance = curve_fit(lambda x, k: k * np.exp(-k * x), SEEN[:, 0], RATES[:, 0], [1.0])
    squares = np.sum((best * np.exp(-best * SEEN) - RATES) ** 2) / NOISE**2
    deviation = NOISE * np.sqrt(covariance[0, 0] / (NOISE**2 * squares / 39))
    result = small(observed(by_unknown), uncertainty=True)
    assert abs(rate(result) - best[0]) < 0.05 * deviation
    (fit,) = result.members[0].fits.values()
    assert fit.chi_square == pytest.approx(squares / 40, rel=1e-2)
    found = result.uncertainty()
    low, high = found.bounds[0]
    assert (high - low) / (2 * 1.96 * deviation) == pytest.approx(1, rel=0.05)
    assert found.observations == (), "a figure of u has no place for other quantities"


def test_an_observed_quantity_with_correlated_errors() -> None:
    result = small(observed(by_unknown, noise=NOISE**2 * np.eye(40)))
    assert abs(rate(result) - RATE) < 0.15


@pytest.mark.long
def test_first_order_methods_see_the_same_loss_of_an_observed_quantity() -> None:
    """And a mean of u over points around each one is a quantity like others."""
    offsets = np.array([-0.02, 0.0, 0.02])

    def mean(u: Any, x: Any) -> Any:
        return sum(u(x + each) for each in offsets) / 3

    factor = np.mean(np.exp(-RATE * offsets))
    problem = decay(factor * np.exp(-RATE * SEEN), operator=mean)
    assert abs(rate(small(problem)) - RATE) < 1e-3
    first, second = (
        small(problem, optimizer=each, steps=1).members[0].losses[0]
        for each in (Adam(), LevenbergMarquardt())
    )
    assert first > 0 and np.isfinite(second)


def test_a_checkpoint_knows_the_operator(tmp_path: Any) -> None:
    folder = shared(tmp_path) / "run"
    options = {"checkpoint": Checkpoint(folder), "uncertainty": False}

    def twice(factor: float) -> Problem:
        def operator(u: Any, x: Any) -> Any:
            return -factor * derivative(u, x, 0)

        return observed(operator, weight=1.0)

    short(twice(1.0), steps=3, **options)
    result = short(twice(1.0), steps=5, resume=True, **options)
    assert result.members[0].steps == 5
    with pytest.raises(InputError, match="the computation of term 'observations' was"):
        short(twice(2.0), steps=7, resume=True, **options)
    with pytest.raises(
        InputError, match="operator of term 'observations' was .*operator there, and is None"
    ):
        short(observed(None, weight=1.0), steps=7, resume=True, **options)
    loaded = Result.load(result.save(folder.parent / "saved", plots=False))
    assert repr(loaded.members[0].fits) == repr(result.members[0].fits)


@pytest.mark.parametrize(
    ("operator", "component", "says"),
    [
        (lambda u, x: u(x)[:, 0], None, r"must return a tensor \[n, 1\].*got \[\d+\]"),
        (lambda u, x: np.ones(3), None, r"must return a tensor \[n, 1\].*got ndarray"),
        (lambda x: x, None, r"must be a function of \(u, x\), got one of \(x\)"),
        (0.5, None, r"must be a function \(u, x\) -> \[n, c\], got 0.5"),
        (by_slope, "u", "component='u' selects nothing"),
    ],
)
def test_operators_that_are_none(operator: Any, component: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        short(decay(operator=operator, component=component))

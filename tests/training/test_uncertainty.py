"""Deviations, intervals and bands against those of exact solutions."""

from __future__ import annotations

import json
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trainings import shared, warned

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import (
    Dirichlet,
    Interval,
    Normal,
    Observations,
    Problem,
    Unknown,
    derivative,
)
from sciml_par.results import Result
from sciml_par.training import Adam, Ensemble, LevenbergMarquardt, train

TIMES = np.linspace(0.1, 1.0, 12)[:, None]
SIGMA, RATE = 0.03, 2.0
pytestmark = [
    pytest.mark.beside,
    pytest.mark.ranks(most=1, reason="the same on any number of ranks"),
]


def measured(seed: int = 0) -> np.ndarray:
    return np.exp(-RATE * TIMES) + SIGMA * np.random.default_rng(seed).normal(size=TIMES.shape)


def decay(
    noise: Any = SIGMA, unknown: Any = None, equation: Any = None, **unknowns: Any
) -> Problem:
    """u′ = −k u, u(0) = 1, observed with errors."""
    return Problem(
        Interval(0, 1, name="t"),
        equation or (lambda u, t, *, k: derivative(u, t, 0) + k * u(t)),
        conditions=[Dirichlet(1.0, on="t=lower"), Observations(TIMES, measured(), noise=noise)],
        unknowns={"k": unknown or Unknown(1.0, lower=0, true=RATE)} | unknowns,
    )


def trained(problem: Problem, **options: Any) -> Result:
    given = {"optimizer": LevenbergMarquardt(), "steps": 120, "points": 80, "grow": False}
    given |= options
    network = partial(MLP, width=6, depth=1)
    return train(problem, network=network, precision="float64", progress=False, **given)


@cache
def found() -> Result:
    return trained(decay())


def classical(rate: float) -> tuple[float, np.ndarray]:
    """The least squares deviation of k, σ/|∂u/∂k|, and the sensitivities at the times."""
    slopes = -TIMES * np.exp(-rate * TIMES)
    return SIGMA / float(np.linalg.norm(slopes)), slopes


def optimum() -> float:
    from scipy.optimize import least_squares

    return float(least_squares(lambda k: (np.exp(-k * TIMES) - measured()).ravel(), [1.0]).x[0])


def test_the_fit_and_its_deviation_are_those_of_least_squares() -> None:
    answer = found().uncertainty()
    deviation, slopes = classical(answer.values[0])
    assert abs(answer.values[0] - optimum()) < 0.01 * deviation
    np.testing.assert_allclose(answer.deviations, [deviation], rtol=1e-3)
    if sp.rank() == 0:
        lower, upper = answer.bands(TIMES)
        np.testing.assert_allclose(
            (upper - lower) / 2, 1.95996 * deviation * abs(slopes), rtol=0.01
        )
        prediction = found().predict(TIMES, interval=0.95)
        np.testing.assert_array_equal(prediction.lower, lower)
        after = answer.deviations_after(TIMES[5:6], noise=SIGMA)[0, 0, 0]
        np.testing.assert_allclose(
            after, SIGMA / np.sqrt(np.sum(slopes**2) + slopes[5, 0] ** 2), rtol=2e-3
        )


def test_intervals_stay_within_bounds_and_grow_with_the_level() -> None:
    narrow, wide = (found().uncertainty(level).intervals["k"] for level in (0.68, 0.9999))
    assert 0 < wide[0] < narrow[0] < narrow[1] < wide[1]
    # The value is lower + s log(1 + eᵖ), and p is normal.
    p = [np.log(np.expm1(each)) for each in (*wide, found().uncertainty().values[0])]
    np.testing.assert_allclose(p[2] - p[0], p[1] - p[2], rtol=1e-6)


def test_members_of_a_bootstrap_have_none_as_all_data_are_not_theirs() -> None:
    sampled = trained(decay(), mode=Ensemble(members=2, bootstrap=True), uncertainty=True, steps=60)
    assert "samples of the observations" in sampled.uncertainty(member=0).reason


def test_an_unknown_deviation_comes_from_the_residuals() -> None:
    result = trained(decay("unknown"))
    known, answer = found().uncertainty(), result.uncertainty()
    residuals = np.exp(-answer.values[0] * TIMES) - measured()
    sigma = np.sqrt(np.sum(residuals**2) / (len(TIMES) - 1))
    np.testing.assert_allclose(answer.deviations / known.deviations, sigma / SIGMA, rtol=0.01)
    reach = np.log(np.expm1(answer.bounds[0, 1])) - np.log(np.expm1(answer.values[0]))
    slope = -np.expm1(-answer.values[0])
    np.testing.assert_allclose(reach * slope / answer.deviations[0], 2.201, rtol=1e-2)  # t of 11


def test_without_linearization_it_is_the_same_where_the_problem_is_nearly_linear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On two threads, 8 and 7 members would be two computations to compile.
    monkeypatch.setattr(sp.current_world(), "threads", 1)
    linear = found().uncertainty()
    profile = found().uncertainty(method="profile")
    np.testing.assert_allclose(profile.bounds, linear.bounds, rtol=0.02)
    values, rise = profile.profiles["k"]
    chi = [np.sum((np.exp(-k * TIMES) - measured()) ** 2) / SIGMA**2 for k in values]
    np.testing.assert_allclose(rise, np.array(chi) - min(chi), rtol=5e-3, atol=0.01)
    drawn = found().uncertainty(method="randomized", members=30)
    np.testing.assert_allclose(drawn.deviations, linear.deviations, rtol=0.25)
    assert drawn.draws.shape == (30, 1) and not drawn.remarks
    np.testing.assert_array_equal(drawn.to_arviz().posterior["k"].values[0], drawn.draws[:, 0])
    table = drawn.to_pandas()
    assert tuple(table.loc["k", ["lower", "upper"]]) == drawn.intervals["k"]
    with pytest.raises(InputError, match="method='randomized'"):
        linear.to_arviz()


@pytest.mark.ranks(least=2, most=2, reason="compares several ranks with one")
def test_the_same_parameters_have_the_same_deviations_on_one_rank_and_on_several() -> None:
    """The optimizer leaves weights as they are; with ranks_per_member=1 each rank has all rows."""
    still: dict[str, Any] = {"optimizer": Adam(1e-300), "steps": 1, "uncertainty": True}
    one = trained(decay(), mode=Ensemble(ranks_per_member=1), **still).members[0].linearized
    several = trained(decay(), **still).members[0].linearized
    assert one is not None and several is not None
    assert several.reason == one.reason and "has not ended" in one.reason
    steps = [each.steps_of_unknowns for each in (several, one)]
    np.testing.assert_allclose(*(each.T @ each for each in steps), rtol=1e-8)
    np.testing.assert_allclose(several.shift, one.shift, rtol=1e-8)


def test_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    found().print()
    low, high = found().uncertainty().bounds[0]
    assert f"95 % interval {low:.6g} to {high:.6g}" in capsys.readouterr().out
    with pytest.raises(InputError, match="unknown functions are none"):
        found().uncertainty().bands(TIMES, of="k")


EQUATIONS: dict[str, Any] = {
    "k and b separately": lambda u, t, *, k, b: b * derivative(u, t, 0) + k * u(t),
    "only k·b": lambda u, t, *, k, b: derivative(u, t, 0) + k * b * u(t),
    "determine b": lambda u, t, *, k, b: derivative(u, t, 0) + (k + 0 * b) * u(t),
}


@pytest.mark.parametrize(
    "said", [pytest.param("k and b separately", marks=pytest.mark.all), "only k·b", "determine b"]
)
def test_what_the_data_do_not_determine_is_said(said: str) -> None:
    with warned("do not determine") as caught:
        result = trained(decay(equation=EQUATIONS[said], b=Unknown(1.0)))
    assert said in caught[0] and any(said in each for each in result.remarks)


def test_what_a_prior_determines_is_not_said() -> None:
    known = Unknown(1.0, prior=Normal(1.0, 0.01))
    fixed = trained(decay(equation=EQUATIONS["only k·b"], b=known))
    assert not fixed.uncertainty().remarks


def test_priors_and_covariances_are_data_as_observations_are() -> None:
    correlated = Observations(TIMES, measured(), noise=SIGMA**2 * np.eye(len(TIMES)))
    first = decay(unknown=Unknown(1.0, prior=Normal(RATE, 0.1)))
    problem = Problem(
        first.domain,
        first.residuals[0],
        conditions=[first.conditions[0], correlated],
        unknowns=first.unknowns,
    )
    linear = trained(problem).uncertainty()
    expected = 1 / np.sqrt(1 / classical(linear.values[0])[0] ** 2 + 1 / 0.1**2)
    np.testing.assert_allclose(linear.deviations, expected, rtol=1e-3)


@pytest.mark.all
def test_a_prior_alone_is_what_is_known() -> None:
    first = decay(unknown=Unknown(1.0, prior=Normal(RATE, 0.1)))
    alone = Problem(
        first.domain, first.residuals[0], conditions=first.conditions[:1], unknowns=first.unknowns
    )
    answer = trained(alone, steps=40).uncertainty()
    np.testing.assert_allclose([answer.values[0], answer.deviations[0]], [RATE, 0.1], rtol=1e-3)
    assert not answer.remarks


@pytest.mark.ranks(least=2, most=2, reason="one of two ranks fails")
def test_a_linearization_that_fails_on_one_rank_costs_no_result() -> None:
    seen = []

    def equation(u: Any, t: Any, *, k: Any) -> Any:
        seen.append(int(t.shape[0]))
        if sp.rank() == 0 and t.shape[0] == 31:  # of 61 points, which only the linearization has
            raise ValueError("on this rank alone")
        return derivative(u, t, 0) + k * u(t)

    answer = trained(decay(equation=equation), points=60, steps=20).uncertainty()
    assert (31 in seen) == (sp.rank() == 0) and "on this rank alone" in answer.reason


def test_a_training_that_has_not_ended_is_told_by_its_deviations(tmp_path: Path) -> None:
    with warned("has not ended") as caught:
        result = trained(decay(), optimizer=Adam(1e-3), steps=300)
    assert "of its deviations" in caught[0]
    answer = result.uncertainty()
    assert not answer.known and "has not ended" in answer.reason
    with pytest.raises(InputError, match="has not ended"):
        answer.bands(TIMES)
    folder = result.save(tmp_path / "run", plots=False)
    (entry,) = json.loads((folder / "results.json").read_text())["members"]
    assert entry["uncertainty"]["deviations"] == {"k": None}
    assert np.isnan(Result.load(folder).uncertainty().bounds).tolist() == [[True, True]]


def test_files_hold_it(tmp_path: Path) -> None:
    folder = found().save(shared(tmp_path) / "run", plots=False)
    loaded, answer = Result.load(folder), found().uncertainty()
    np.testing.assert_array_equal(loaded.uncertainty().bounds, answer.bounds)
    np.testing.assert_array_equal(loaded.uncertainty().bands(TIMES), answer.bands(TIMES))
    with pytest.raises(InputError, match="trains again"):
        loaded.uncertainty(method="profile")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"level": 95}, r"level in \(0, 1\)"),
        ({"method": "bayes"}, "'profile'"),
        ({"member": 3}, "member=0"),
        ({"method": "randomized", "members": 1}, "members"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        found().uncertainty(**arguments)


def test_without_noise_it_says_what_to_give() -> None:
    result = trained(decay(noise=None), steps=5)
    answer = result.uncertainty()
    assert not answer.known and "noise=" in repr(answer)
    with pytest.raises(InputError, match="noise="):
        answer.bands(TIMES)
    with pytest.raises(InputError, match="expected uncertainty"):
        trained(decay(), uncertainty="yes")

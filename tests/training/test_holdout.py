"""Values that are held out choose the weights of a training, and end it; `fit` by them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trainings import bits, everywhere, quick, shared, stop_at, warned

import sciml_par
from sciml_par.errors import InputError
from sciml_par.evaluation import plot_predictions
from sciml_par.networks import MLP
from sciml_par.problems import Interval, Observations, Problem
from sciml_par.training import Adam, Checkpoint, Ensemble, NoProgress, Result, fit

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")
two = pytest.mark.ranks(most=2, reason="two ranks show what more would")

RNG = np.random.default_rng(3)
X = np.sort(RNG.uniform(0, 1, 40))
Y = np.sin(6 * X) + 0.3 * RNG.normal(size=40)
PLACES = np.linspace(X[0], X[-1], 101)
wide = partial(MLP, width=24, depth=2)


def problem(holdout: Any = 0.25) -> Problem:
    return Problem(Interval(0, 1), None, conditions=[Observations(X, Y, holdout=holdout)])


noisy = partial(
    quick, network=wide, optimizer=Adam(2e-2), steps=4000, precision="float64", log_every=1
)


def error_of(result: Result) -> float:
    truth = np.sin(6 * PLACES)
    u = result.predict(PLACES).mean[:, 0]
    return float(np.linalg.norm(u - truth) / np.linalg.norm(truth))


def root_mean_square(result: Result, held: Any) -> float:
    return float(np.sqrt(np.mean((result.predict(held.x).mean - held.u) ** 2)))


def test_a_share_of_the_points_is_held_out() -> None:
    observed = Observations(X, Y, noise=np.linspace(1, 2, 40), holdout=0.25)
    held = observed.held_out
    assert held is not None and (len(held.x), len(observed.x)) == (10, 30)
    together = np.concatenate([observed.x, held.x])
    order = np.argsort(together)
    np.testing.assert_array_equal(together[order], X)
    for name, values in (("u", Y), ("noise", np.linspace(1, 2, 40))):
        both = np.concatenate([getattr(observed, name), getattr(held, name)])[order, 0]
        np.testing.assert_array_equal(both, values)
    last = Observations(X, Y, holdout=X > 0.9)
    assert last.held_out is not None and last.held_out.x.min() > 0.9 > last.x.max()
    assert observed.points(Interval(0, 1), 0)[0].shape == (30, 1)


@pytest.mark.parametrize(
    ("holdout", "more", "words"),
    [
        (1.5, {}, "between 0 and 1"),
        (X > 2, {}, "leaves none to hold out"),
        (X > -1, {}, "leaves none to train on"),
        ("half", {}, "holdout"),
        (0.2, {"noise": np.eye(40)}, "not correlated"),
    ],
)
def test_what_cannot_be_held_out_is_refused(holdout: Any, more: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Observations(X, Y, holdout=holdout, **more)


@two
def test_the_weights_are_those_with_the_least_error_at_values_held_out() -> None:
    given = problem()
    held = given.conditions[0].held_out
    result = noisy(given)
    member = result.members[0]
    assert member.ended == "held-out error" and member.steps < 4000
    assert member.steps >= member.best_step + max(4 * member.best_step, 1000)
    assert result.sound and not result.remarks
    kept = root_mean_square(result, held)
    assert member.held_out == {"observations": pytest.approx(kept, rel=1e-9)}
    assert kept < 0.9 * root_mean_square(result.using("last"), held)
    # The loss of the training went on falling.
    assert member.loss < 0.95 * member.best_loss
    assert member.best_loss == pytest.approx(member.losses[member.best_step], rel=1e-9)
    whole = noisy(problem(None))
    assert whole.members[0].steps == 4000 and error_of(whole) > 1.2 * error_of(result)
    found = everywhere((member.steps, member.best_step, dict(member.held_out)))
    assert all(each == found[0] for each in found)


def test_no_progress_says_how_long_to_wait() -> None:
    waits = noisy(problem(), stop=NoProgress(700)).members[0]
    assert waits.ended == "held-out error" and waits.steps >= waits.best_step + 700
    assert waits.steps <= 1.06 * (waits.best_step + 700)


def test_resumed_is_as_if_uninterrupted(tmp_path: Path) -> None:
    checkpoint = Checkpoint(shared(tmp_path) / "kept", every=50, overwrite=True)
    noisy(problem(), checkpoint=checkpoint, callbacks=stop_at(250))
    resumed = noisy(problem(), checkpoint=checkpoint, resume=True)
    whole = noisy(problem())
    assert bits(resumed) == bits(whole) and resumed.members[0].steps > 250


@two
def test_members_keep_weights_of_their_own() -> None:
    mode = Ensemble(members=4, bootstrap=True)
    result = noisy(problem(), mode=mode, steps=600, log_every=None)
    steps = [member.best_step for member in result.members]
    assert len(set(steps)) > 1 and result.sound
    if sciml_par.rank() == 0:
        held = problem().conditions[0].held_out
        u = result.predict(held.x).members
        misses = np.sqrt(np.mean((u - held.u) ** 2, axis=(1, 2)))
        told = [member.held_out["observations"] for member in result.members]
        np.testing.assert_allclose(told, misses, rtol=1e-9)


@pytest.mark.beside
def test_a_fit_does_not_fit_the_noise(tmp_path: Path) -> None:
    result = fit(X, Y, noise=0.3, network=wide, steps=4000, progress=False)
    exact = fit(X, np.sin(6 * X), network=wide, holdout=0, steps=60, progress=False)
    with warned("the noise itself is fitted") as told:
        whole = fit(X, Y, noise=0.3, network=wide, holdout=0, steps=60, progress=False)
    assert len(told) == (sciml_par.rank() == 0)
    assert error_of(result) < 0.3 and error_of(exact) < 1e-4
    assert error_of(whole) > 2 * error_of(result) and "held-out" in repr(result)
    folder = result.save(shared(tmp_path) / "fit", plots=False)
    loaded = Result.load(folder).members[0]
    assert loaded.held_out == result.members[0].held_out
    if sciml_par.rank() == 0:
        figure = plot_predictions([loaded.prediction], observed=loaded.observations)
        labels = [text.get_text() for text in figure.legends[0].get_texts()]
        assert labels == ["prediction", "observations ± σ", "held out ± σ"]


def test_a_fit_of_several_quantities_over_a_plane() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    y = np.stack([x[:, 0] * x[:, 1], x[:, 0]], axis=1)
    result = fit(
        x, y, network=partial(MLP, width=8, depth=1), optimizer="auto", steps=60, progress=False
    )
    inner = x[np.abs(x).max(axis=1) < 0.8]
    u = result.predict(inner).mean
    np.testing.assert_allclose(u, np.stack([inner.prod(axis=1), inner[:, 0]], axis=1), atol=0.02)


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (np.ones((5, 2)), np.ones(4), "with a row for each point"),
        (np.array([[0.0, 1.0], [1.0, 1.0]]), np.ones(2), "column 1 of x has one value"),
    ],
)
def test_what_cannot_be_fitted_is_refused(x: Any, y: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        fit(x, y)

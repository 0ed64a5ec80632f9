"""Unknown functions are found with the solution, on any number of ranks."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from engine import Engine
from trainings import quick, tiny

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.networks import MLP, make_network
from sciml_par.problems import (
    Dirichlet,
    Interval,
    Observations,
    Problem,
    Smooth,
    Time,
    UnknownFunction,
    derivative,
)
from sciml_par.results import Result
from sciml_par.training import Adam, Checkpoint, Ensemble, LevenbergMarquardt
from sciml_par.training.loss.function_networks import bound_functions, networks_of_functions

pytestmark = pytest.mark.beside
eight = partial(MLP, width=8, depth=1)
SEEN = np.linspace(0, 1, 13)[:, None]
POINTS = np.linspace(0, 1, 61)[:, None]  # not divided evenly by any number of ranks here
local = pytest.mark.ranks(most=1, reason="nothing of it depends on the number of ranks")
two = pytest.mark.ranks(most=2, reason="two ranks show what more would")
three = pytest.mark.ranks(most=3, reason="three ranks divide the points unevenly")


def rate(x: Any) -> Any:
    return 1 + x


def exact(x: Any) -> Any:
    return np.exp(-x - x**2 / 2)


def decay(**options: Any) -> Problem:
    """u' = −k(x) u with k = 1 + x, and observations of u."""
    given = {"lower": 0, "network": tiny, "true": rate, **options}
    return Problem(
        Interval(0, 1),
        lambda u, x, *, k: derivative(u, x, 0) + k(x) * u(x),
        conditions=[Observations(SEEN, exact(SEEN))],
        exact=exact,
        unknowns={"k": UnknownFunction(1.2, **given)},
        name="decay",
    )


small = partial(quick, points=POINTS, precision="float64")


@cache
def found() -> Result:
    return small(decay(), optimizer=LevenbergMarquardt(), steps=40, log_every=10)


@two
def test_the_function_is_found_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    result = found()
    k, x = result.unknowns["k"], np.linspace(0, 1, 7)
    assert k.relative_error < 1e-3
    np.testing.assert_allclose(k(x), rate(x)[:, None], atol=5e-3)
    assert k.members(x).shape == (1, 7, 1) and np.isnan(k.deviation(x)).all()
    np.testing.assert_array_equal(k.members(x)[0], k(x))
    everyone = sp.current_world().communicator.allgather_object((k.relative_error, k(x).tobytes()))
    assert len(set(everyone)) == 1
    said = f"k = function of x (relative error {k.relative_error:.1e})"
    assert said in repr(result)
    result.print()
    assert (said in capsys.readouterr().out) == (sp.rank() == 0)
    # The number of weights and the Keras model are those of the solution alone.
    (member,) = result.members
    assert member.weights.best.size == result.networks[0].count_params() == 13
    assert member.functions[0].weights.best.size == 13
    with pytest.raises(InputError, match=r"shape \[n, 1\]"):
        k(np.zeros((3, 2)))


@local
def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    result, x = found(), np.linspace(0, 1, 7)
    folder = tmp_path / "run"
    last = result.using("last")
    result.save(folder)
    loaded = Result.load(folder)
    mine, theirs = result.unknowns["k"], loaded.unknowns["k"]
    np.testing.assert_allclose(theirs(x), mine(x), rtol=1e-14)
    assert theirs.relative_error == mine.relative_error and theirs.inputs == ("x",)
    np.testing.assert_allclose(loaded.predict(x).mean, result.predict(x).mean, atol=1e-14)
    again = loaded.using("last").unknowns["k"]
    np.testing.assert_allclose(again(x), last.unknowns["k"](x), rtol=1e-14)
    assert loaded.networks[0].count_params() == 13
    assert (folder / "unknown_k.png").stat().st_size > 1000
    # A folder that is written anew does not keep the functions of another run.
    number = Problem(
        Interval(0, 1), lambda u, x, *, k: derivative(u, x, 0) + k * u(x), unknowns={"k": 1.0}
    )
    small(number, optimizer=Adam(), steps=2).save(folder, overwrite=True, plots=False)
    assert not (folder / "functions.npz").exists()
    assert Result.load(folder).unknowns["k"].true is None


@local
def test_a_resumed_training_finds_the_same_bit_for_bit(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "checkpoint", every=20)
    again = partial(small, optimizer=LevenbergMarquardt(), log_every=10)
    again(decay(), steps=20, checkpoint=checkpoint)
    result = again(decay(), steps=40, checkpoint=checkpoint, resume=True)
    for mine, theirs in zip(result.members, found().members, strict=True):
        ours, others = mine.functions[0].weights, theirs.functions[0].weights
        assert ours.last.tobytes() == others.last.tobytes()
        assert ours.best.tobytes() == others.best.tobytes()
    for problem, what in (
        (decay(lower=0.1), "unknown function 'k'"),
        (decay(network=partial(MLP, width=5, depth=1)), "width of the network of 'k'"),
    ):
        with pytest.raises(InputError, match=what):
            again(problem, steps=40, checkpoint=checkpoint, resume=True)


@three
def test_members_have_functions_of_their_own() -> None:
    mode = Ensemble(members_per_rank=2)
    result = small(decay(), mode=mode, optimizer=Adam(1e-2), steps=20)
    assert all(len(member.stacked_with) == 2 for member in result.members)
    k, x = result.unknowns["k"], np.linspace(0, 1, 7)
    errors = [member.functions[0].prediction.relative_l2_error for member in result.members]
    assert len(set(errors)) == 2 * sp.size() and k.relative_error == max(errors)
    if sp.rank() == 0:
        values = k.members(x)
        assert values.shape == (2 * sp.size(), 7, 1)
        np.testing.assert_allclose(k(x), values.mean(axis=0))
        np.testing.assert_allclose(k.deviation(x), values.std(axis=0, ddof=1))
        # Those of other ranks are on rank 0 as they are told of.
        for member, error in zip(result.members, errors, strict=True):
            (function,) = member.functions
            assert np.allclose(function.prediction.exact, rate(function.prediction.x))
            seen = function.prediction
            assert np.linalg.norm(seen.u - seen.exact) / np.linalg.norm(
                seen.exact
            ) == pytest.approx(error)
    last = result.using("last").unknowns["k"]
    everyone = sp.current_world().communicator.allgather_object(last.relative_error)
    assert len(set(everyone)) == 1


@two
def test_members_of_unlike_functions() -> None:
    """Ranks may seek functions by other networks; rank 0 has all of them."""
    width = 3 + sp.rank()
    problem = decay(network=partial(MLP, width=width, depth=1))
    result = small(problem, mode="ensemble", optimizer=Adam(1e-2), steps=3)
    sizes = [m.functions[0].weights.best.size for m in result.members if m.functions[0].weights]
    if sp.rank() == 0:
        assert sizes == [3 * (3 + rank) + 1 for rank in range(sp.size())]
        assert result.unknowns["k"].members(np.zeros((2, 1))).shape == (sp.size(), 2, 1)


def smooth_source(values: Any) -> Problem:
    """u'' = s(x), u = 0 at both ends, and a prior of s."""
    prior = Smooth(length=0.5, amplitude=2.0)
    return Problem(
        Interval(0, 1),
        lambda u, x, *, s: derivative(u, x, 0, 0) - s(x),
        conditions=[Dirichlet(0.0), Observations(SEEN[1:-1], values, noise=0.01)],
        unknowns={"s": UnknownFunction(0.0, network=partial(MLP, width=16, depth=1), prior=prior)},
    )


@local
@pytest.mark.long
def test_with_a_prior_it_is_the_mean_of_the_posterior() -> None:
    """As by the algebra of Gaussian processes, with the Green's function."""
    x = SEEN[1:-1]
    values = np.sin(np.pi * x[:, 0]) * 0.1 + 0.01 * np.random.default_rng(0).normal(size=len(x))
    result = small(smooth_source(values), optimizer=LevenbergMarquardt(), steps=150, network=eight)
    z, weights = np.polynomial.legendre.leggauss(60)
    z, weights = (z + 1) / 2, weights / 2
    green = np.where(x < z, x * (z - 1), z * (x - 1)) * weights

    def kernel(a: Any, b: Any) -> Any:
        r = np.sqrt(5) * np.abs(a[:, None] - b) / 0.5
        return 4 * (1 + r + r**2 / 3) * np.exp(-r)

    at = np.linspace(0, 1, 11)
    covariance = green @ kernel(z, z) @ green.T + 1e-4 * np.eye(len(x))
    gain = kernel(at, z) @ green.T @ np.linalg.inv(covariance)
    variance = 4 - np.sum(gain * (kernel(at, z) @ green.T), axis=1)
    apart = (result.unknowns["s"](at)[:, 0] - gain @ values) / np.sqrt(variance)
    assert np.abs(apart).max() < 0.03


@three
def test_a_prior_and_correlated_observations_are_those_of_one_rank() -> None:
    world, n = sp.current_world(), len(SEEN) - 2
    given = smooth_source(np.ones(n)).conditions[0]
    correlated = Observations(SEEN[1:-1], np.ones(n), noise=1e-4 * (np.eye(n) + 1))
    problem = Problem(
        Interval(0, 1),
        lambda u, x, *, s: derivative(u, x, 0, 0) - s(x),
        conditions=[given, correlated],
        unknowns={"s": UnknownFunction(1.0, network=tiny, prior=Smooth(length=1, amplitude=1))},
    )
    network = MLP(1, 1, width=4, depth=1, seed=3, dtype="float64")
    found, serial = (
        Engine(problem, group, network, points=POINTS).value_and_gradient()
        for group in (world.communicator, world.alone)
    )
    np.testing.assert_allclose(found[0], serial[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], serial[1], rtol=0, atol=1e-12 * np.abs(serial[1]).max())


def with_skip(d: int, m: int, *, seed: int, dtype: str) -> keras.Model:
    """A model that is no chain of layers."""
    x = keras.Input((d,), dtype=dtype)
    draw = keras.initializers.GlorotNormal(seed)
    inner = keras.layers.Dense(3, "tanh", kernel_initializer=draw)(x)
    both = keras.layers.Concatenate()([x, inner])
    return keras.Model(x, keras.layers.Dense(m, kernel_initializer=draw)(both))


@local
def test_of_some_coordinates_of_the_solution_and_by_a_keras_model(tmp_path: Path) -> None:
    problem = Problem(
        Interval(0, 1) * Time(0, 2),
        lambda u, x, *, c, g: derivative(u, x, "t") + c(x) * derivative(u, x, "x") - g(x),
        unknowns={
            "c": UnknownFunction(0.5, of="t", network=with_skip, true=lambda t: t[:, 0]),
            "g": UnknownFunction(0.0, of="u", upper=2.0, network=tiny),
        },
    )
    result = small(problem, points=30, optimizer=Adam(1e-2), steps=3)
    c, g = result.unknowns["c"], result.unknowns["g"]
    x = np.random.default_rng(0).uniform(0, [1, 2], (4, 2))
    np.testing.assert_array_equal(c(x), c(x[:, 1]))
    assert c.inputs == ("t",) and g.inputs == ("u",) and g(np.zeros(3)).shape == (3, 1)
    assert "function of u from" in repr(g)
    # That of the solution is drawn over the values that the solution has.
    (_, of_u), u = result.members[0].functions, result.members[0].prediction.u
    np.testing.assert_allclose(
        [of_u.prediction.x.min(), of_u.prediction.x.max()], [u.min(), u.max()]
    )
    result.save(tmp_path / "run", plots=False)
    loaded = Result.load(tmp_path / "run").unknowns
    np.testing.assert_allclose(loaded["c"](x), c(x), rtol=1e-14)
    np.testing.assert_allclose(loaded["g"](np.ones((2, 1))), g(np.ones((2, 1))), rtol=1e-14)


MODEL = MLP(1, 1, width=2, depth=1, dtype="float64")


@local
@pytest.mark.parametrize(
    ("options", "more", "message"),
    [
        ({"network": partial(MLP, 1)}, {}, "network of the unknown function 'k'"),
        ({"network": lambda: MLP(1, 2, dtype="float64")}, {}, "unknown function 'k'.*2"),
        ({"network": lambda: MLP(2, 1, dtype="float64")}, {}, "unknown function 'k'.*2"),
        ({"network": "none"}, {}, "unknown function 'k'.*unknown name 'none'"),
        ({"network": MODEL}, {"network": MODEL}, "same model as another"),
        ({"network": MODEL}, {"mode": Ensemble(members_per_rank=2)}, "'k'.*one model, but 2"),
    ],
)
def test_networks_that_cannot_serve(
    options: dict[str, Any], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        small(decay(**options), **{"steps": 1, **more})


@local
def test_a_function_of_u_at_values_of_u_is_refused() -> None:
    problem = Problem(
        Interval(0, 1),
        lambda u, x, *, b: derivative(u, x, "x") + b(u(x)[:, :1]),
        unknowns={"b": UnknownFunction(1.0, of="u")},
    )
    with pytest.raises(InputError, match=r"write b\(x\), which is b at the values of u"):
        quick(problem)


@pytest.mark.long
@local
def test_its_error_is_not_that_of_features_for_u() -> None:
    result = quick(
        Problem(
            Interval(0, 1),
            lambda u, x, *, k: derivative(u, x, "x") - k(x),
            conditions=[Observations(np.linspace(0, 1, 9), np.linspace(0, 1, 9))],
            unknowns={"k": UnknownFunction(1.0)},
        ),
        estimate=True,
    )
    assert "the error of the unknown function k is part of it" in result.error.sentence


@local
def test_it_begins_close_to_its_start_and_otherwise_for_each_seed() -> None:
    problem, x = decay(network=None), tf.constant(POINTS)
    solution = make_network(tiny, 1, 1, dtype="float64")
    seen = []
    for seed in range(3):
        (network,) = networks_of_functions(
            problem, beside=solution, seed=seed, members=1, dtype="float64", initial_weights=None
        )
        weights = [network.trainable_variables]
        bound = bound_functions(problem, solution.with_others([network]), weights)["k"]
        seen.append(bound.beside(lambda z: z)(x).numpy())
    np.testing.assert_allclose(seen, 1.2, atol=0.12)
    assert len({each.tobytes() for each in seen}) == 3 and np.std(seen) > 1e-4

"""Networks that are linear in what is trained: solved for in a step, on any number of ranks."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
from _programs import problem_named

import sciml_par.parallel as sp
from sciml_par.errors import InputError, TrainingError
from sciml_par.networks import MLP, Corrected, RandomFeatures
from sciml_par.problems import (
    Box,
    Dirichlet,
    Interval,
    Polygon,
    Problem,
    Residual,
    laplacian,
    poisson,
    problem_by_name,
)
from sciml_par.results import Result
from sciml_par.training import AdamW, Ensemble, LeastSquares, LevenbergMarquardt, Points, train

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")
two = pytest.mark.ranks(most=2, reason="two ranks show what more would")


def solved(problem: Problem, features: int = 60, **arguments: Any) -> Result:
    given = {
        "network": partial(RandomFeatures, features=features, scale=12.0),
        "points": Points(3 * features, method="sobol"),
        "optimizer": LeastSquares(),
        "precision": "float64",
        "progress": False,
        **arguments,
    }
    return train(problem, **given)


def test_a_linear_equation_is_solved_by_one_step():
    result = solved(poisson(domain=Interval(0, 1)))
    losses = result.members[0].losses
    assert losses[1] < 1e-15 * losses[0]
    assert result.members[0].prediction.relative_l2_error < 1e-11


@pytest.mark.filterwarnings("ignore:.*copies of one model")
@pytest.mark.ranks(least=2, most=2, reason="one rank would be compared with itself")
def test_ranks_find_what_one_rank_finds():
    problem = poisson(domain=Interval(0, 1))
    together = solved(problem)
    # Every rank alone, on all points.
    alone = solved(problem, mode=Ensemble(ranks_per_member=1, seeds=[0] * together.ranks))
    x = np.linspace(0, 1, 50)[:, None]
    mine = alone.networks[0](x).numpy()
    assert np.abs(together.networks[0](x).numpy() - mine).max() < 1e-10


def _u(x: Any) -> Any:
    return np.sin(2 * x[:, :1]) * np.cos(x[:, 1:])


def _equation(u: Any, x: Any, f: Any) -> Any:
    return laplacian(u, x) + u(x) ** 3 - f


QUADRILATERAL = Problem(
    Polygon([[0, 0], [1, 0], [1, 1], [0.3, 1]]),
    Residual(_equation, data=lambda x: -5 * _u(x) + _u(x) ** 3),
    conditions=[Dirichlet(_u)],
    exact=_u,
)
BY_CONSTRUCTION = Problem(
    Interval(0, 1),
    Residual(lambda u, x, f: laplacian(u, x) - f, data=lambda x: -np.sin(x)),
    ansatz=lambda u, x: np.sin(1.0) * x + x * (1 - x) * u(x),
    exact=np.sin,
)


@pytest.mark.parametrize(
    ("problem", "features", "error"),
    [
        pytest.param(
            problem_named("elasticity"), 150, 1e-5, id="two outputs", marks=pytest.mark.all
        ),
        pytest.param(problem_by_name("inverse-diffusion"), 100, 1e-5, id="an unknown"),
        pytest.param(QUADRILATERAL, 120, 1e-6, id="nonlinear, in a polygon"),
        pytest.param(BY_CONSTRUCTION, 40, 1e-9, id="conditions by construction"),
    ],
)
def test_kinds_of_problems(problem: Problem, features: int, error: float):
    result = solved(problem, features)
    assert result.members[0].on_own_domain.relative_l2_error < error
    if problem.unknowns:
        assert abs(float(result.unknowns["D"].mean) - 0.1) < 1e-6


@pytest.mark.ranks(least=2, most=2, reason="ranks may differ in an ensemble, and only there")
def test_ranks_with_problems_of_their_own_choose_no_common_scale():
    problem = poisson(k=1 + sp.rank(), domain=Interval(0, 1))
    network = partial(RandomFeatures, features=40)
    result = solved(problem, network=network, mode="ensemble")
    assert max(m.prediction.relative_l2_error for m in result.members) < 1e-4
    with pytest.raises(InputError, match="(?s)the ranks differ in problem.*In mode 'data'"):
        solved(problem, network=network)


@two
def test_the_scale_of_features_is_chosen_by_unseen_points(capsys: pytest.CaptureFixture[str]):
    """u = sin 9πx needs phases of 28; with the usual scale of 4 nothing is right."""
    problem = poisson(k=9, domain=Interval(0, 1))
    small, chosen = (
        solved(problem, network=partial(RandomFeatures, features=60, **given), progress=True)
        for given in ({"scale": 4.0}, {})
    )
    assert small.members[0].prediction.relative_l2_error > 1e-4
    assert chosen.members[0].prediction.relative_l2_error < 1e-6
    told = capsys.readouterr().out
    assert ("scale=32 of" in told or "scale=16 of" in told) == (sp.rank() == 0)


def test_draws_of_features_are_one_computation():
    result = solved(
        poisson(domain=Interval(0, 1)), 30, mode=Ensemble(members=4, ranks_per_member=1)
    )
    members = result.members
    assert len(members[0].stacked_with) == -(-4 // result.ranks)
    losses = [member.kept_loss for member in members]
    assert len(set(losses)) == 4
    assert max(losses) < 1e-6


@pytest.mark.parametrize(
    "optimizer", [AdamW(1e-2, weight_decay=0.1), LevenbergMarquardt()], ids=repr
)
def test_no_optimizer_changes_frozen_weights(optimizer: Any):
    model = RandomFeatures(1, 1, features=8, box=([0.0], [1.0]))
    before = model.get_weights()
    train(
        poisson(domain=Interval(0, 1)),
        network=lambda d, m: model,
        optimizer=optimizer,
        steps=3,
        precision="float64",
        progress=False,
    )
    after = model.get_weights()
    assert all(np.array_equal(a, b) for a, b in zip(before[:2], after[:2], strict=True))
    assert not np.array_equal(before[2], after[2])


def test_of_a_network_the_output_layer_alone_is_solved_for():
    model = MLP(1, 1, width=30, depth=2, dtype="float64", seed=1)
    before = model.get_weights()
    result = solved(poisson(domain=Interval(0, 1)), network=lambda d, m: model)
    after = model.get_weights()
    assert all(np.array_equal(a, b) for a, b in zip(before[:4], after[:4], strict=True))
    assert result.members[0].loss < 1e-2 * result.members[0].losses[0]


def test_the_base_of_a_correction_may_be_any_keras_model():
    """Here one that is not a chain of layers, whose derivatives are those of tapes."""
    x = keras.Input((1,), dtype="float64")
    hidden = keras.layers.Dense(4, "tanh", dtype="float64")(x)
    joined = keras.layers.Concatenate(dtype="float64")([hidden, x])
    base = keras.Model(x, keras.layers.Dense(1, dtype="float64")(joined))
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=w.shape) for w in base.get_weights()]
    base.set_weights(weights)

    def make(d: int, m: int, *, seed: int, dtype: str, box: Any) -> Any:
        return Corrected(base, RandomFeatures(d, m, features=60, scale=14.0, box=box, dtype=dtype))

    result = solved(poisson(domain=Interval(0, 1)), network=make)
    assert result.members[0].prediction.relative_l2_error < 1e-8
    kept = result.networks[0].base.get_weights()
    assert all(np.array_equal(a, b) for a, b in zip(weights, kept, strict=True))


def test_what_cannot_be_solved_for_is_refused():
    def bounded() -> Any:
        return keras.Sequential([keras.layers.Dense(8, "tanh"), keras.layers.Dense(1, "tanh")])

    with pytest.raises(InputError, match="RandomFeatures"):
        solved(poisson(), network=bounded)
    with pytest.raises(InputError, match="cutoff"):
        LeastSquares(cutoff=2.0)
    with pytest.raises(InputError, match="scale"):
        RandomFeatures(2, 1, scale=-1.0)
    with pytest.raises(InputError, match="RandomFeatures: features must be an integer"):
        solved(poisson(), network=partial(RandomFeatures, features=0))


def test_a_residual_that_is_not_finite_ends_the_training():
    problem = Problem(
        Box([0.0, 0.0], [1.0, 1.0]),
        lambda u, x: laplacian(u, x) + 1.0 / (u(x) - u(x)),
        conditions=[Dirichlet(0.0)],
    )
    with pytest.raises(TrainingError, match="finite"):
        solved(problem)

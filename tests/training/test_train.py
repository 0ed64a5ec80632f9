"""`train` on real ranks: both modes, what comes back, and what is refused."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from trainings import everywhere, quick

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.evaluation import Prediction
from sciml_par.networks import MLP
from sciml_par.problems import Box, Dirichlet, Interval, Problem, laplacian, poisson, two_sines
from sciml_par.training import Ensemble, Points, Result

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")
two = pytest.mark.ranks(most=2, reason="two ranks show what more would")

small = partial(quick, steps=30, points_per_rank=9, log_every=10)


@cache
def one_model() -> Result:
    return small(poisson())


@cache
def ensemble() -> Result:
    """Another problem on each rank."""
    return small(own_problem(), mode=Ensemble(members_per_rank=2))


def own_problem() -> Problem:
    return poisson(k=sp.rank() + 1)


def numbers_of(result: Result) -> list[Any]:
    return [
        (m.number, m.rank, m.seed, m.loss, m.on_own_domain.relative_l2_error)
        for m in result.members
    ]


def weights_of(result: Result) -> bytes:
    return b"".join(v.numpy().tobytes() for v in result.networks[0].trainable_variables)


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
def test_data_mode_trains_one_model_on_all_ranks() -> None:
    result = one_model()
    assert result.ranks == sp.size()
    assert len(result.members) == len(result.networks) == 1
    member = result.members[0]
    assert member.steps == 30
    assert list(member.loss_steps) == [0, 10, 20, 30]
    assert member.losses[-1] == member.loss < member.losses[0]
    assert member.prediction.x.shape == member.prediction.u.shape == (11, 1)
    assert isinstance(member.prediction, Prediction)
    assert member.on_own_domain is member.prediction
    assert (member.times_brought_together, member.largest_drift) == (0, 0.0)
    assert everywhere(numbers_of(result)) == [numbers_of(result)] * sp.size()
    assert len(set(everywhere(weights_of(result)))) == 1


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
def test_each_rank_contributes_the_points_of_its_part() -> None:
    contributions = one_model().members[0].contributions
    parts = Interval(-1, 1).split(sp.size())
    for rank, (each, part) in enumerate(zip(contributions, parts, strict=True)):
        assert (each.rank, each.points, each.shard.label) == (rank, 9, f"rank {rank}")
        np.testing.assert_allclose([each.lower, each.upper], [part.lower, part.upper])
        assert each.seconds_train > 0
        seen = sp.rank() in (0, rank)
        np.testing.assert_array_equal(each.sample, part.grid(9)[: 9 if seen else 0])


def test_the_networks_hold_the_trained_weights_and_save_as_keras_models(tmp_path: Any) -> None:
    network, prediction = one_model().networks[0], one_model().members[0].prediction
    u = network(prediction.x.astype("float32"))
    np.testing.assert_allclose(u, prediction.u, rtol=1e-6)
    network.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(prediction.x.astype("float32")), u)


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
def test_ensemble_members_differ_and_know_their_rank() -> None:
    result = ensemble()
    assert [m.number for m in result.members] == list(range(2 * sp.size()))
    assert [m.rank for m in result.members] == [r for r in range(sp.size()) for _ in range(2)]
    assert [m.problem for m in result.members] == [
        f"poisson, k = {r + 1}" for r in range(sp.size()) for _ in range(2)
    ]
    assert len({m.loss for m in result.members}) == 2 * sp.size()
    assert everywhere(numbers_of(result)) == [numbers_of(result)] * sp.size()


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
def test_members_of_an_ensemble_are_no_replicas() -> None:
    result = ensemble()
    assert {member.times_brought_together for member in result.members} == {0}
    assert len(set(everywhere(weights_of(result)))) == sp.size()


def test_the_same_seed_gives_the_same_result_and_another_one_another() -> None:
    again, other = (small(poisson(), seed=seed) for seed in (0, 4))
    assert numbers_of(one_model()) == numbers_of(again)
    assert one_model().members[0].loss != other.members[0].loss


@two
def test_prediction_on_another_domain_than_trained() -> None:
    whole = Interval(-1, 1)
    own = whole.split(sp.size())[sp.rank()]
    result = small(two_sines(domain=own), mode="ensemble", evaluation_domain=Interval(-2, 1))
    for rank, member in enumerate(result.members):
        if sp.rank() not in (0, rank):
            continue
        part = whole.split(sp.size())[rank]
        np.testing.assert_allclose(member.prediction.x[[0, -1], 0], [-2, 1])
        np.testing.assert_allclose(member.on_own_domain.x[[0, -1]], [part.lower, part.upper])


@two
def test_two_dimensions_and_given_points() -> None:
    square = Box([0, 0], [1, 1])
    problem = Problem(
        square, lambda u, x: laplacian(u, x) + 1.0, conditions=[Dirichlet(0.0)], name="membrane"
    )
    points = Points(square.sample(21, seed=0), boundary=16)
    result = small(problem, points=points, points_per_rank=None)
    member = result.members[0]
    assert sum(p.points for p in member.contributions) == 21
    assert member.contributions[0].lower is None
    assert not member.on_own_domain.known
    assert np.isnan(member.on_own_domain.relative_l2_error)
    assert np.isnan(member.on_own_domain.u_exact).all()


def test_float64_is_float64_throughout() -> None:
    result = small(poisson(), precision="float64")
    assert result.networks[0].trainable_variables[0].dtype == "float64"
    for numbers in (result.members[0].losses, result.members[0].prediction.u):
        assert np.mean(numbers != numbers.astype(np.float32)) > 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "both"}, "mode.*'data', 'ensemble'.*'both'"),
        ({"steps": 0}, "steps.*at least 1.*0"),
        ({"steps": 2.5}, "steps.*integer.*2.5"),
        ({"members": 2}, r"no argument 'members'; use mode=Ensemble\(members=M\)"),
        ({"batch_size": 2}, r"Points\(interior=N, batch_size=B\)"),
        ({"epochs": 2}, "use steps="),
        ({"log_evry": 2}, "did you mean log_every="),
        ({"seed": -1}, "seed.*at least 0.*-1"),
        ({"precision": "float16"}, "precision.*float32, float64.*float16"),
        ({"log_every": 0}, "log_every.*at least 1"),
        ({"evaluation_points": 1}, "evaluation_points.*at least 2"),
        ({"points_per_rank": None, "points": np.zeros((3, 2))}, r"shape \[n, 1\].*\[3, 2\]"),
        ({"points": np.zeros((3, 1))}, "points_per_rank"),
        ({"optimizer": 1e-3}, r"such as Adam\(1e-3\).*got 0.001"),
        ({"points_per_rank": 1}, "at least 2.*1"),
    ],
)
def test_refuses_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small(poisson(), **options)


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
def test_a_bad_residual_on_one_rank_is_an_error_on_all() -> None:
    culprit = sp.size() - 1
    bad = Problem(Interval(0, 1), lambda u, x: None, name="bad")
    problem = bad if sp.rank() == culprit else poisson()
    with pytest.raises(InputError, match="got None"):
        small(problem, mode="ensemble")


def test_refuses_a_network_that_the_engine_cannot_use() -> None:
    with pytest.raises(InputError, match="expected a Keras 3 model.*got Dense, a layer"):
        small(poisson(), network=lambda d, m, *, seed, dtype: keras.layers.Dense(m))


class Unheeding(MLP):
    """A network that reads its own weights, whatever it is given."""

    def apply(self, parameters: Any, x: Any) -> Any:
        return super().apply(self.trainable_variables, x)


def test_refuses_a_network_that_does_not_use_the_weights_that_it_is_given() -> None:
    with pytest.raises(InputError, match="the network reads the trainable variables.*kernel"):
        small(poisson(), network=Unheeding)


def test_a_captured_variable_is_refused_before_training() -> None:
    coefficient = tf.Variable(0.5, name="diffusivity")
    problem = Problem(Interval(0, 1), lambda u, x: coefficient * laplacian(u, x) - 1.0)
    with pytest.raises(InputError, match="trainable variable 'diffusivity' = 0.5"):
        small(problem)

"""What a training returns predicts on the ranks that have the weights, and from its files."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from trainings import shared

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import Interval, Problem, laplacian, poisson
from sciml_par.results import Result
from sciml_par.results.stored.keras_models import assign
from sciml_par.training import Adam, Ensemble, train

pytestmark = pytest.mark.ranks(most=2, reason="two ranks show what more would")

X = np.linspace(-1, 1, 30)[:, None]
STEPS = 40


def width(rank: int) -> int:
    """Other networks on ranks 1, 3, … than on ranks 0, 2, …."""
    return 4 + rank % 2


class Unsavable(keras.Model):
    """A network that Keras cannot make from its configuration."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = keras.layers.Dense(width, "tanh")
        self.out = keras.layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self.out(self.hidden(inputs))

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError("no configuration")


def trained(mode: Any, network: Any, problem: Problem | None = None) -> Result:
    """A training whose loss ends above its best: the rate is too high."""
    return train(
        problem or poisson(k=1),
        mode=mode,
        network=network,
        points=12,
        steps=STEPS,
        evaluation_points=11,
        optimizer=Adam(learning_rate=2.0),
        progress=False,
    )


@cache
def ensemble() -> Result:
    network = partial(MLP, width=width(sp.rank()), depth=1)
    return trained(Ensemble(members_per_rank=2), network)


@cache
def one_model() -> Result:
    return trained("data", partial(MLP, width=4, depth=1))


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
def test_rank_0_predicts_with_the_networks_of_all_ranks() -> None:
    result = ensemble()
    mine = [network(X).numpy() for network in result.networks]
    everyone = sum(sp.current_world().communicator.allgather_object(mine), [])
    if sp.rank() > 0:
        with pytest.raises(InputError, match="Predict on rank 0, which has those of all members"):
            result.predict(X)
        return
    np.testing.assert_allclose(result.predict(X).members, everyone, atol=1e-5)


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
def test_in_mode_data_all_ranks_predict_alike() -> None:
    mean = one_model().predict(X).mean
    np.testing.assert_allclose(mean, one_model().networks[0](X), atol=1e-5)
    everyone = sp.current_world().communicator.allgather_object(mean)
    for theirs in everyone:
        np.testing.assert_array_equal(theirs, everyone[0])


@pytest.mark.parametrize("make", [ensemble, one_model])
def test_the_last_weights(make: Any) -> None:
    best = make()
    last = best.using("last")
    told = [(m.kept_loss, m.prediction.relative_l2_error) for m in last.members]
    everyone = sp.current_world().communicator.allgather_object(told)
    np.testing.assert_allclose(everyone, [told] * sp.size())
    assert any(m.kept_loss > n.kept_loss for m, n in zip(last.members, best.members, strict=True))
    assert len(last.networks) == len(best.networks)
    mine = [m for m in last.members if sp.rank() in [each.rank for each in m.contributions]]
    for network, member in zip(last.networks, mine, strict=True):
        u = network(member.prediction.x.astype("float32")).numpy()
        np.testing.assert_allclose(member.prediction.u, u, atol=1e-5)
    for network, other in zip(best.networks, last.networks, strict=True):
        assert network is not other


def test_from_its_files_it_predicts_the_same(tmp_path: Path) -> None:
    result = ensemble()
    folder = result.save(shared(tmp_path) / "run", plots=False)
    if sp.rank() == 0:
        found = Result.load(folder)
        architectures = {width(rank) for rank in range(sp.size())}
        assert len(list(folder.glob("network-*.keras"))) == len(architectures)
        np.testing.assert_allclose(found.predict(X).members, result.predict(X).members, atol=1e-5)
        assert found.arguments["steps"] == STEPS and found.arguments["problem"] == "poisson, k = 1"
        for mine, theirs in zip(result.history, found.history, strict=True):
            np.testing.assert_array_equal(mine.losses, theirs.losses)
            assert mine.terms.keys() == theirs.terms.keys() == {"residual", "dirichlet"}
    sp.barrier()


def test_a_network_that_keras_cannot_save_predicts_where_it_was_trained(tmp_path: Path) -> None:
    """On rank 0 the network of that rank serves, as far as it is of the same architecture."""
    result = trained("ensemble", lambda: Unsavable(4))
    result.save(shared(tmp_path) / "run", plots=False)
    if sp.rank() == 0:
        assert result.predict(X).members.shape == (sp.size(), 30, 1)
    other = trained("ensemble", lambda: Unsavable(width(sp.rank())))
    if sp.rank() == 0 and sp.size() > 1:
        with pytest.raises(InputError, match="network of member 1 is not here, since Keras could"):
            other.predict(X)


def residual_network() -> keras.Model:
    """Not dense layers alone one after the other, so that Keras' own functions are called."""
    x = keras.Input((1,))
    first = keras.layers.Dense(4, "tanh")(x)
    second = keras.layers.Dense(4, "tanh")(first)
    return keras.Model(x, keras.layers.Dense(1)(keras.layers.Add()([first, second])))


def test_a_keras_model_and_what_the_problem_makes_of_it(tmp_path: Path) -> None:
    """All ranks have one problem, so that rank 0 can predict with the networks of all."""
    problem = Problem(
        Interval(-1, 1),
        lambda u, x: laplacian(u, x) + 1.0,
        ansatz=lambda u, x: (1 - x**2) * u(x),
        input_scaling=True,
        outputs=("temperature",),
    )
    result = trained("ensemble", residual_network, problem)
    folder = result.save(shared(tmp_path) / "run", plots=False)
    if sp.rank() == 0:
        x = result.members[0].prediction.x
        expected = np.stack([member.prediction.u for member in result.members])
        np.testing.assert_allclose(result.predict(x).members, expected, atol=1e-4)
        with pytest.raises(InputError, match="Give the problem that it was trained on"):
            Result.load(folder).predict(x)
        found = Result.load(folder, problem=problem)
        assert found.members[0].prediction.fields == ("temperature",)
        np.testing.assert_allclose(found.predict(x).members, expected, atol=1e-4)
    sp.barrier()


def of_factor(factor: float) -> Problem:
    """Its ansatz multiplies the network."""
    return Problem(
        Interval(-1, 1),
        lambda u, x: u(x) - factor,
        ansatz=lambda u, x: factor * u(x),
        name="factor",
    )


def test_each_member_predicts_by_the_ansatz_of_its_problem(tmp_path: Path) -> None:
    """Whatever the size of what they predict, and wherever they were trained."""
    factors = (1e-5, 1.002e-5)
    problems = [of_factor(factor) for factor in factors]
    mode = Ensemble(members=2, problems=problems, seeds=[7, 7])
    result = trained(mode, partial(MLP, width=4, depth=1), problems[0])
    folder = result.save(shared(tmp_path) / "run", plots=False)
    merged = Result.merge([result, result])
    if sp.rank() == 0:
        with_given = Result.load(folder, problem=[of_factor(factor) for factor in factors])
        for found in (result, with_given, merged):
            for j, values in enumerate(found.predict(X).members):
                member = found.members[j]
                model = MLP(1, 1, width=4, depth=1)
                assign(model, member.weights.best)
                np.testing.assert_allclose(values, factors[j % 2] * model(X).numpy(), rtol=1e-4)
        with pytest.raises(InputError, match="its ansatz or its input scaling is another one"):
            Result.load(folder, problem=problems[::-1])
    if sp.size() == 2:
        alone = trained("ensemble", partial(MLP, width=4, depth=1), problems[sp.rank()])
        if sp.rank() == 0:
            with pytest.raises(InputError, match="ansatz of member 1 differs from.*on rank 1"):
                alone.predict(X)
    sp.barrier()

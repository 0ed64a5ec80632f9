"""Trainings with the networks of this package: members together, and inputs scaled by default."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
import numpy as np
import pytest

import sciml_par.parallel as sp
from sciml_par.networks import MLP, FourierFeatures, PeriodicEmbedding, PirateNet
from sciml_par.problems import Box, Dirichlet, Interval, Problem, laplacian
from sciml_par.results import Result
from sciml_par.training import Adam, Ensemble, train
from sciml_par.training.preparation.member_preparation import network_of_member

pytestmark = pytest.mark.ranks(most=1, reason="the networks are local to a rank")

LONG = Problem(Interval(0, 50), lambda u, x: laplacian(u, x) - 0.01, conditions=[Dirichlet(0.0)])
OPTIONS: dict[str, Any] = {
    "optimizer": Adam(1e-2),
    "steps": 5,
    "points": 9,
    "precision": "float64",
    "evaluation_points": 5,
    "progress": False,
}
blocks = partial(PirateNet, width=4, depth=1, embedding=FourierFeatures(2, scale=0.5))


@pytest.mark.long
def test_members_together_are_those_trained_alone_and_are_loaded_again(tmp_path: Any) -> None:
    """With inputs scaled by default, which the files of a result need not say."""
    result = train(LONG, network=blocks, mode=Ensemble(members=2), **OPTIONS)
    assert [member.stacked_with for member in result.members] == [(0, 1)] * 2
    member = result.members[1]

    def of_its_seed(d: int, m: int, *, dtype: str) -> Any:
        return blocks(d, m, seed=member.seed, dtype=dtype)

    alone = train(LONG, network=of_its_seed, **OPTIONS)
    np.testing.assert_allclose(member.losses, alone.members[0].losses, rtol=1e-9)
    x = np.linspace(0, 50, 7)[:, None]
    mine = alone.predict(x).mean
    z = (x - 25) / 25
    np.testing.assert_allclose(mine, alone.networks[0](z), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(mine, LONG.field(alone.networks[0])(x), rtol=1e-12, atol=1e-14)
    if sp.rank() == 0:
        alone.save(tmp_path / "run", plots=False)
        loaded = Result.load(tmp_path / "run", problem=LONG)
        np.testing.assert_allclose(loaded.predict(x).mean, mine, rtol=1e-12, atol=1e-14)


def test_scaling_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    train(LONG, network=partial(MLP, width=3, depth=1), **{**OPTIONS, "progress": True})
    said = capsys.readouterr().out
    assert said.count("the network sees x from 0 to 50 mapped to [−1, 1]; Problem(...") == 1


def decided(problem: Problem, network: Any, *, centres: bool = False) -> tuple[Any, Any]:
    optimizers = [type("Preferring", (), {"prefers_centres": True})()] if centres else []
    made = network_of_member(
        problem, network, seed=0, members=1, dtype="float32", optimizers=optimizers
    )
    return problem.for_network(made.model).input_scaling, made.model


def test_whose_inputs_are_scaled_by_default() -> None:
    """Not those of a network that has units of x in it, or may have."""
    assert decided(LONG, None)[0] is decided(LONG, "modified")[0] is True
    periodic = PeriodicEmbedding([0], domain=LONG.domain)
    own = keras.Sequential([keras.layers.Rescaling(0.02), keras.layers.Dense(1)])

    class Mine(MLP):
        pass

    for network in (partial(MLP, embedding=periodic), partial(PirateNet, embedding=periodic)):
        assert decided(LONG, network)[0] is None
    assert decided(LONG, own)[0] is decided(LONG, Mine)[0] is None
    # The box of the centres is that of what the network sees.
    assert decided(LONG, None, centres=True)[1].box == ((-1.0,), (1.0,))
    embedded = partial(MLP, embedding=periodic)
    assert decided(LONG, embedded, centres=True)[1].box == ((0.0,), (50.0,))


@pytest.mark.parametrize(
    ("lower", "upper", "scaled"),
    [
        ([-1, -1], [1, 1], None),
        ([0, 0], [1, 10], None),
        ([0, 0], [1, 10.5], True),
        ([-11, 0], [-10.5, 1], True),
        ([0, 0], [0.05, 1], True),
    ],
)
def test_which_domains_are_unusual(lower: Any, upper: Any, scaled: Any) -> None:
    box, equation = Box(lower, upper), lambda u, x: u(x)
    model = MLP(2, 1)
    assert Problem(box, equation).for_network(model).input_scaling is scaled
    for chosen in (True, False):
        problem = Problem(box, equation, input_scaling=chosen)
        assert problem.for_network(model) is problem

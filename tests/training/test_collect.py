"""Arrays travel to rank 0 alone, in parts, and no more of them than figures need."""

from __future__ import annotations

import pickle
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.evaluation import Prediction
from sciml_par.networks import MLP
from sciml_par.parallel import Communicator
from sciml_par.problems import Box, Interval, Problem, function_approximation
from sciml_par.results import PredictionElsewhere, Result
from sciml_par.training import Ensemble, train
from sciml_par.training.outcome import collect as gather
from sciml_par.training.outcome.collect import objects_to_root, sample_for_figures

SEVERAL = pytest.mark.skipif("sp.size() == 1", reason="all arrays are on rank 0")


def rows_of(rank: int) -> np.ndarray:
    """Other rows on each rank, and none on rank 1."""
    count = 0 if rank == 1 else 7 + 3 * rank
    return np.random.default_rng(rank).normal(size=(count, 3))


@pytest.mark.parametrize("part", [64, 1 << 24])
def test_objects_arrive_whole_however_they_are_cut(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []
    send = gather.alltoall

    def noting(tensor: Any, *arguments: Any, **options: Any) -> Any:
        lengths.append(int(tensor.shape[0]))
        return send(tensor, *arguments, **options)

    monkeypatch.setattr(gather, "alltoall", noting)
    monkeypatch.setattr(gather, "_BYTES_PER_PART", part)
    everyone = sp.current_world().communicator
    found = objects_to_root((everyone.rank, rows_of(everyone.rank)), everyone)
    assert [rank for rank, _ in found] == list(range(everyone.size) if everyone.rank == 0 else [])
    for rank, rows in found:
        np.testing.assert_array_equal(rows, rows_of(rank))
    assert max(lengths, default=0) <= max(1, part // everyone.size)


@pytest.mark.ranks(most=1, reason="local")
def test_a_sample_is_bounded_and_spread() -> None:
    few = np.arange(10.0)[:, None]
    assert sample_for_figures(few, 4) is few
    many = np.linspace(0, 1, 100_001)[:, None]
    for ranks, count in ((1, 2000), (4, 500), (5000, 2)):
        sample = sample_for_figures(many, ranks)[:, 0]
        assert len(sample) == count
        assert (sample[0], sample[-1]) == (0.0, 1.0)
        assert (np.diff(sample) > 0).all()
        assert count == 2 or np.diff(sample).max() < 20 / count


def height(rank: int) -> float:
    """Of a rank's domain: that of the box around all on ranks 0, 2, …, and another on 1, 3, …."""
    return 2.0 - rank % 2


def own_domain() -> Problem:
    domain = Box([0.0, 0.0], [1.0, height(sp.rank())])
    return Problem(
        domain, lambda u, x: u(x) - x[:, 0:1], exact=lambda x: x[:, 0:1], name=f"{sp.rank()}"
    )


@cache
def ensemble() -> Result:
    return train(
        own_domain(),
        mode=Ensemble(members_per_rank=2),
        points=16,
        steps=12,
        log_every=5,
        evaluation_points=30,
        network=partial(MLP, width=4, depth=1),
        progress=False,
    )


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
def test_numbers_on_all_ranks_and_arrays_on_rank_0_and_their_own() -> None:
    result = ensemble()
    everyone = sp.current_world().communicator
    seen = [
        (m.number, m.problem, m.loss, m.losses.tolist(), m.loss_steps.tolist(), m.status)
        + (m.on_own_domain.relative_l2_error, m.prediction.relative_l2_error, m.on_own_domain.known)
        + (m.contributions[0].points,)
        for m in result.members
    ]
    assert everyone.allgather_object(seen) == [seen] * everyone.size
    assert [entry[4] for entry in seen] == [[0, 5, 10, 12]] * len(seen)
    for member in result.members:
        here = sp.rank() in (0, member.rank)
        kind = Prediction if here else PredictionElsewhere
        assert type(member.prediction) is type(member.on_own_domain) is kind
        assert (member.weights is not None) == here
        sample = member.contributions[0].sample
        assert len(sample) == (member.contributions[0].points if here else 0)


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
def test_the_arrays_on_rank_0_are_those_of_the_member() -> None:
    result = ensemble()
    everyone = sp.current_world().communicator
    mine = [
        (m.prediction, m.on_own_domain, m.contributions[0].sample, m.weights)
        for m in result.members[2 * sp.rank() :][:2]
    ]
    theirs = everyone.allgather_object(mine)
    if sp.rank() > 0:
        return
    for member, (prediction, own, sample, weights) in zip(
        result.members, sum(theirs, []), strict=True
    ):
        for name in ("best", "last"):
            np.testing.assert_array_equal(getattr(member.weights, name), getattr(weights, name))
            assert getattr(member.weights, name).dtype == np.float32
        for found, sent in ((member.prediction, prediction), (member.on_own_domain, own)):
            for name in ("x", "u", "u_exact"):
                np.testing.assert_array_equal(getattr(found, name), getattr(sent, name))
        np.testing.assert_array_equal(member.contributions[0].sample, sample)
        assert own.x[:, 1].max() == height(member.rank)
        assert prediction.x[:, 1].max() == 2.0


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
@SEVERAL
def test_arrays_that_are_elsewhere_are_asked_for_in_vain_with_a_sentence() -> None:
    other = ensemble().members[0 if sp.rank() > 0 else -1]
    if sp.rank() == 0:
        assert isinstance(other.on_own_domain, Prediction)
        return
    for name in ("x", "u", "u_exact"):
        with pytest.raises(InputError, match=rf"\({name}\) are on rank 0 and on the rank that"):
            getattr(other.on_own_domain, name)


@pytest.mark.ranks(most=2, reason="two ranks show what more would")
@pytest.mark.parametrize("mode", ["data", "ensemble"])
def test_points_predictions_and_weights_go_to_rank_0_alone(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    exchange = Communicator.allgather_object

    def noting(self: Communicator, value: Any) -> Any:
        sizes.append(len(pickle.dumps(value)))
        return exchange(self, value)

    monkeypatch.setattr(Communicator, "allgather_object", noting)
    domain = Interval(0, 1)
    train(
        function_approximation(np.sin, domain=domain),
        mode=mode,
        network=partial(MLP, width=4, depth=1),
        points=domain.grid(1500),
        steps=10,
        evaluation_points=1500,
        progress=False,
    )
    assert max(sizes) < 8000

"""Replicas that rounding drives apart are brought together; others are refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from engine import State
from trainings import everywhere, quick

import sciml_par.parallel as sp
from sciml_par.errors import TrainingError
from sciml_par.problems import Interval, function_approximation
from sciml_par.results import Result
from sciml_par.training import Adam
from sciml_par.training.run.meeting import digest_of
from sciml_par.training.run.run import bring_together

several = pytest.mark.skipif("sp.size() == 1", reason="one replica is alone")
small = partial(
    quick, function_approximation(np.sin, domain=Interval(0, 1)), points=9, steps=300, log_every=50
)


class Rounding(Adam):
    """As on a processor that rounds each update a little higher, the higher the rank."""

    amount = 2e-7

    def update(self, layout: Any, parameters: Any, *others: Any) -> Any:
        parameters, state = super().update(layout, parameters, *others)
        return parameters * (1 + self.amount * sp.rank()), state


class Parting(Rounding):
    amount = 1e-2


def weights(result: Result) -> bytes:
    return b"".join(v.numpy().tobytes() for v in result.networks[0].trainable_variables)


def state(shift: float, dtype: Any = np.float32) -> State:
    parameters = tf.constant(np.linspace(1, 2, 5).astype(dtype)[None] + dtype(shift))
    count, loss = tf.zeros([1], tf.int32), tf.zeros([1], dtype)
    return State(
        parameters=parameters,
        optimizer=(parameters, tf.zeros([1, 5], dtype)),
        ended=count,
        steps=count + 7,
        best=parameters,
        best_loss=loss,
        best_step=count,
        reference_loss=loss,
        reference_step=count,
        epoch_loss=loss,
    )


def test_a_difference_of_one_bit_shows_in_the_digest() -> None:
    assert digest_of(state(0.0)) == digest_of(state(0.0))
    assert digest_of(state(0.0)) != digest_of(state(np.finfo(np.float32).eps))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_get_the_state_of_rank_0(dtype: Any) -> None:
    everyone = sp.current_world().communicator
    step = 10 * np.finfo(dtype).eps
    together, drift = bring_together(state(step * everyone.rank, dtype), 7, everyone)
    for found, expected in zip(
        tf.nest.flatten(together), tf.nest.flatten(state(0.0, dtype)), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    assert drift == pytest.approx(step * (everyone.size - 1) / 1.54, rel=0.05)


@several
def test_what_is_more_than_rounding_is_refused() -> None:
    everyone = sp.current_world().communicator
    last = everyone.size - 1
    with pytest.raises(TrainingError, match=f"after step 7 the weights of rank {last} of"):
        bring_together(state(1e-2 * (everyone.rank == last)), 7, everyone)
    with pytest.raises(TrainingError, match="parted"):
        bring_together(state(1e-6 * (everyone.rank == last), np.float64), 7, everyone)
    with pytest.raises(TrainingError, match="parted"):
        bring_together(state(np.nan if everyone.rank == last else 0.0), 7, everyone)


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
@several
def test_drift_in_training_is_mended_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    result = small(optimizer=Rounding())
    assert len(set(everywhere(weights(result)))) == 1
    member = result.members[0]
    assert member.times_brought_together >= 2
    assert 1e-7 < member.largest_drift < 3e-4
    assert result.sound
    result.print()
    told = "rounding drove the ranks' weights apart by"
    assert (told in capsys.readouterr().out) == (sp.rank() == 0)


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
@several
def test_replicas_that_part_are_an_error_on_all_ranks() -> None:
    with pytest.raises(TrainingError, match="an optimizer that does not depend on the rank"):
        small(optimizer=Parting())

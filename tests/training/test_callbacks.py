"""What is called between chunks of steps, with what, and what it can do."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from trainings import everywhere, quick, shared

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.problems import poisson
from sciml_par.training import Adam, Callback, Checkpoint, Ensemble, Progress, TensorBoard
from sciml_par.training.run.callbacks import as_callbacks

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")
two = pytest.mark.ranks(most=2, reason="two ranks show what more would")

small = partial(quick, points=9, steps=300, log_every=50)


class Recorder(Callback):
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def _record(self, name: str, at: Progress) -> None:
        self.calls.append((name, at.step, at.steps, at.phase, at.losses, at.terms))

    def on_train_begin(self, progress: Progress) -> None:
        self._record("train begin", progress)

    def on_chunk_end(self, progress: Progress) -> None:
        self._record("chunk end", progress)

    def on_phase_end(self, progress: Progress) -> None:
        self._record("phase end", progress)

    def on_train_end(self, progress: Progress) -> None:
        self._record("train end", progress)


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
def test_all_is_called_in_order_with_the_same_numbers_on_all_ranks() -> None:
    recorder = Recorder()
    phases = [(Adam(), 100), (Adam(1e-2), 200)]
    small(poisson(), steps=None, phases=phases, callbacks=recorder)
    calls = recorder.calls
    assert all(theirs == calls for theirs in everywhere(calls))
    assert (calls[0][0], calls[0][1], calls[-1][0], calls[-1][1]) == (
        "train begin",
        0,
        "train end",
        300,
    )
    steps = [call[1] for call in calls if call[0] == "chunk end"]
    assert steps == sorted(set(steps))
    ends = [(call[1], call[3]) for call in calls if call[0] == "phase end"]
    assert ends == [(100, 0), (300, 1)]
    for _, _, asked, _, losses, terms in calls:
        assert asked == 300
        assert list(losses) == [0]
        assert sum(terms.values()) == pytest.approx(losses[0])
        assert list(terms) == ["residual", "dirichlet"]


@two
def test_the_losses_are_those_of_all_members() -> None:
    seen: list[dict[int, float]] = []
    small(poisson(), mode=Ensemble(members_per_rank=2), callbacks=lambda p: seen.append(p.losses))
    # Members that are not stacked are trained one after the other.
    assert {number for losses in seen for number in losses} == set(range(2 * sp.size()))
    assert all(theirs == seen for theirs in everywhere(seen))


@two
def test_one_rank_stops_all_before_another_step() -> None:
    def stop(progress: Progress) -> None:
        if progress.step >= 100 and sp.rank() == sp.size() - 1:
            progress.stop("enough")

    seen: list[int] = []
    result = small(poisson(), steps=10**8, callbacks=[stop, lambda p: seen.append(p.step)])
    (member,) = result.members
    assert (member.ended, member.steps) == ("enough", seen[-1])
    assert [step >= 100 for step in seen] == [False] * (len(seen) - 1) + [True]


def test_the_networks_have_the_weights_of_now() -> None:
    x = np.linspace(-1, 1, 5, dtype=np.float32)[:, None]
    seen: list[np.ndarray] = []
    result = small(poisson(), callbacks=lambda p: seen.append(np.asarray(p.networks()[0](x))))
    last = result.networks[0]
    np.testing.assert_array_equal(seen[-1], last(x))
    if len(seen) > 1:
        assert np.any(seen[0] != seen[-1])


def scalars(folder: Path) -> Iterator[tuple[str, int, float]]:
    for file in sorted(folder.glob("events*")):
        for record in tf.data.TFRecordDataset(str(file)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                assert value.metadata.plugin_data.plugin_name == "scalars"
                yield value.tag, event.step, float(tf.make_ndarray(value.tensor))


def test_tensorboard_has_every_record_of_all_terms(tmp_path: Path) -> None:
    folder = shared(tmp_path)
    result = small(poisson(), callbacks=TensorBoard(folder))
    found = everywhere(list(scalars(folder)))[0]
    member = result.members[0]
    for tag, values in {
        "loss": member.losses,
        "terms/residual": member.term_losses[:, 0],
        "terms/dirichlet": member.term_losses[:, 1],
    }.items():
        own = [(step, value) for name, step, value in found if name == tag]
        assert [step for step, _ in own] == list(range(0, 300, 50))
        np.testing.assert_allclose([value for _, value in own], values[:-1], rtol=1e-6)


@two
def test_tensorboard_has_a_folder_for_each_member_of_an_ensemble(tmp_path: Path) -> None:
    folder = shared(tmp_path)
    result = small(poisson(), mode=Ensemble(members_per_rank=2), callbacks=[TensorBoard(folder)])
    everywhere(None)  # all have written
    for member in result.members:
        own = [v for tag, _, v in scalars(folder / f"member-{member.number}") if tag == "loss"]
        np.testing.assert_allclose(own, member.losses[:-1], rtol=1e-6)


class OfKeras(keras.callbacks.Callback):
    """One of a user's own."""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (keras.callbacks.EarlyStopping(), "EarlyStopping is a callback of Keras.*stop=NoProgress"),
        (keras.callbacks.EarlyStopping, "EarlyStopping is a callback of Keras.*stop=NoProgress"),
        (keras.callbacks.ModelCheckpoint("x.keras"), r"checkpoint=Checkpoint\(folder"),
        ([keras.callbacks.TensorBoard()], "sciml_par.training.TensorBoard"),
        (keras.callbacks.LearningRateScheduler(lambda e: 1e-3), "schedule as its learning_rate"),
        (OfKeras(), "OfKeras is a callback of Keras.*make a class from sciml_par.training.Callb"),
        (TensorBoard, r"the class TensorBoard; make an object of it"),
        ([None], "expected callbacks to be functions.*got None"),
    ],
)
def test_refuses_what_is_none_and_says_what_to_use(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_callbacks(given)


@two
def test_every_so_many_steps() -> None:
    class Every(Callback):
        def __init__(self, every: int) -> None:
            self.every, self.steps = every, []

        def on_chunk_end(self, progress: Progress) -> None:
            self.steps.append(progress.step)

    often, seldom = Every(30), Every(70)
    small(poisson(), callbacks=[often, seldom] if sp.rank() == 0 else [seldom])
    assert seldom.steps == [70, 140, 210, 280]
    assert sp.rank() > 0 or often.steps == list(range(30, 301, 30))
    with pytest.raises(InputError, match="every of Every must be an integer of at least 1, got 0"):
        small(poisson(), callbacks=Every(0))


def test_a_method_that_is_never_called_is_refused() -> None:
    class Habit(Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None: ...

    with pytest.raises(InputError, match="on_epoch_end of Habit is never called.*on_chunk_end"):
        as_callbacks(Habit())


@two
def test_chunks_that_are_cut_short_do_not_make_the_next_ones_ever_longer(tmp_path: Path) -> None:
    """The length that is asked for must not grow by a factor at each of them."""
    folder = shared(tmp_path)
    steps: list[int] = []
    small(
        poisson(),
        steps=400,
        checkpoint=Checkpoint(folder, every=2),
        callbacks=lambda p: steps.append(p.step),
    )
    # A machine under load may make the first step alone.
    assert steps[steps.index(2) :] == list(range(2, 401, 2))

"""What a program does between chunks of steps."""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_integer
from sciml_par.errors import InputError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.loop.course import Course
from sciml_par.training.loss.traced_terms import trace_terms
from sciml_par.training.run.meeting import Meeting
from sciml_par.training.run.watcher import NO_LIMIT, Watcher

FloatArray = npt.NDArray[np.float64]

_INSTEAD = {
    "EarlyStopping": "give stop=NoProgress(2000) or stop=TargetLoss(1e-6)",
    "ModelCheckpoint": "give checkpoint=Checkpoint(folder, every=1000); the best weights are kept "
    "in any case",
    "BackupAndRestore": "give checkpoint=Checkpoint(folder, every=1000) and resume='auto'",
    "TensorBoard": "use sciml_par.training.TensorBoard(folder)",
    "LearningRateScheduler": "give the optimizer a schedule as its learning_rate",
    "ReduceLROnPlateau": "give the optimizer a schedule as its learning_rate, or phases of which "
    "NoProgress ends each",
    "TerminateOnNaN": "leave it out: the training of a model ends if its loss is not finite",
    "CSVLogger": "use result.save(folder), which writes history.csv",
    "History": "use result.members[0].losses and term_losses",
    "ProgbarLogger": "give progress=True",
    "LambdaCallback": "give a function f(progress), which is called between chunks of steps",
}


class Progress:
    """The progress of a training, as callbacks see it between chunks of steps.

    Attributes
    ----------
    step, steps : made by this rank's models in all phases, and asked for.
    phase : the number of the phase that this rank is in, from 0.
    losses : of all members in training on all ranks, by their numbers.
    terms : of the loss by name, of this rank's first member in training, or of its last one.
    unknowns : of the problem, by name, the values of all members in training on all ranks.
    seconds : since the start of the training, by this rank's clock.
    """

    def __init__(self, meeting: Meeting, *, phase: int, seconds: float) -> None:
        self._meeting = meeting
        mine = meeting.course
        self.step, self.steps = meeting.done, meeting.steps_asked
        self.phase = phase
        self.losses = {
            number: loss
            for status in meeting.everyone
            for number, loss in zip(status.numbers, status.losses, strict=True)
        }
        values = meeting.everyone[meeting.rank].terms
        self.terms = dict(zip([t.name for t in mine.stack.terms], values, strict=True))
        self.unknowns = meeting.unknowns
        self.seconds = seconds
        self.reason: str | None = None
        self._handed_out: list[tuple[Any, Any]] = []

    def __repr__(self) -> str:
        return f"Progress(step {self.step:,} of {self.steps:,}, phase {self.phase})"

    def stop(self, reason: str = "a callback") -> None:
        """Ask all ranks to make no more steps. The members' `ended` holds the reason (local)."""
        if not isinstance(reason, str) or not reason:
            raise InputError(f"progress.stop: expected a reason, a text; got {reason!r}.")
        self.reason = self.reason or reason

    def networks(self) -> list[Any]:
        """Return this rank's networks with copies of the present weights (local)."""
        found: dict[int, Any] = {}
        for course in self._meeting.courses:
            rows = course.state.parameters.numpy()
            for setup, row in zip(course.stack.setups, rows, strict=True):
                values = course.stack.layout.unflatten(row)
                # Behind the weights there are the parameters of unknowns.
                for variable, value in zip(setup.network.trainable_variables, values, strict=False):
                    variable.assign(value)
                    self._handed_out.append((variable, value))
                found[setup.number] = setup.network.model
        return [found[number] for number in sorted(found)]

    def written(self) -> bool:
        """Return whether a callback has changed the weights of the networks it got (local)."""
        pairs = [(np.asarray(v), np.asarray(value)) for v, value in self._handed_out]
        return any(not np.array_equal(*pair, equal_nan=True) for pair in pairs)

    @property
    def courses(self) -> Sequence[Course]:
        """This rank's stacked members, with all that they have recorded."""
        return self._meeting.courses

    @property
    def speaks(self) -> bool:
        """Whether this is the first of the ranks that train its members."""
        return self._meeting.speaks

    @property
    def ensemble(self) -> bool:
        """Whether the training is in mode "ensemble"."""
        return self._meeting.ensemble


class Callback:
    """Functions that `train` calls between chunks of steps, about twice a second, on every rank.

    Override the ones that you need; these do nothing. All ranks call a function at the same time
    and may communicate in it, except in `on_phase_end` of ensembles, whose members may end a phase
    at different times. An error in a callback ends the training.

    Attributes
    ----------
    every : the steps between calls of `on_chunk_end`, an integer of at least 1; chunks then end at
        its multiples, and it is called nowhere else. In an ensemble, it is called when the members
        of any rank have passed a multiple. By default None, about twice a second.

    Examples
    --------
    >>> from sciml_par.training import Callback
    >>> class EveryHundredSteps(Callback):
    ...     every = 100
    ...
    ...     def on_chunk_end(self, progress):
    ...         print(progress.step, progress.losses)
    """

    every: int | None = None

    def on_train_begin(self, progress: Progress) -> None:
        """Called after compilation, with the losses before the first step."""

    def on_chunk_end(self, progress: Progress) -> None:
        """Called after some steps, whose number depends on the clock, unless `every` has it."""

    def on_phase_end(self, progress: Progress) -> None:
        """Called when this rank's members have ended the phase `progress.phase`."""

    def on_train_end(self, progress: Progress) -> None:
        """Called after the last step."""


class _Function(Callback):
    def __init__(self, function: Callable[[Progress], Any]) -> None:
        self._function = function

    def on_chunk_end(self, progress: Progress) -> None:
        self._function(progress)


def as_callbacks(callbacks: Any) -> tuple[Callback, ...]:
    """Return one callback or several as a tuple; functions are called at the end of chunks."""
    given = list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks]
    return tuple(_as_callback(each) for each in given)


def _as_callback(value: Any) -> Callback:
    if isinstance(value, Callback):
        _check_callback(value)
        return value
    kind = value if isinstance(value, type) else type(value)
    of_keras = [k for k in kind.__mro__ if k.__module__.split(".")[0] in ("keras", "tf_keras")]
    if of_keras:
        instead = next((_INSTEAD[k.__name__] for k in of_keras if k.__name__ in _INSTEAD), None)
        if instead is None:
            instead = "make a class from sciml_par.training.Callback, whose on_chunk_end(progress) "
            instead += "is called between chunks of steps"
        raise InputError(
            f"train: {kind.__name__} is a callback of Keras' fit, which is not used here; "
            f"{instead}."
        )
    if isinstance(value, type) and issubclass(value, Callback):
        raise InputError(
            f"train: callbacks has the class {value.__name__}; make an object of it, as "
            f"{value.__name__}(…)."
        )
    if callable(value) and not isinstance(value, type) and _takes_one(value):
        return _Function(value)
    raise InputError(
        f"train: expected callbacks to be functions f(progress), called between chunks of steps, "
        f"or objects of classes made from sciml_par.training.Callback; got {value!r}"
        f"{f', of {inspect.signature(value)}' if callable(value) else ''}."
    )


def _check_callback(callback: Callback) -> None:
    """Check that every method that looks like one of a callback is called."""
    kind = type(callback)
    if callback.every is not None:
        checked_integer(callback.every, f"train: every of {kind.__name__}", least=1)
    for name in dir(kind):
        called = name.startswith("on_") and name.endswith(("_begin", "_end"))
        if called and not hasattr(Callback, name):
            raise InputError(
                f"train: {name} of {kind.__name__} is never called. Write on_chunk_end(self, "
                f"progress), which is called about twice a second, or, with every = k in the "
                f"class, every k steps."
            )


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None)
    except ValueError:  # of functions that are not written in Python
        return True
    except TypeError:
        return False
    return True


class CallbackWatcher(Watcher):
    """Call callbacks, each of which may stop all ranks before another step (collective)."""

    def __init__(self, callbacks: Sequence[Callback], world: Communicator) -> None:
        self._callbacks, self._world = callbacks, world
        self._began: float | None = None
        self._at: tuple[int, int] | None = None
        self._step = self._of_all = 0
        # Of all ranks, so that they make chunks of the same length.
        mine = {each.every for each in callbacks if each.every is not None}
        self._periods = frozenset().union(*world.allgather_object(mine))
        self._multiples: dict[int, list[int]] = {}
        self._warned = False

    def longest_chunk(self, step: int) -> int:
        return min([every - step % every for every in self._periods], default=NO_LIMIT)

    def met(self, meeting: Meeting) -> None:
        if not self._callbacks:
            return
        course = meeting.course
        at = (meeting.worked, course.position.phase)
        step = meeting.done
        if self._began is None:
            self._began, self._at, self._step = time.monotonic(), at, step
            self._of_all = sum(status.done for status in meeting.everyone)
            self._call(meeting, ["on_train_begin"], at[1])
        else:
            # A rank that has no more steps calls as well: others may communicate there.
            before = self._at or at
            phase_over = before != at or (course.finished and step != self._step)
            self._at, self._step = at, step
            of_all = sum(status.done for status in meeting.everyone)
            compiled, self._of_all = of_all == self._of_all, of_all
            names = [] if compiled else ["on_chunk_end"]
            self._call(meeting, [*names, *(["on_phase_end"] if phase_over else [])], before[1])
        if meeting.over:
            self._call(meeting, ["on_train_end"], at[1])

    def _call(self, meeting: Meeting, names: Sequence[str], phase: int) -> None:
        seconds = time.monotonic() - (self._began or 0.0)
        progress = Progress(meeting, phase=phase, seconds=seconds)
        due = set()  # the periods of which some rank has passed a multiple
        for every in self._periods:
            now = [status.done // every for status in meeting.everyone]
            if self._multiples.get(every, now) != now:
                due.add(every)
            self._multiples[every] = now
        for name in names:
            for callback in self._callbacks:
                if name != "on_chunk_end" or callback.every is None or callback.every in due:
                    getattr(callback, name)(progress)
        if progress.written() and self._world.rank == 0 and not self._warned:
            self._warned = True
            warnings.warn(
                "train: a callback has changed weights of progress.networks(), which are copies "
                "that the training does not read. To change weights, train again with "
                "network=model.",
                RuntimeWarning,
                stacklevel=2,
            )
        over = "on_train_end" in names
        changed = over and any(computes_something_else(course) for course in meeting.courses)
        asked = self._world.allgather_object((progress.reason, changed))
        if any(changed for _, changed in asked) and self._world.rank == 0:
            warnings.warn(
                "train: the residuals, conditions or ansatz have changed since the training "
                "started, and the training did not see this change. To change a number in a "
                "callback, keep it in a tf.Variable(1.0, trainable=False) and assign to that.",
                RuntimeWarning,
                stacklevel=2,
            )
        reason = next((each for each, _ in asked if each is not None), None)
        if reason is not None and not meeting.over:
            meeting.stop_all(reason)


def computes_something_else(course: Course) -> bool:
    """Return whether the terms of the loss, traced again, differ from those trained."""
    setup = course.stack.setups[0]
    before = setup.traced.key
    if before is None:
        return False
    try:
        now = trace_terms(
            setup.problem,
            setup.network,
            dtype=course.stack.parameters.dtype.name,
            arrays=setup.feed.arrays,
            rows=setup.feed.totals,
        ).key
    except Exception:  # a function that fails now must not cost the result
        return False
    return now is not None and now != before

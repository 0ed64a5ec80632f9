"""Trainings of accuracy.py by `sciml_par.train`, with their error along the way."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from _accuracy_curves import OVER, AbsentError, Clock, Curve, ErrorOf, Limits, exact_of
from _accuracy_problems import Case, network

import sciml_par.training as training
from sciml_par.evaluation import relative_l2_error
from sciml_par.training import Adam, Callback, Progress

OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "lm": ("LevenbergMarquardt", {}),
    "lm-scaled": ("LevenbergMarquardt", {"scale_columns": True}),
    "lbfgs": ("LBFGS", {}),
    "ssbroyden": ("SSBroyden", {}),
}
"""By its name here, the class in sciml_par.training, and options that are not its defaults."""


class Recorder(Callback):
    """Measures the error between chunks of steps, and ends the training when its time is over."""

    def __init__(self, case: Case, problem: Any, limits: Limits) -> None:
        self.curve = Curve()
        self._case, self._problem, self._limits = case, problem, limits
        self._error_of: ErrorOf | None = None

    def on_train_begin(self, progress: Progress) -> None:
        """See `Callback`."""
        course = progress.courses[0]
        stack = course.stack
        self._error_of = ErrorOf(
            self._case,
            self._problem,
            stack.setups[0].network,
            stack.layout,
            self._limits.dtype,
        )
        self._record(progress, 0.0)
        self._compiled = course.seconds_compile
        self._clock = Clock(cpu=self._limits.cpu)
        self._before = 0.0

    def on_chunk_end(self, progress: Progress) -> None:
        """See `Callback`."""
        course = progress.courses[0]
        if course.seconds_compile > self._compiled:
            # A chunk that is the first of its loop is one step, and counts as compilation.
            self._clock.leave_out(self._clock.seconds - self._before)
        self._compiled = course.seconds_compile
        with self._clock.stopped():
            seconds = self._clock.seconds
            self._record(progress, seconds)
            if seconds >= self._limits.seconds:
                progress.stop(OVER)

    def _record(self, progress: Progress, seconds: float) -> None:
        assert self._error_of is not None
        state = progress.courses[0].state
        # The losses are those before the last step, which made the best weights what they are.
        loss = min(progress.losses.values(), default=self.curve.rows[-1][2] if progress.step else 0)
        self.curve.add(progress.step, seconds, loss, self._error_of(state.best[0]))


def phases_of(name: str, limits: Limits) -> list[tuple[Any, int]]:
    """Return optimizers and steps for a name, such as "lm" or "adam+lbfgs"."""
    parts = name.split("+")
    steps = [limits.adam_steps] * (len(parts) - 1) + [limits.steps]
    return [(named(part), count) for part, count in zip(parts, steps, strict=True)]


def named(name: str) -> Any:
    """Return an optimizer of `OPTIMIZERS`; Adam has the rate 1e-3."""
    if name == "adam":
        return Adam(1e-3)
    of_class, options = OPTIMIZERS[name]
    kind: Any = getattr(training, of_class, None)
    if kind is None:
        raise AbsentError(f"this version of sciml_par has no {of_class}")
    return kind(**options)


def by_engine(case: Case, phases: list[tuple[Any, int]], seed: int, limits: Limits) -> Curve:
    """Train with `sciml_par.train`; the last row is the prediction of its result (collective)."""
    problem = case.make()
    recorder = Recorder(case, problem, limits)
    # The cases are those of the literature, some of them with fewer points than is good.
    warnings.filterwarnings("ignore", message=".* at the training points and .*")
    result = training.train(
        problem,
        network=network_factory(case, problem, seed),
        points=case.points(),
        phases=phases,
        precision=limits.dtype,
        callbacks=recorder,
        progress=False,
    )
    curve, member = recorder.curve, result.members[0]
    exact, points = exact_of(case, problem)
    found = member.kept_unknowns if problem.unknowns else result.predict(points).mean
    error = relative_l2_error(found, exact)
    curve.add(member.steps, curve.rows[-1][1], member.best_loss, error)
    curve.compile_seconds = member.contributions[0].seconds_compile
    curve.ended = member.ended
    return curve


def network_factory(case: Case, problem: Any, seed: int) -> Callable[..., Any]:
    """Return a function that builds the network from a fixed seed, whatever the run's seed."""

    def make(inputs: int, outputs: int, *, dtype: str) -> Any:
        return network(case, problem, seed, dtype=dtype)

    return make

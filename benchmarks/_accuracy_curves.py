"""What a training of accuracy.py has shown, and the seconds and errors that it holds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from _accuracy_problems import Case

from sciml_par._tensorflow import tf
from sciml_par.evaluation import relative_l2_error
from sciml_par.training.loss.objective import field_of

FloatArray = npt.NDArray[np.float64]

OVER = "its seconds are over"
"""Why a training ended that has had its time."""


class AbsentError(Exception):
    """An optimizer is not here; the text says why."""


@dataclass(frozen=True)
class Limits:
    """When a training ends, and how it computes.

    Attributes
    ----------
    seconds : of training.
    steps : of the last phase.
    adam_steps : of Adam where another optimizer follows.
    dtype : "float32" or "float64".
    cpu : whether seconds are those that this process has computed, not those that have passed.
    """

    seconds: float
    steps: int
    adam_steps: int
    dtype: str
    cpu: bool = False


@dataclass
class Curve:
    """What a training has shown.

    Attributes
    ----------
    rows : after how many iterations and seconds there was which loss and which relative L2 error,
        that of the weights with the least loss until then.
    compile_seconds : spent in compilation; not in the other seconds.
    ended : why it ended.
    """

    rows: list[tuple[int, float, float, float]] = field(default_factory=list)
    compile_seconds: float = 0.0
    ended: str = ""

    def add(self, step: int, seconds: float, loss: float, error: float) -> None:
        """Add a row."""
        self.rows.append((int(step), float(seconds), float(loss), float(error)))

    @property
    def error(self) -> float:
        """Return the last error."""
        return self.rows[-1][3]

    @property
    def had_its_time(self) -> bool:
        """Return whether the time limit ended the training."""
        return self.ended == OVER

    def reached(self, target: float) -> tuple[int, float] | None:
        """Return the iterations and seconds until the error was at most `target`, if it was."""
        return next((row[:2] for row in self.rows if row[3] <= target), None)


class Clock:
    """Seconds, without those in which it stands still.

    Parameters
    ----------
    cpu : whether to count those that this process has computed, not those that have passed.
    """

    def __init__(self, *, cpu: bool = False) -> None:
        self._now = time.process_time if cpu else time.perf_counter
        self._seconds = 0.0
        self._since: float | None = self._now()

    @property
    def seconds(self) -> float:
        """Return the seconds counted so far."""
        return self._seconds + (self._now() - self._since if self._since is not None else 0.0)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the clock in this context."""
        self._seconds, self._since = self.seconds, None
        try:
            yield
        finally:
            self._since = self._now()

    def leave_out(self, seconds: float) -> None:
        """Subtract seconds from the time."""
        self._seconds -= seconds


class ErrorOf:
    """How far the field with parameters θ: [p] is from the exact solution.

    The relative L2 error at the case's test points; where the problem has an unknown, |D − D*| / D*
    of that.
    """

    def __init__(self, case: Case, problem: Any, model: Any, layout: Any, dtype: str) -> None:
        self._exact, given = exact_of(case, problem)
        x = tf.constant(given, dtype)

        def values(flat: Any) -> Any:
            parameters = layout.unflatten(flat)
            if problem.unknowns:
                return tf.reshape(unknown_of(problem).value(parameters[-1]), [1])
            return field_of(problem, model, parameters)(x)

        # Called directly, TensorFlow would warn of tracing where several trainings follow.
        spec = tf.TensorSpec([layout.size], dtype)
        compiled = tf.function(values, jit_compile=True, autograph=False)
        self._values = compiled.get_concrete_function(spec)

    def __call__(self, flat: Any) -> float:
        """Compute ‖found − exact‖ / ‖exact‖ over all points and components."""
        return relative_l2_error(self._values(flat).numpy(), self._exact)


def exact_of(case: Case, problem: Any) -> tuple[Any, FloatArray]:
    """Return the solution that errors are measured against, and its evaluation points."""
    points = case.test()
    if problem.unknowns:
        return np.reshape(unknown_of(problem).true, [1]), points
    return problem.exact(points), points


def unknown_of(problem: Any) -> Any:
    """Return the unknown of a problem."""
    (found,) = problem.unknowns.values()
    return found

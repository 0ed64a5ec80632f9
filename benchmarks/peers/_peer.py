"""What every peer has in common: the case that it is given, and the commands that it serves.

A peer is a process in a separate Python environment. It reads one command a line, as JSON, and
answers each with one line of JSON. This file needs NumPy and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

LEARNING_RATE, BETA_1, BETA_2, EPSILON = 1e-3, 0.9, 0.999, 1e-7
"""Of Adam: Keras' defaults."""

_MOST_STEPS = 1_000_000


@dataclass(frozen=True)
class Case:
    """−Δu = f in a box, u = 0 on its boundary, by a tanh network.

        L(θ) = (1/n) Σ_i |Δu(x_i) + f(x_i)|² + w (1/b) Σ_j |u(y_j)|²

    Attributes
    ----------
    x, f : interior points [n, d] and f there [n, 1].
    boundary : the points y: [b, d].
    weight : w.
    weights : W1: [d, w1], b1: [w1], W2, …, the initial weights.
    dtype : "float32" or "float64", of all computation.
    """

    x: np.ndarray
    f: np.ndarray
    boundary: np.ndarray
    weight: float
    weights: list[np.ndarray]
    dtype: str

    @property
    def dimension(self) -> int:
        return int(self.x.shape[1])

    def save(self, file: Path) -> None:
        numbered = {f"weights_{k}": array for k, array in enumerate(self.weights)}
        arrays = {"x": self.x, "f": self.f, "boundary": self.boundary}
        np.savez(file, weight=self.weight, **arrays, **numbered)

    @classmethod
    def load(cls, file: str | Path, dtype: str) -> Case:
        with np.load(file) as stored:
            count = sum(name.startswith("weights_") for name in stored.files)
            return cls(
                *(stored[name].astype(dtype) for name in ("x", "f", "boundary")),
                weight=float(stored["weight"]),
                weights=[stored[f"weights_{k}"].astype(dtype) for k in range(count)],
                dtype=dtype,
            )


class Training(Protocol):
    """A training that can be continued."""

    def advance(self, steps: int) -> None:
        """Make `steps` steps of Adam, and return when they are done."""

    def loss(self) -> float:
        """Return L at the present weights."""


Trainings = Mapping[str, Callable[[Case], Training]]


def serve(trainings: Trainings, about: Mapping[str, Any]) -> None:
    """Answer commands until there are no more.

    Parameters
    ----------
    trainings : by name, what makes one from a case.
    about : versions and settings, for the record.
    """
    # Whatever a library prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(found: Any) -> None:
        print(json.dumps(found), file=answers, flush=True)

    answer({"names": list(trainings), "about": dict(about)})
    standing: dict[str, _Timed] = {}
    for line in sys.stdin:
        command = json.loads(line)
        name = command["name"]
        if command["do"] == "begin":
            case = Case.load(command["file"], command["dtype"])
            standing[name] = _Timed(partial(trainings[name], case))
            answer(standing[name].begin(command["steps"]))
        elif command["do"] == "time":
            answer(standing[name].measure(command["seconds"]))


class _Timed:
    """A training and how many steps of it fill a time."""

    def __init__(self, make: Callable[[], Training]) -> None:
        began = time.perf_counter()
        self._training = make()
        self._training.advance(1)
        self._first_step = time.perf_counter() - began
        self._seconds_per_step = 0.0

    def begin(self, steps: int) -> dict[str, float]:
        """Return the loss after `steps` steps, and the seconds until the first was done."""
        self._training.advance(steps - 1)
        return {"loss": self._training.loss(), "first_step_seconds": self._first_step}

    def measure(self, seconds: float) -> dict[str, float]:
        """Return microseconds per step, over as many steps as fill about this time."""
        if self._seconds_per_step == 0.0:
            self._estimate(seconds)
        steps = max(1, min(_MOST_STEPS, round(seconds / self._seconds_per_step)))
        self._seconds_per_step = self._time(steps)
        return {"microseconds": 1e6 * self._seconds_per_step, "steps": steps}

    def _estimate(self, seconds: float) -> None:
        steps, spent = 1, 0.0
        while spent < 0.1 * seconds and steps < _MOST_STEPS:
            self._seconds_per_step = self._time(steps)
            spent, steps = steps * self._seconds_per_step, 4 * steps

    def _time(self, steps: int) -> float:
        began = time.perf_counter()
        self._training.advance(steps)
        return (time.perf_counter() - began) / steps

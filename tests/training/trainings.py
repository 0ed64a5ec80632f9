"""What tests of trainings on several ranks share."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import sciml_par.parallel as sp
from sciml_par.networks import MLP
from sciml_par.problems import Dirichlet, Initial, Interval, Problem, Time, derivative, laplacian
from sciml_par.training import Adam, Progress, Result, train
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.preparation.preparation import Preparation, prepare

tiny = partial(MLP, width=4, depth=1)  # which compiles in half the time
quick = partial(train, network=tiny, evaluation_points=11, progress=False)
"""A short training; each file adds its options."""


def prepared(problem: Problem, **options: Any) -> tuple[Preparation, list[str]]:
    """Return what is there before the first step, and what is warned of till then (collective)."""
    given: dict[str, Any] = {each.name: None for each in fields(Arguments)}
    given |= {"network": tiny, "precision": "float64", "optimizer": Adam(), "mode": "data"}
    given |= {"keep": "best", "seed": 0, "stop": (), "evaluation_points": 11}
    with warned("") as said:
        found = prepare(Arguments(**given | {"problem": problem} | options), sp.current_world())
    return found, said


def shared(folder: Path) -> Path:
    """Return the folder of rank 0, on all ranks."""
    return sp.current_world().communicator.on_root(lambda: folder)


def everywhere(value: Any) -> list[Any]:
    return sp.current_world().communicator.allgather_object(value)


def stop_at(step: int) -> Any:
    """Return a callback that stops a training."""

    def stop(progress: Progress) -> None:
        if progress.step >= step:
            progress.stop("the test")

    return stop


def bits(result: Result) -> list[Any]:
    """Return all that a training has found but times."""
    found = []
    for m in result.members:
        weights = m.weights and (m.weights.best.tobytes(), m.weights.last.tobytes())
        numbers = (m.number, m.steps, m.ended, m.loss, m.best_loss, m.best_step)
        histories = (m.losses.tobytes(), m.term_losses.tobytes(), m.loss_steps.tolist())
        error = np.float64(m.prediction.relative_l2_error).tobytes()  # NaN as well
        found.append((numbers, histories, weights, error))
    return found


@contextmanager
def warned(text: str) -> Iterator[list[str]]:
    """Give a list that has the warnings with this text at the end."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    found += [str(each.message) for each in caught if text in str(each.message)]


def branching(u: Any, x: Any) -> Any:
    """A residual that cannot be computed for several members at once."""
    r = laplacian(u, x) - 1.0
    return tf.cond(tf.reduce_mean(r) > 0, lambda: r, lambda: 2 * r)


def branching_problem(domain: Interval, **options: Any) -> Problem:
    return Problem(domain, branching, conditions=[Dirichlet(0.0)], name="branching", **options)


def moving_front(width: float, final: float = 1.0) -> Problem:
    """u_t + u u_x = ν u_xx with a front that features do not resolve."""

    def front(x: Any) -> Any:
        return 0.5 - 0.5 * np.tanh((x[:, :1] - 0.5 * x[:, 1:] - 0.25) / (4 * width))

    def burgers(u: Any, x: Any) -> Any:
        change = derivative(u, x, "t") + u(x) * derivative(u, x, "x")
        return change - width * derivative(u, x, "x", "x")

    conditions = [Dirichlet(front, on=["left", "right"]), Initial(front)]
    return Problem(Interval(0, 1) * Time(0, final), burgers, conditions=conditions, exact=front)

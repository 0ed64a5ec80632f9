"""Networks in windows, solved for before the steps of a training."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import import_module
from sciml_par.errors import InputError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.arguments.ensemble import DATA
from sciml_par.training.optimizers.keep import Keep
from sciml_par.training.optimizers.phases import Phase
from sciml_par.training.points.points import Points
from sciml_par.training.preparation.preparation import Preparation
from sciml_par.training.preparation.remarks import solved_in_windows as in_windows
from sciml_par.training.weights.loss_weights import LossWeights
from sciml_par.training.weights.of_noise import DataFirst

Array = npt.NDArray[Any]


def solved_in_windows(ready: Preparation, everyone: Communicator) -> Preparation:
    """Solve for the output layers of windows by `LeastSquares`, if that is asked for (collective).

    What is returned has the solution as initial parameters, and one step that keeps them. Anything
    else that a training can be stays as it is.
    """
    alone = ready.settings.mode == DATA and len(ready.stacks) == 1
    asked = alone and in_windows(ready.stacks[0], ready.phases)
    if not all(everyone.allgather_object(asked)):
        return ready
    (stack,), (phase,) = ready.stacks, ready.phases
    everyone.attempt(lambda: _check(ready))
    began, notes = time.perf_counter(), []

    def said(step: int, loss: float, columns: int) -> None:
        seconds = time.perf_counter() - began
        notes.append(
            f"windows: after step {step}, {columns:,} columns, the loss is {loss:.2e} "
            f"({seconds:.1f} s)"
        )

    # It imports TensorFlow, which is not to be there before `init`.
    gauss_newton: Any = import_module("sciml_par.training.windows.gauss_newton")
    solver = gauss_newton.WindowedGaussNewton(stack, everyone, phase.optimizer)
    batch = stack.setups[0].feed.whole(0)
    theta, terms = solver.solve(stack.parameters[0], batch, phase.steps, said)
    stack.parameters[0] = theta
    keep = Keep(terms=tuple(map(float, terms)))
    return replace(
        ready,
        phases=(Phase(keep, 2),),
        notes=(*ready.notes, *notes),
        seconds_solved=time.perf_counter() - began,
        solved_by=phase.optimizer,
    )


def _check(ready: Preparation) -> None:
    """Raise where steps would have other points or other weights."""
    (stack,), points = ready.stacks, Points.of(ready.points)
    drawn = points.resample_every is not None or stack.feed.adaptive is not None
    if isinstance(ready.strategy, LossWeights) and not isinstance(ready.strategy, DataFirst):
        raise InputError(
            f"train: LeastSquares solves Windows with constant weights, and "
            f"weights={type(ready.strategy).__name__}() changes them from step to step. Give "
            f"numbers by the names of terms, or take LevenbergMarquardt()."
        )
    if drawn or stack.feed.steps_per_epoch > 1:
        raise InputError(
            "train: LeastSquares solves Windows at all points at once; leave out batch_size, "
            "resample_every and adapt."
        )
    if not np.isfinite(stack.parameters).all():
        raise InputError("train: the initial weights of the network are not finite.")

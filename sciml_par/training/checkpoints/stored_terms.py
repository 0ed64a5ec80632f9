"""The terms of the loss at the weights of a checkpoint, by which another problem is recognized."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sciml_par.training.loop.course import Course, NotStackableError

FloatArray = npt.NDArray[np.float64]

_ROUNDINGS = 4.0  # by which weights are changed to see what rounding does to the terms
_DRAWS = 2
_MARGIN = 16.0


def terms_of_now(
    course: Course, take_apart: Callable[[Course], None], parameters: FloatArray | None = None
) -> FloatArray:
    """Return the terms at the present weights, or at θ: [M, p], as [M, T] (collective).

    They are those of the batch of the next step. They show another problem, whatever it reads.
    """
    try:
        return course.terms_here(parameters)
    except NotStackableError:
        take_apart(course)
        return course.terms_here(parameters)


def difference(
    course: Course, stored: FloatArray, take_apart: Callable[[Course], None], path: Path
) -> str | None:
    """Return a sentence if the terms differ from those stored, else None (collective in its group).

    On another number of ranks or another processor, terms differ by rounding. Terms far above their
    rounding agree to half the digits. If they do not, terms at weights with relative changes of
    some units of rounding show how large rounding is.
    """
    now = terms_of_now(course, take_apart)
    theta = course.state.parameters.numpy()
    eps = float(np.finfo(theta.dtype).eps)
    tolerance = np.sqrt(eps) * np.maximum(np.abs(stored), np.abs(now))
    if _agree(stored, now, tolerance):
        return None
    signs = np.random.default_rng(0)
    for _ in range(_DRAWS):
        change = 1 + _ROUNDINGS * eps * signs.choice([-1.0, 1.0], theta.shape)
        changed = terms_of_now(course, take_apart, (theta * change).astype(theta.dtype))
        tolerance = np.maximum(tolerance, _MARGIN * np.abs(changed - now))
    if _agree(stored, now, tolerance):
        return None
    return _text(course, stored, now, tolerance, path)


def _agree(stored: FloatArray, now: FloatArray, tolerance: FloatArray) -> bool:
    return bool(np.all(_alike(stored, now, tolerance)))


def _alike(stored: FloatArray, now: FloatArray, tolerance: FloatArray) -> npt.NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        close = np.abs(stored - now) <= tolerance
    return close | (stored == now) | (np.isnan(stored) & np.isnan(now))


def _text(
    course: Course, stored: FloatArray, now: FloatArray, tolerance: FloatArray, path: Path
) -> str:
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = np.nan_to_num(np.abs(stored - now) / tolerance, nan=np.inf, posinf=np.inf)
    excess[_alike(stored, now, tolerance)] = 0
    j, t = np.unravel_index(int(np.argmax(excess)), excess.shape)
    name = course.stack.setups[j].problem.terms[t].name
    members = len(course.stack.numbers) > 1 or course.stack.numbers[0] > 0
    whose = f" of member {course.stack.numbers[j]}" if members else ""
    return (
        f"train: the checkpoint {path} is of another problem: at its weights and points, the term "
        f"{name!r} of the loss{whose} was {stored[j, t]:.8g} there, and is {now[j, t]:.8g} here. "
        f"Resume with the same equations, conditions and data, or start anew in another folder."
    )

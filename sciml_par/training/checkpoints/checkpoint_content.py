"""What a checkpoint holds: the courses of a group of ranks, and what describes their training."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.results.stored.codec import Names, from_json, read, to_json
from sciml_par.results.stored.files import versions
from sciml_par.training.checkpoints.checkpoint_file import Content
from sciml_par.training.loop.course import Course, NotStackableError, Position
from sciml_par.training.preparation.description import (
    ABSENT,
    Description,
    Identity,
    first_difference,
)
from sciml_par.training.run.meeting import Meeting

FloatArray = npt.NDArray[np.float64]

_MEASURED = ("seconds_compile", "seconds_train", "times_brought_together", "largest_drift")
"""What a course has counted and measured."""
_AT = "members=stack.numbers phase=position.phase phase_start=position.phase_start"
_NAMES: Names = {
    Course: f"{_AT} step=position.step {' '.join(_MEASURED)}",
    Identity: "fixed phases steps stop scattered",
}
_TERMS = "terms at the weights"

_ROUNDINGS = 4.0  # by which weights are changed to see what rounding does to the terms
_DRAWS = 2
_MARGIN = 16.0


def content_of(meeting: Meeting, identity: Identity, terms: Mapping[int, FloatArray]) -> Content:
    """Return the courses as they are.

    terms : of the loss at the present weights, [M, T], by the numbers of courses that have begun.
    """
    arrays: dict[str, Any] = {}
    courses = []
    for i, course in enumerate(meeting.courses):
        leaves = tf.nest.flatten(course.state)
        steps, records, weights = course.recorded
        held = {f"state-{k}": leaf.numpy() for k, leaf in enumerate(leaves)}
        held |= {"behind": course.position.behind, "steps": steps, "records": records}
        held |= {"terms": course.terms}
        held |= {} if course.adaptive_points is None else course.adaptive_points.kept()
        held |= {_TERMS: terms[i]} if i in terms else {}
        held |= {"weights": weights} if weights.size else {}
        arrays |= {f"course-{i}/{name}": array for name, array in held.items()}
        courses.append(to_json(course, _NAMES) | {"leaves": len(leaves)})
    texts = {
        "versions": versions(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **to_json(identity, _NAMES),
        "growths": identity.growths,
        "courses": courses,
    }
    return Content(texts, arrays)


def check_identity(content: Content, identity: Identity, path: Path) -> None:
    """Check that a checkpoint is of this training."""
    texts = content.texts
    # The number of members is one of the texts of the run, which are compared first.
    for saved, now in zip(texts["fixed"], identity.fixed, strict=False):
        _compare(saved, now, "", path)
    if len(texts["fixed"]) != len(identity.fixed):
        members = [course["members"] for course in texts["courses"]]
        raise InputError(_other_text(path, "members of this group", members, "others"))
    for course in texts["courses"]:
        _check_phases(course, identity, path, texts)


def restore(content: Content, meeting: Meeting, path: Path) -> None:
    """Put the courses to where those of the checkpoint were."""
    texts, arrays = content.texts, content.arrays
    saved_members = [tuple(course["members"]) for course in texts["courses"]]
    members = [course.stack.numbers for course in meeting.courses]
    if saved_members != members:
        raise InputError(_other_text(path, "members of one stack", saved_members, members))
    for i, (course, saved) in enumerate(zip(meeting.courses, texts["courses"], strict=True)):
        _restore_course(course, saved, _held(arrays, i), path)
        for name in _MEASURED:
            setattr(course, name, from_json(float, saved[name]))


def stored_terms(content: Content) -> dict[int, FloatArray]:
    """Return the terms of the loss at the weights of each course that has begun, by its number."""
    held = [_held(content.arrays, i) for i in range(len(content.texts["courses"]))]
    return {i: arrays[_TERMS] for i, arrays in enumerate(held) if _TERMS in arrays}


def _held(arrays: dict[str, Any], i: int) -> dict[str, Any]:
    """Return the arrays of a course by their names."""
    begin = f"course-{i}/"
    return {n.removeprefix(begin): each for n, each in arrays.items() if n.startswith(begin)}


def _restore_course(
    course: Course, saved: dict[str, Any], held: dict[str, Any], path: Path
) -> None:
    leaves = [held[f"state-{k}"] for k in range(saved["leaves"])]
    position = read(Position, saved, behind=held["behind"])
    course.terms, course.steps, course.records = held["terms"], [held["steps"]], [held["records"]]
    course.weights = [held.get("weights", np.empty((*held["records"].shape[:2], 0)))]
    points = course.adaptive_points
    if points is not None:
        points.restore({name: held[name] for name in (points.kept() if "points" in held else ())})
    if not course.restore(position, leaves):
        raise InputError(
            f"train: the checkpoint {path} holds tensors of other shapes or types than this "
            f"training has. Start anew in another folder."
        )


def _check_phases(
    course: dict[str, Any], identity: Identity, path: Path, texts: dict[str, Any]
) -> None:
    """Check that the phases that have begun are the same, but for more steps of the last one."""
    current = course["phase"]
    if current >= len(identity.steps):
        counts = len(texts["steps"]), len(identity.steps)
        raise InputError(_other_text(path, "the number of phases", *counts))
    for k in range(current + 1):
        where = f" of phase {k + 1}" if len(texts["phases"]) > 1 else ""
        _compare(texts["phases"][k], identity.phases[k], where, path)
    for k in range(current):
        if texts["steps"][k] != identity.steps[k]:
            name = f"steps of phase {k + 1}"
            raise InputError(_other_text(path, name, texts["steps"][k], identity.steps[k]))
    made = course["step"] - course["phase_start"]
    if made > identity.steps[current]:
        raise InputError(
            f"train: the checkpoint {path} is at step {made:,}, and steps is "
            f"{identity.steps[current]:,} now. Ask for as many steps as before, or for more."
        )


def _compare(saved: Description, now: Description, where: str, path: Path) -> None:
    if (name := first_difference([saved, now])) is not None:
        there, here = (each.get(name, ABSENT) for each in (saved, now))
        raise InputError(_other_text(path, name + where, there, here))


def _other_text(path: Path, name: str, there: Any, here: Any) -> str:
    return (
        f"train: the checkpoint {path} is of another training: {name} was {there} there, and is "
        f"{here} here. Resume with the same arguments, or start anew in another folder."
    )


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
    if _alike(stored, now, tolerance).all():
        return None
    signs = np.random.default_rng(0)
    for _ in range(_DRAWS):
        change = 1 + _ROUNDINGS * eps * signs.choice([-1.0, 1.0], theta.shape)
        changed = terms_of_now(course, take_apart, (theta * change).astype(theta.dtype))
        tolerance = np.maximum(tolerance, _MARGIN * np.abs(changed - now))
    if _alike(stored, now, tolerance).all():
        return None
    return _difference_text(course, stored, now, tolerance, path)


def _alike(stored: FloatArray, now: FloatArray, tolerance: FloatArray) -> npt.NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        close = np.abs(stored - now) <= tolerance
    return close | (stored == now) | (np.isnan(stored) & np.isnan(now))


def _difference_text(
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

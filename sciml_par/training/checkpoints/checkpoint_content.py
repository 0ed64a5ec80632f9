"""What a checkpoint holds: the courses of a group of ranks, and what describes their training."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.results.stored.files import versions
from sciml_par.training.checkpoints.checkpoint_file import Content
from sciml_par.training.loop.course import Course, Position
from sciml_par.training.preparation.description import Description, Identity
from sciml_par.training.run.meeting import Meeting

FloatArray = npt.NDArray[np.float64]

# What a course has counted and measured.
_MEASURED = ("seconds_compile", "seconds_train", "times_brought_together", "largest_drift")


def content_of(meeting: Meeting, identity: Identity, terms: Mapping[int, FloatArray]) -> Content:
    """Return the courses as they are.

    terms : of the loss at the present weights, [M, T], by the numbers of courses that have begun.
    """
    arrays: dict[str, Any] = {}
    courses = []
    for i, course in enumerate(meeting.courses):
        leaves = tf.nest.flatten(course.state)
        members, terms_of_loss = course.terms.shape
        none = np.empty((0, members, terms_of_loss + course.stack.layout.size_of_unknowns))
        arrays |= {f"course-{i}/state-{k}": leaf.numpy() for k, leaf in enumerate(leaves)}
        arrays |= {
            f"course-{i}/behind": course.position.behind,
            f"course-{i}/steps": np.concatenate([np.empty(0, np.int64), *course.steps]),
            f"course-{i}/records": np.concatenate([none, *course.records]),
            f"course-{i}/terms": course.terms,
        }
        if i in terms:
            arrays[f"course-{i}/terms at the weights"] = terms[i]
        arrays |= {f"course-{i}/{name}": kept for name, kept in course.kept_points.items()}
        weights = [each for each in course.weights if each.size]
        if weights:
            arrays[f"course-{i}/weights"] = np.concatenate(weights)
        courses.append(
            {
                "members": course.stack.numbers,
                "phase": course.position.phase,
                "phase_start": course.position.phase_start,
                "step": course.position.step,
                "leaves": len(leaves),
                **{name: getattr(course, name) for name in _MEASURED},
            }
        )
    texts = {
        "versions": versions(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "fixed": identity.fixed,
        "phases": identity.phases,
        "steps": identity.steps,
        "stop": identity.stop,
        "scattered": identity.scattered,
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
        _restore_course(course, i, saved, arrays, path)
        for name in _MEASURED:
            setattr(course, name, saved[name])


def stored_terms(content: Content) -> dict[int, FloatArray]:
    """Return the terms of the loss at the weights of each course that has begun, by its number."""
    names = {i: f"course-{i}/terms at the weights" for i in range(len(content.texts["courses"]))}
    return {i: content.arrays[name] for i, name in names.items() if name in content.arrays}


def _restore_course(
    course: Course, i: int, saved: dict[str, Any], arrays: dict[str, Any], path: Path
) -> None:
    leaves = [arrays[f"course-{i}/state-{k}"] for k in range(saved["leaves"])]
    position = Position(
        saved["phase"], saved["phase_start"], saved["step"], arrays[f"course-{i}/behind"]
    )
    course.terms = arrays[f"course-{i}/terms"]
    course.steps = [arrays[f"course-{i}/steps"]]
    course.records = [arrays[f"course-{i}/records"]]
    none = np.empty((*course.records[0].shape[:2], 0))
    course.weights = [arrays.get(f"course-{i}/weights", none)]
    course.restore_points(
        {name: arrays[f"course-{i}/{name}"] for name in course.kept_points}
        if f"course-{i}/points" in arrays
        else {}
    )
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
    for name in dict.fromkeys([*saved, *now]):
        there, here = saved.get(name, "nothing"), now.get(name, "nothing")
        if there != here:
            raise InputError(_other_text(path, name + where, there, here))


def _other_text(path: Path, name: str, there: Any, here: Any) -> str:
    return (
        f"train: the checkpoint {path} is of another training: {name} was {there} there, and is "
        f"{here} here. Resume with the same arguments, or start anew in another folder."
    )

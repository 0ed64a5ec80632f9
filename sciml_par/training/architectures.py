"""The fields of trained networks, on the ranks that trained them and, of all members, on rank 0."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.results.keras_models import field_with, load_model
from sciml_par.results.trained_field import TrainedField
from sciml_par.training.course import Course
from sciml_par.training.evaluate import values_of
from sciml_par.training.fields_of_functions import fields_of_functions, functions_of_all
from sciml_par.training.gather import pieces_to_root
from sciml_par.training.model_architecture import architecture_of

FloatArray = npt.NDArray[np.float64]


def fields_of(courses: Sequence[Course]) -> list[TrainedField]:
    """The fields of this rank's members and unknown functions, one for each stack (local)."""
    functions = [field for course in courses for field in fields_of_functions(course.stack)]
    return [*(_field(course) for course in courses), *functions]


def _field(course: Course) -> TrainedField:
    stack = course.stack
    made = values_of(stack.problem, stack.network), stack.network.model
    return TrainedField(lambda: made, architecture=architecture_of(made[1]))


def fields_on_root(
    courses: Sequence[Course], communicator: Communicator
) -> tuple[TrainedField, ...]:
    """The fields of the rank's own members and, on rank 0, of all architectures (collective).

    Where rank 0 has no network of an architecture, the first rank that has one sends it as Keras
    saves it.
    """
    own = fields_of(courses)
    everyone = communicator.allgather_object([field.architecture for field in own])
    owner = {name: rank for rank in reversed(range(len(everyone))) for name in everyone[rank]}
    absent = sorted((rank, name) for name, rank in owner.items() if rank > 0)
    if not absent:
        return tuple(own)
    models = {field.architecture: field.model for field in own}
    pieces = [_saved(models[name]) for rank, name in absent if rank == communicator.rank]
    sent = [piece for theirs in pieces_to_root(pieces, communicator) for piece in theirs]
    problems = [None, *dict.fromkeys(course.stack.problem for course in courses)]
    first = courses[0].stack
    d, dtype = first.problem.domain.dimension, first.parameters.dtype.name
    functions = functions_of_all(courses, communicator)
    received = [
        functions[name](model)
        if name in functions
        else field_with(model, problem, d=d, dtype=dtype, architecture=name)
        for (_, name), piece in zip(absent, sent, strict=bool(sent))
        if len(piece) > 0
        for model in [cache(partial(_received, piece.astype(np.uint8).tobytes()))]
        for problem in (problems[:1] if name in functions else problems)
    ]
    return (*own, *received)


def _saved(model: Any) -> FloatArray:
    """The bytes of the model as Keras saves it, as a column [k, 1]; [0, 1] where it cannot."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.keras"
        try:
            model.save(path)
        except Exception:  # Keras and the user's own class raise all kinds
            return np.empty((0, 1))
        return np.frombuffer(path.read_bytes(), np.uint8).astype(np.float64)[:, None]


def _received(content: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.keras"
        path.write_bytes(content)
        return load_model(path)

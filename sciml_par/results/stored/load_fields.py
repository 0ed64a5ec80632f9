"""The fields of members read from the files of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.problems.problem import Problem
from sciml_par.results.field_form import FieldForm
from sciml_par.results.member import Member
from sciml_par.results.member_function import MemberFunction, function_field
from sciml_par.results.stored.keras_models import field_with, load_model
from sciml_par.results.trained_field import TrainedField


def as_form(entry: dict[str, Any]) -> FieldForm:
    """Return what results.json holds of a form."""
    box, domain = (
        None if corners is None else (tuple(corners[0]), tuple(corners[1]))
        for corners in (entry["box"], entry.get("domain"))
    )
    return FieldForm(box, entry["ansatz"], domain)


def with_fields(
    folder: Path, summary: dict[str, Any], members: Sequence[Member], problem: Any, network: Any
) -> tuple[Member, ...]:
    """Return the members with the fields of their networks, saved or given.

    Members whose networks and problems make the same have one field.
    """
    problems = _as_problems(problem, len(members))
    files = {each["architecture"]: each["file"] for each in summary["networks"]}
    models: dict[str, Callable[[], Any]] = {
        name: cache(partial(load_model, folder / file)) for name, file in files.items() if file
    }
    fields: dict[Any, TrainedField] = {}
    found = []
    for member, given in zip(members, problems, strict=True):
        assert isinstance(member.prediction, Prediction) and member.weights is not None
        name, dtype = member.architecture, member.weights.best.dtype.name
        if given is not None and not member.form.is_of(given, dtype):
            raise InputError(f"Result.load: {_other_problem(member, given)}")
        if network is not None:
            models.setdefault(f"given {name}", cache(partial(_given_model, network, given, member)))
            name = f"given {name}"
        key = name, dtype, member.form, given
        if name in models and key not in fields:
            fields[key] = field_with(
                models[name],
                member.form,
                given,
                d=member.prediction.dimension,
                outputs=member.prediction.fields,
                dtype=dtype,
                otherwise=_other_problem(member, given),
            )
        functions = tuple(_with_field(each, models) for each in member.functions)
        field = fields.get(key, _not_saved(member))
        found.append(replace(member, field=field, functions=functions))
    return tuple(found)


def _with_field(function: MemberFunction, models: Mapping[str, Any]) -> MemberFunction:
    assert function.weights is not None
    model = models.get(function.architecture)
    if model is None:
        return replace(function, field=f"Keras could not save the network of {function.name!r}.")
    dtype = function.weights.best.dtype.name
    made = function_field(model, function.placed, scaled=function.scaled, dtype=dtype)
    return replace(function, field=made)


def _not_saved(member: Member) -> str:
    return (
        f"the network of member {member.number} is not here, since Keras could not save it. Give "
        f"the model, or what makes it: Result.load(folder, network=…)."
    )


def _other_problem(member: Member, problem: Problem | None) -> str:
    if problem is None:
        return (
            f"member {member.number} was trained with an ansatz, which files do not hold. Give the "
            f"problem that it was trained on: Result.load(folder, problem=…)."
        )
    return (
        f"the problem {problem.name!r} makes something else of a network than that of member "
        f"{member.number}: its ansatz or its input scaling is another one. Give the problem that "
        f"it was trained on, or a list with one for each member: Result.load(folder, problem=…)."
    )


def _given_model(network: Any, problem: Problem | None, member: Member) -> Any:
    """The model that is given, or made by what is given, if it has the member's weights."""
    assert isinstance(member.prediction, Prediction) and member.weights is not None
    from sciml_par.networks.keras.factory import make_network  # it imports TensorFlow

    weights, d = member.weights.best, member.prediction.dimension
    m = member.prediction.components if problem is None else problem.network_outputs
    # Initial weights that need a box may have any: the saved ones take their place.
    box = (-1.0,) * d, (1.0,) * d
    model = make_network(network, d, m, dtype=weights.dtype.name, box=box).model
    variables = model.trainable_variables
    count = sum(math.prod(v.shape) for v in variables)
    dtypes = {str(v.dtype) for v in variables}
    if count != len(weights) or dtypes != {weights.dtype.name}:
        raise InputError(
            f"Result.load: expected a network with {len(weights):,} weights of "
            f"{weights.dtype.name}, as member {member.number} has; got one with {count:,} of "
            f"{', '.join(sorted(dtypes)) or 'no type'}. Give the network that was trained."
        )
    return model


def _as_problems(problem: Any, members: int) -> list[Problem | None]:
    """The problem of each member."""
    if problem is None:
        return [None] * members
    several = isinstance(problem, list | tuple)
    problems = list(problem) if several else [problem]
    for each in problems:
        if not isinstance(each, Problem):
            raise InputError(
                f"Result.load: expected problem to be a Problem, or a list of those of the "
                f"members; got {each!r}."
            )
    if several and len(problems) != members:
        raise InputError(
            f"Result.load: expected one problem, or a list with one for each of the {members} "
            f"members in their order; got {len(problems)}."
        )
    return problems if several else problems * members

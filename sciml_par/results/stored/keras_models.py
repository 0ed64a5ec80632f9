"""Keras models of trained networks: saved, copied with other weights, and loaded or given."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import import_module
from sciml_par._text import one_line
from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.problems.problem import Problem
from sciml_par.results.member import Member
from sciml_par.results.member_function import MemberFunction, function_field
from sciml_par.results.trained_field import TrainedField, field_with

Array = npt.NDArray[Any]


class Lazy(Sequence[Any]):
    """Objects that are made at the first use."""

    def __init__(self, makers: Sequence[Callable[[], Any]]) -> None:
        self._makers = tuple(makers)
        self._made: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._makers)

    def __getitem__(self, index: Any) -> Any:
        """Return an object, or a list of those of a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        at = range(len(self))[index]
        if at not in self._made:
            self._made[at] = self._makers[at]()
        return self._made[at]

    def __repr__(self) -> str:
        return f"{len(self)} networks, made when they are asked for"


def copy_with(model: Any, weights: Array) -> Any:
    """Return a copy of a model, with trainable weights [p]."""
    keras: Any = import_module("keras")
    try:
        copy = type(model).from_config(model.get_config())
        if not copy.built:
            copy.build(model.input_shape)
        others = zip(copy.non_trainable_variables, model.non_trainable_variables, strict=True)
        for mine, theirs in others:
            mine.assign(theirs)
        assign(copy, weights)
    except Exception as error:  # Keras and the user's own class raise all kinds
        raise InputError(
            f"Result.networks: Keras {keras.__version__} cannot copy the model "
            f"{type(model).__name__} from its get_config() ({one_line(error)}). Result.predict "
            f"needs no copy, and Member.weights holds the weights."
        ) from error
    return copy


def assign(model: Any, weights: Array) -> None:
    """Give a model trainable weights [p], in the order of `trainable_variables`."""
    variables = model.trainable_variables
    ends = np.cumsum([int(np.prod(v.shape)) for v in variables])
    for variable, part in zip(variables, np.split(weights, ends[:-1]), strict=True):
        variable.assign(part.reshape(tuple(variable.shape)))


def flat_weights(model: Any) -> Array:
    """Return the trainable weights of a model, [p]."""
    return np.concatenate([np.asarray(v).ravel() for v in model.trainable_variables])


def save_model(model: Any, weights: Array, path: Path) -> None:
    """Save a copy of a model with trainable weights [p]; the model keeps its own."""
    before = flat_weights(model)
    assign(model, weights)
    try:
        model.save(path)
    finally:
        assign(model, before)


def load_model(path: Path) -> Any:
    """Return a model that Keras has saved."""
    keras: Any = import_module("keras")
    # Each of these classes registers itself with Keras.
    from sciml_par.networks import (  # noqa: F401
        MLP,
        Corrected,
        FourierFeatures,
        ModifiedMLP,
        PeriodicEmbedding,
        PirateNet,
        RandomFeatures,
    )
    from sciml_par.networks.keras.in_slabs import InSlabs  # noqa: F401

    try:
        return keras.models.load_model(path, compile=False)
    except Exception as error:  # Keras and the user's own class raise all kinds
        raise InputError(
            f"Keras {keras.__version__} cannot load {path} ({one_line(error)}). Pass the model, or "
            f"what makes it: Result.load(folder, network=…)."
        ) from error


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
    """Return the model that is given or made, if it has as many weights as the member."""
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
    """Return the problem of each member."""
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

"""Keras models of trained networks: saved, copied with other weights, and loaded or given."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from sciml_par._tensorflow import import_module
from sciml_par._text import one_line
from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.problems.checks.arrays import Array
from sciml_par.problems.problem import Problem
from sciml_par.results.member import Member
from sciml_par.results.member_function import MemberFunction, function_field
from sciml_par.results.trained_field import TrainedField, field_with


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


class Fields:
    """The fields of members by their networks; those that compute the same share one.

    models : Keras models, made at their first use, by the architectures of members and functions.
    missing : what to say of a member, and of the name of its function if any, without a model.
    """

    def __init__(
        self, models: Mapping[str, Callable[[], Any]], missing: Callable[[Member, str | None], str]
    ) -> None:
        self._models, self._missing = dict(models), missing
        self._fields: dict[Any, TrainedField] = {}

    def keep(self, member: Member) -> None:
        """Share the fields that a member has."""
        functions = [(function, None) for function in member.functions]
        for part, form in [(member, (member.form, None)), *functions]:
            self._models[part.architecture] = partial(getattr, part.field, "model")
            self._fields[_key(part, part.architecture, form)] = part.field

    def of(
        self, member: Member, problem: Problem | None, otherwise: str, *, model: str | None = None
    ) -> Member:
        """Return a member with its field, and with those of its functions.

        otherwise : what using a field raises that this problem does not make.
        model : its name, if it is not the architecture.
        """
        assert isinstance(member.prediction, Prediction) and member.weights is not None
        dtype = member.weights.best.dtype.name
        seen = member.prediction
        make = partial(
            field_with,
            form=member.form,
            problem=problem,
            d=seen.dimension,
            outputs=seen.fields,
            dtype=dtype,
            otherwise=otherwise,
        )
        key = _key(member, model or member.architecture, (member.form, problem))
        field = self._field(key, make, self._missing(member, None))
        functions = []
        for function in member.functions:
            make = partial(
                function_field, placed=function.placed, scaled=function.scaled, dtype=dtype
            )
            key = _key(function, function.architecture, None)
            of_function = self._field(key, make, self._missing(member, function.name))
            functions.append(replace(function, field=of_function))
        return replace(member, field=field, functions=tuple(functions))

    def _field(
        self, key: Any, make: Callable[..., TrainedField], missing: str
    ) -> TrainedField | str:
        model, *_ = key
        if key not in self._fields and model in self._models:
            self._fields[key] = make(self._models[model])
        return self._fields.get(key, missing)


def _key(part: Member | MemberFunction, model: str, form: Any) -> Any:
    """Return what a field depends on: its model, the form of u with its problem, the precision."""
    assert part.weights is not None
    return model, form, part.weights.best.dtype.name


def with_fields(
    folder: Path, summary: dict[str, Any], members: Sequence[Member], problem: Any, network: Any
) -> tuple[Member, ...]:
    """Return the members with the fields of their networks, saved or given."""
    problems = _as_problems(problem, len(members))
    files = {each["architecture"]: each["file"] for each in summary["networks"]}
    models = {name: cache(partial(load_model, folder / f)) for name, f in files.items() if f}
    names: list[str | None] = [None] * len(members)
    for k, (member, given) in enumerate(zip(members, problems, strict=True)):
        assert member.weights is not None
        if given is not None and not member.form.is_of(given, member.weights.best.dtype.name):
            raise InputError(f"Result.load: {_other_problem(member, given)}")
        if network is not None:
            names[k] = name = f"given {member.architecture}"
            models.setdefault(name, cache(partial(_given_model, network, given, member)))
    fields = Fields(models, _not_saved)
    return tuple(
        fields.of(member, given, _other_problem(member, given), model=name)
        for member, given, name in zip(members, problems, names, strict=True)
    )


def _not_saved(member: Member, function: str | None) -> str:
    if function is not None:
        return f"Keras could not save the network of {function!r}."
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

"""Fields by which rank 0 predicts with the members of other ranks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.problems.problem import Problem
from sciml_par.results.member import Member, Weights
from sciml_par.results.member_function import MemberFunction, function_field
from sciml_par.results.stored.keras_models import load_model
from sciml_par.results.trained_field import TrainedField, field_with


class FieldsElsewhere:
    """Make the fields of other ranks' members on rank 0; equal members share one."""

    def __init__(
        self,
        found: Sequence[Member],
        models: Sequence[Mapping[str, bytes | None]],
        problem_of: Callable[[int], Problem] | None,
    ) -> None:
        self._problem_of = problem_of
        self._models: dict[str, Callable[[], Any] | None] = {}
        for each in models:
            for name, content in each.items():
                self._models[name] = None if content is None else cache(partial(_loaded, content))
        self._fields: dict[Any, TrainedField] = {}
        for member in found:
            self._models[member.architecture] = partial(_model_of, member.field)
            if member.form.ansatz is None:
                self._fields[_key(member, None)] = member.field
            for function in member.functions:
                self._models[function.architecture] = partial(_model_of, function.field)
                self._fields[_key_of_function(function)] = function.field

    def with_field(self, member: Member) -> Member:
        """Return a member of another rank with its field, and those of its functions."""
        functions = tuple(self._with_field_of(each, member) for each in member.functions)
        return replace(member, functions=functions, field=self._field(member))

    def _field(self, member: Member) -> TrainedField | str:
        model = self._models.get(member.architecture)
        if model is None:
            return _not_saved(member)
        problem = None
        if member.form.ansatz is not None and self._problem_of is not None:
            problem = self._problem_of(member.number)
        key = _key(member, problem)
        if key not in self._fields:
            assert isinstance(member.prediction, Prediction) and member.weights is not None
            self._fields[key] = field_with(
                model,
                member.form,
                problem,
                d=member.prediction.dimension,
                outputs=member.prediction.fields,
                dtype=member.weights.best.dtype.name,
                otherwise=f"the ansatz of member {member.number} differs from that of the problem "
                f"on rank 0. Predict on rank {member.rank}, where it was trained, or give the "
                f"problem of each member: Ensemble(problems=…).",
            )
        return self._fields[key]

    def _with_field_of(self, function: MemberFunction, member: Member) -> MemberFunction:
        model = self._models.get(function.architecture)
        if model is None:
            return replace(function, field=_not_saved(member))
        key = _key_of_function(function)
        if key not in self._fields:
            assert isinstance(function.weights, Weights)
            dtype = function.weights.best.dtype.name
            made = function_field(model, function.placed, scaled=function.scaled, dtype=dtype)
            self._fields[key] = made
        return replace(function, field=self._fields[key])


def _key(member: Member, problem: Problem | None) -> Any:
    assert member.weights is not None
    return member.architecture, member.form, problem, member.weights.best.dtype.name


def _key_of_function(function: MemberFunction) -> Any:
    assert function.weights is not None
    return function.architecture, function.weights.best.dtype.name


def _not_saved(member: Member) -> str:
    return (
        f"the network of member {member.number} is not here, since Keras could not save it. "
        f"Predict on rank {member.rank}, where it was trained, or give the model or the function "
        f"that makes it: Result.load(folder, network=…)."
    )


def _model_of(field: TrainedField) -> Any:
    return field.model


def saved(model: Any) -> bytes | None:
    """Return the bytes of the model as Keras saves it; None where it cannot."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.keras"
        try:
            model.save(path)
        except Exception:  # Keras and the user's own class raise all kinds
            return None
        return path.read_bytes()


def _loaded(content: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.keras"
        path.write_bytes(content)
        return load_model(path)

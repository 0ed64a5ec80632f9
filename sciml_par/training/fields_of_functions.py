"""Unknown functions as fields of their weights, on the ranks that trained them and on rank 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sciml_par.networks.network import Network
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.problems.placed_function import PlacedFunction
from sciml_par.results.member import PredictionElsewhere
from sciml_par.results.member_function import (
    MemberFunction,
    function_architecture,
    function_field,
)
from sciml_par.results.trained_field import TrainedField
from sciml_par.training.course import Course
from sciml_par.training.function_networks import is_scaled
from sciml_par.training.model_architecture import architecture_of
from sciml_par.training.stack import Stack


def described(placed: PlacedFunction, network: Network) -> MemberFunction:
    """What tells an unknown function with its network from others, without any arrays (local)."""
    scaled = is_scaled(network)
    of_network = architecture_of(network.model)
    return MemberFunction(
        placed=replace(placed, function=placed.function.without_network()),
        scaled=scaled,
        architecture=function_architecture(placed, scaled=scaled, network=of_network),
        prediction=PredictionElsewhere(False, float("nan")),
        weights=None,
    )


def field_of_function(placed: PlacedFunction, network: Network, *, dtype: str) -> TrainedField:
    """The function of its inputs z by this network (local)."""
    return _field(described(placed, network), dtype, lambda: network.model)


def fields_of_functions(stack: Stack) -> list[TrainedField]:
    """Those of the members of a stack (local)."""
    dtype = stack.parameters.dtype.name
    placed = stack.problem.unknown_functions.values()
    return [
        field_of_function(each, network, dtype=dtype)
        for each, network in zip(placed, stack.network.others, strict=True)
    ]


def functions_of_all(
    courses: Sequence[Course], communicator: Communicator
) -> dict[str, Callable[[Callable[[], Any]], TrainedField]]:
    """What makes the field of a model, for all unknown functions by architecture (collective)."""
    own = [
        (described(placed, network), course.stack.parameters.dtype.name)
        for course in courses
        for placed, network in zip(
            course.stack.problem.unknown_functions.values(),
            course.stack.network.others,
            strict=True,
        )
    ]
    return {
        function.architecture: partial(_field, function, dtype)
        for theirs in communicator.allgather_object(own)
        for function, dtype in theirs
    }


def _field(function: MemberFunction, dtype: str, model: Callable[[], Any]) -> TrainedField:
    return function_field(
        model,
        function.placed,
        scaled=function.scaled,
        dtype=dtype,
        architecture=function.architecture,
    )

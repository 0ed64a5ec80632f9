"""An unknown function, as the training of one model found it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from sciml_par._tape import Tensor
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.problems.fields.field import Field
from sciml_par.problems.unknowns.placed_function import PlacedFunction
from sciml_par.results.member import Member, PredictionElsewhere, Weights
from sciml_par.results.trained_field import TrainedField, field_of_model


@dataclass(frozen=True)
class MemberFunction:
    """An unknown function as one member has found it; weights and field are as those of a member.

    `placed` is without network and true function; if `scaled`, its network sees coordinates mapped
    to [−1, 1]. `prediction` has the function over its inputs z: [n, e].
    """

    placed: PlacedFunction
    scaled: bool
    architecture: str
    prediction: Prediction | PredictionElsewhere
    weights: Weights | None
    field: Any = None

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.placed.name

    def elsewhere(self) -> MemberFunction:
        """Return the same without arrays."""
        seen = PredictionElsewhere.of(self.prediction)
        return replace(self, prediction=seen, weights=None, field=None)

    def as_member(self, member: Member) -> Member:
        """Return the member with this function in place of the solution, for all that predicts."""
        return replace(
            member,
            prediction=self.prediction,
            on_own_domain=self.prediction,
            weights=self.weights,
            architecture=self.architecture,
            field=self.field,
            functions=(),
        )


def function_field(
    model: Callable[[], Any], placed: PlacedFunction, *, scaled: bool, dtype: str
) -> TrainedField:
    """Return an unknown function of its inputs z, of a model that is loaded when it is needed."""

    def make() -> tuple[Any, Any]:
        network = field_of_model(model(), None, len(placed.inputs), dtype)

        def of(parameters: Sequence[Tensor]) -> Any:
            return partial(placed.values, cast(Field, network(parameters)), scaled=scaled)

        return of, model()

    return TrainedField(make)


def members_of_functions(members: Sequence[Member]) -> list[Member]:
    """Return a member for each unknown function of each, as by `MemberFunction.as_member`."""
    return [function.as_member(member) for member in members for function in member.functions]

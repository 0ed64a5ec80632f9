"""The unknown functions that a member has found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.networks.keras.network import Network
from sciml_par.problems.checks.functions import values_at
from sciml_par.problems.domains.box import Box
from sciml_par.problems.unknowns.placed_function import PlacedFunction
from sciml_par.results.member import PredictionElsewhere, Weights
from sciml_par.results.member_function import MemberFunction, function_architecture, function_field
from sciml_par.results.trained_field import TrainedField
from sciml_par.training.identity.described import architecture_of
from sciml_par.training.loss.function_networks import is_scaled
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.members.stack import MemberSetup
from sciml_par.training.outcome.evaluate import points_of
from sciml_par.training.outcome.outcome import Outcome

FloatArray = npt.NDArray[np.float64]


def functions_found(
    setup: MemberSetup,
    outcome: Outcome,
    layout: ParameterLayout,
    prediction: Prediction,
    fields: Sequence[TrainedField],
) -> tuple[MemberFunction, ...]:
    """Return the unknown functions of a member, in the order of the problem."""
    found = []
    first = setup.size_of_own
    placed = setup.problem.unknown_functions.values()
    for each, network, field in zip(placed, setup.network.others, fields, strict=True):
        end = first + sum(math.prod(v.shape) for v in network.trainable_variables)
        weights = Weights(outcome.best[first:end], outcome.last[first:end])
        z, inside = _points(each, setup.problem.domain.names, prediction)
        exact = None
        if each.function.true is not None:
            exact = np.full((len(z), 1), np.nan)
            # It need not be known, or finite, anywhere else.
            exact[inside] = values_at(
                each.function.true, z[inside], what=each.true_text, columns=1, reads_variables=True
            )
        seen = Prediction(
            "prediction",
            z,
            field.at(outcome.kept[first:end], z).astype(np.float64),
            exact,
            inside=inside,
            coordinates=each.names,
            fields=(each.name,),
        )
        function = _described(each, network)
        found.append(replace(function, prediction=seen, weights=weights, field=field))
        first = end
    return tuple(found)


def field_of_function(placed: PlacedFunction, network: Network, *, dtype: str) -> TrainedField:
    """Return the function of its inputs z by this network."""
    found = _described(placed, network)
    return function_field(lambda: network.model, found.placed, scaled=found.scaled, dtype=dtype)


def _described(placed: PlacedFunction, network: Network) -> MemberFunction:
    """Describe an unknown function with its network, without any arrays."""
    scaled = is_scaled(network)
    of_network = architecture_of(network.model)
    return MemberFunction(
        # For files and other ranks, with its bounds and inputs alone.
        placed=replace(
            placed, function=replace(placed.function, network=None, prior=None, true=None)
        ),
        scaled=scaled,
        architecture=function_architecture(placed, scaled=scaled, network=of_network),
        prediction=PredictionElsewhere(False, float("nan")),
        weights=None,
    )


def _points(
    placed: PlacedFunction, coordinates: tuple[str, ...], prediction: Prediction
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Return the points of its prediction, z: [k, e], and which of them lie in the domain."""
    if placed.names == tuple(coordinates):
        return prediction.x, np.asarray(prediction.inside)
    lower, upper = placed.lower.copy(), placed.upper.copy()
    for j, each in enumerate(placed.inputs):
        if each.component is not None:
            lower[j], upper[j] = _range(prediction.u[prediction.inside, each.component])
    return points_of(Box(lower, upper, names=placed.names), None)


def _range(values: FloatArray) -> tuple[float, float]:
    """Return the least and the greatest of them that are finite, if these differ."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (-1.0, 1.0)
    return (low, high) if low < high else (low - 0.5, low + 0.5)

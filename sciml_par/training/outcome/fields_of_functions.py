"""Unknown functions as fields of their weights, on the ranks that trained them."""

from __future__ import annotations

from dataclasses import replace

from sciml_par.networks.keras.network import Network
from sciml_par.problems.unknowns.placed_function import PlacedFunction
from sciml_par.results.member import PredictionElsewhere
from sciml_par.results.member_function import (
    MemberFunction,
    function_architecture,
    function_field,
)
from sciml_par.results.trained_field import TrainedField
from sciml_par.training.identity.model_architecture import architecture_of
from sciml_par.training.loss.function_networks import is_scaled


def described(placed: PlacedFunction, network: Network) -> MemberFunction:
    """What tells an unknown function with its network from others, without any arrays."""
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
    """Return the function of its inputs z by this network."""
    found = described(placed, network)
    return function_field(lambda: network.model, found.placed, scaled=found.scaled, dtype=dtype)

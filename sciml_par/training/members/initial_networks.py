"""The networks of members before their training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sciml_par.errors import InputError
from sciml_par.networks.keras.network import Network
from sciml_par.networks.layers.initial_weights import CENTRES
from sciml_par.problems.problem import Problem
from sciml_par.training.loss.function_networks import networks_of_functions


def network_of_member(
    problem: Problem,
    network: Any,
    *,
    seed: int,
    members: int,
    dtype: str,
    optimizers: Sequence[Any] = (),
) -> Network:
    """Return a member's network before its training."""
    # It imports TensorFlow, which is not to be there before `init`.
    from sciml_par.networks.keras.factory import is_factory, make_network, takes
    from sciml_par.networks.models.mlp import MLP

    if network is not None and members > 1 and not is_factory(network):
        raise InputError(
            f"train: network={type(network).__name__} is one model, but {members} are to be "
            f"trained; give a function that makes it, as network=lambda: keras.Sequential([...])."
        )
    d, m = problem.domain.dimension, problem.network_outputs
    prefers = [each for each in optimizers if each.prefers_centres]
    make = partial(
        make_network,
        network,
        d,
        m,
        seed=seed,
        dtype=dtype,
        initial_weights=CENTRES if prefers else None,
    )
    made = make(box=problem.box_of_inputs)
    decided = problem.for_network(made.model)
    if decided is not problem and made.model is not network:
        made = make(box=decided.box_of_inputs)
    others = networks_of_functions(
        problem,
        beside=made,
        seed=seed,
        members=members,
        dtype=dtype,
        initial_weights=CENTRES if prefers else None,
    )
    if prefers and isinstance(made.model, MLP) and made.model is not network:
        open_to_it = takes(MLP if network is None else network, "initial_weights")
        note = (
            f"the network starts with Glorot's weights, but {type(prefers[0]).__name__} is faster "
            f"if the units of the first layer have centres spread over the domain. Let the "
            f"function that makes the network take the arguments initial_weights and box and pass "
            f"them on to MLP, or write MLP(..., initial_weights='glorot') there."
        )
        glorot = not open_to_it and made.model.initial_weights is None
        made = replace(made, notes=(note,) if glorot else ())
    return made.with_others(others)

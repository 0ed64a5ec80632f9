"""The networks of unknown functions, which are trained with that of the solution."""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

from sciml_par.errors import InputError
from sciml_par.networks.keras.network import Network
from sciml_par.problems.fields.field import Field
from sciml_par.problems.problem import Problem
from sciml_par.problems.unknowns.placed_function import BoundFunction, PlacedFunction

Tensor = Any

_SMALL = 0.1


def networks_of_functions(
    problem: Problem,
    *,
    beside: Network,
    seed: int,
    members: int,
    dtype: str,
    initial_weights: str | None,
) -> list[Network]:
    """Return the networks of a member's unknown functions, in their order, before its training."""
    found: list[Network] = []
    models = [beside.model]
    for name, placed in problem.unknown_functions.items():
        try:
            made = _network_of(placed, seed, members, dtype, initial_weights)
        except InputError as error:
            raise InputError(
                f"train: the network of the unknown function {name!r}: {error}"
            ) from error
        if any(made.model is model for model in models):
            raise InputError(
                f"train: the network of the unknown function {name!r} is the same model as another "
                f"one of this training; give each a separate model."
            )
        models.append(made.model)
        found.append(made)
    return found


def _network_of(
    placed: PlacedFunction, seed: int, members: int, dtype: str, initial_weights: str | None
) -> Network:
    # It imports TensorFlow, which is not to be there before `init`.
    from sciml_par.networks.keras.factory import is_factory, make_network

    given = placed.function.network
    if given is not None and members > 1 and not is_factory(given):
        raise InputError(
            f"network={type(given).__name__} is one model, but {members} members are to be "
            f"trained, each with separate weights; give a function that makes it, as "
            f"network=lambda: keras.Sequential([...])."
        )
    # Otherwise networks of equal sizes would begin as the same function.
    own_seed = zlib.crc32(f"{placed.name} {seed}".encode())
    make = partial(
        make_network,
        given,
        len(placed.inputs),
        1,
        seed=own_seed,
        dtype=dtype,
        initial_weights=initial_weights,
    )
    made = make(box=placed.box(scaled=True))
    if made.model is given:
        return made
    if not is_scaled(made):
        made = make(box=placed.box(scaled=False))
    # It begins close to zero, so that the function begins where it is to. Measured: with whole
    # initial weights, one of five trainings by Levenberg–Marquardt of the k(x) of
    # docs/inverse-problems.md ended at a k far away; with a tenth or a hundredth none of ten did.
    if made.chain is not None and isinstance(last := made.chain.layers[-1].weight, int):
        kernel = made.trainable_variables[last]
        kernel.assign(_SMALL * kernel)
    return made


def is_scaled(network: Network) -> bool:
    """Return whether it sees the coordinates mapped to [−1, 1]."""
    return bool(getattr(network.model, "sees_scaled_inputs", False))


def field_with(network: Network, weights: Sequence[Tensor]) -> Field:
    """Return the field of a network with these weights."""
    jet = None if network.jet is None else partial(network.jet, weights)
    return Field(partial(network.apply, weights), jet=jet)


def bound_functions(
    problem: Problem, network: Network, parameters: Sequence[Sequence[Tensor]]
) -> dict[str, BoundFunction]:
    """Return a problem's unknown functions by name, with parameters for each."""
    pairs = zip(network.others, parameters, strict=True)
    return functions_of(problem, network, [field_with(*pair) for pair in pairs])


def functions_of(
    problem: Problem, network: Network, fields: Sequence[Field]
) -> dict[str, BoundFunction]:
    """Return a problem's unknown functions by name, of the fields of their networks."""
    placed = problem.unknown_functions.items()
    return {
        name: BoundFunction(each, field, scaled=is_scaled(other))
        for (name, each), field, other in zip(placed, fields, network.others, strict=True)
    }


def keys_of_functions(problem: Problem, network: Network) -> tuple[Hashable, ...]:
    """Return the key of the computation that the loss makes of the networks of functions."""
    placed = problem.unknown_functions.items()
    return tuple(
        (name, each.key(scaled=is_scaled(other)))
        for (name, each), other in zip(placed, network.others, strict=True)
    )

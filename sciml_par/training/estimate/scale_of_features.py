"""The scale of random features if the user leaves it open."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from sciml_par._tensorflow import import_module
from sciml_par.parallel.groups.world import World
from sciml_par.problems.problem import Problem
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.estimate.candidates import Candidates
from sciml_par.training.estimate.side_by_side import in_order, solve_side_by_side
from sciml_par.training.optimizers.least_squares.least_squares import LeastSquares

SCALES = (2.0, 4.0, 8.0, 16.0, 32.0)


def with_scale(given: Arguments, world: World) -> tuple[Arguments, tuple[str, ...]]:
    """Return the arguments with the best scale of `RandomFeatures`, and a note (collective).

    Features of all scales are solved for side by side, and the residual at unseen points decides.
    A scale that the user gives stays, and so does the network of every optimizer but
    `LeastSquares`. The arguments have been checked, and are the same on all ranks.
    """
    if not all(world.communicator.allgather_object(_is_open(given))):
        return given, ()
    network: Any = given.network
    chosen = _chosen(network)
    kinds = [(chosen.get("activation", "sin"), scale) for scale in SCALES]
    drawn = chosen.get("seed", given.seed)
    solved = solve_side_by_side(
        given.problem,
        Candidates(kinds, chosen.get("features", 300), drawn),
        steps=given.steps or LeastSquares.default_steps,
        seed=given.seed,
        precision=given.precision,
        world=world,
    )
    scale = SCALES[in_order(solved)[0].number]
    note = (
        f"RandomFeatures: scale={scale:g} of {', '.join(f'{each:g}' for each in SCALES)}, by the "
        f"residual at points that are not trained on."
    )
    return replace(given, network=partial(network, scale=scale)), (note,)


def _is_open(given: Arguments) -> bool:
    """Return whether the network is a `RandomFeatures` without a scale, to be solved for."""
    features = import_module("sciml_par.networks").RandomFeatures
    network: Any = given.network
    kind = network.func if isinstance(network, partial) else network
    return (
        kind is features
        and _chosen(network).get("scale") is None
        and isinstance(given.optimizer, LeastSquares)
        and isinstance(given.problem, Problem)
    )


def _chosen(network: Any) -> dict[str, Any]:
    """Return the arguments that a `functools.partial` binds."""
    return network.keywords if isinstance(network, partial) else {}

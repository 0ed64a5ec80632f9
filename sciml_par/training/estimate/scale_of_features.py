"""The scale of random features if the user leaves it open."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from sciml_par._checks import is_integer
from sciml_par._tensorflow import import_module
from sciml_par.parallel.groups.world import World
from sciml_par.problems.problem import Problem
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.estimate.candidates import Candidates
from sciml_par.training.estimate.side_by_side import best_of, solve_side_by_side
from sciml_par.training.optimizers.least_squares.least_squares import LeastSquares

SCALES = (2.0, 4.0, 8.0, 16.0, 32.0)


def with_scale(given: Arguments, world: World) -> tuple[Arguments, tuple[str, ...]]:
    """Return the arguments with the best scale of `RandomFeatures`, and a note (collective).

    Features of all scales are solved for side by side, and the residual at unseen points decides.
    A scale that the user gives stays, and so does the network of every optimizer but
    `LeastSquares`.
    """
    everyone = world.communicator
    if not all(everyone.allgather_object(_is_open(given))):
        return given, ()
    network: Any = given.network
    features, seed = _numbers(given)
    activation = _chosen(given).get("activation", "sin")
    candidates = Candidates([(activation, scale) for scale in SCALES], features, seed)
    solved = solve_side_by_side(
        given.problem,
        candidates,
        steps=given.steps or LeastSquares.default_steps,
        seed=given.seed,
        precision=given.precision,
        world=world,
    )
    scale = SCALES[best_of(solved).number]
    note = (
        f"RandomFeatures: scale={scale:g} of {', '.join(f'{each:g}' for each in SCALES)}, by the "
        f"residual at points that are not trained on."
    )
    return replace(given, network=partial(network, scale=scale)), (note,)


def _is_open(given: Arguments) -> bool:
    """Return whether the network is a `RandomFeatures` without a scale, to be solved for.

    Wrong numbers are left to the training, whose errors name them.
    """
    features = import_module("sciml_par.networks").RandomFeatures
    network: Any = given.network
    kind = network.func if isinstance(network, partial) else network
    number, seed = _numbers(given)
    return (
        kind is features
        and _chosen(given).get("scale") is None
        and isinstance(given.optimizer, LeastSquares)
        and given.phases is None
        and isinstance(given.problem, Problem)
        and (is_integer(number) and number >= 1)
        and (is_integer(seed) and seed >= 0)
    )


def _numbers(given: Arguments) -> tuple[Any, Any]:
    """Return the number of features and the seed of their draw."""
    chosen = _chosen(given)
    return chosen.get("features", 300), chosen.get("seed", given.seed)


def _chosen(given: Arguments) -> dict[str, Any]:
    """Return the arguments that a `functools.partial` binds."""
    return given.network.keywords if isinstance(given.network, partial) else {}

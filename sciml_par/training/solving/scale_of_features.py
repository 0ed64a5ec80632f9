"""The scale of random features if the user leaves it open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sciml_par._partial_operators import matrix_of, order_of
from sciml_par._tensorflow import import_module, tf
from sciml_par.assembly.asked import Request
from sciml_par.assembly.columns import Columns
from sciml_par.assembly.system import System, gauss_newton
from sciml_par.parallel.groups.world import World
from sciml_par.problems.problem import Problem
from sciml_par.problems.unknowns.unknowns import initial_unknowns
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.optimizers.least_squares.least_squares import LeastSquares
from sciml_par.training.optimizers.least_squares.on_host import threads
from sciml_par.training.preparation.problem_changes import ProblemChanges

SCALES = (2.0, 4.0, 8.0, 16.0, 32.0)
_PER_FEATURE, _MOST = 2.5, 1_000
"""Points, and features that are solved for to choose."""


def with_scale(given: Arguments, world: World) -> tuple[Arguments, tuple[str, ...]]:
    """Return the arguments with the best scale of `RandomFeatures`, and a note (collective).

    Features of all scales are solved for, and the residual at unseen points decides. A scale that
    the user gives stays, and so does the network of every optimizer but `LeastSquares`, and the
    usual scale where residuals couple points. The arguments have been checked, and are the same on
    all ranks.
    """
    if not all(world.communicator.allgather_object(_is_open(given))):
        return given, ()
    losses = world.communicator.on_root(lambda: _losses(given))
    if not np.isfinite(losses).any():
        return given, ()
    scale = SCALES[int(np.nanargmin(losses))]
    note = (
        f"RandomFeatures: scale={scale:g} of {', '.join(f'{each:g}' for each in SCALES)}, by the "
        f"residual at points that are not trained on."
    )
    network: Any = given.network
    return replace(given, network=partial(network, scale=scale)), (note,)


def _losses(given: Arguments) -> list[float]:
    """Return the loss at unseen points for each scale, NaN where none can be told (local)."""
    weights = ProblemChanges(given.weights, [LeastSquares()])
    most, chosen, found = given.steps or LeastSquares.default_steps, _chosen(given.network), []
    try:
        problem = weights.weigh(given.problem.unscaled())
        # It imports scipy.stats, which takes a second.
        cell_points: Any = import_module("sciml_par.training.solving.cell_points")
        points, count = cell_points.PointsOfTerms(problem, given.seed), chosen.get("features", 300)
        at, unseen = (
            points.scattered(int(_PER_FEATURE * min(count, _MOST)), draw=draw) for draw in (0, 1)
        )
        of = problem.domain.dimension, problem.network_outputs
        options = {"seed": given.seed, **chosen, "features": min(count, _MOST), "dtype": "float64"}
        networks: Any = import_module("sciml_par.networks")
        for scale in SCALES:
            features = _Features(
                networks.RandomFeatures(*of, **options, scale=scale, box=problem.box_of_inputs)
            )
            system = System(at, features)
            p = initial_unknowns(problem.unknowns, given.seed)
            begin = np.concatenate([features.coefficients.ravel(), p])
            with threads(1):
                steps = gauss_newton(system, begin, steps=most)
            theta = np.concatenate([steps.c.ravel(), steps.p])
            r = unseen.residuals(System(unseen, features).jets(theta), steps.p)
            found.append(float(sum(np.vdot(each, each) for each in r)))
    except Exception:  # of a residual that couples points, or is wrong, as the training will say
        return []
    return found


class _Features:
    """The columns of random features for a `System`, and a column of ones."""

    corners = ("features",)  # which depend on each other as much

    def __init__(self, model: Any) -> None:
        kernel, bias = (variable.value for variable in model.variables[:2])
        self._model, self.input_size, width = model, model.input_size, int(bias.shape[0])
        eye, zeros = tf.eye(width, dtype=kernel.dtype), tf.zeros([width], kernel.dtype)
        self._single = [kernel, bias, eye, zeros]
        self.coefficients = np.zeros((1, width + 1, model.output_size))
        self.used = np.ones((1, width + 1), np.bool_)

    def columns_at(self, request: Request) -> Iterator[Columns]:
        """Yield their jets at points of a request (local)."""
        x, d = tf.constant(request.x), self.input_size
        second = [each for each in request.operators if order_of(each) == 2]
        higher = tuple(each for each in request.operators if order_of(each) > 2)
        matrices = np.reshape([matrix_of(each, d) for each in second], (-1, d, d))
        u, du, *others = self._model.jet(self._single, x, matrices, higher=higher)
        parts = {each: others[0][..., k] for k, each in enumerate(second)}
        parts |= {each: others[1][..., k] for k, each in enumerate(higher)}
        every = [u, *tf.unstack(du, axis=-1), *(parts[each] for each in request.operators)]
        jets = np.stack([np.pad(each.numpy().T, ((0, 1), (0, 0))) for each in every])
        jets[0, -1] = 1.0
        yield Columns(np.arange(len(request.x)), jets)


def _is_open(given: Arguments) -> bool:
    """Return whether the network is a `RandomFeatures` without a scale, to be solved for."""
    features = import_module("sciml_par.networks").RandomFeatures
    network: Any = given.network
    kind = network.func if isinstance(network, partial) else network
    return (
        kind is features
        and (network is kind or network.keywords.get("scale") is None)
        and isinstance(given.optimizer, LeastSquares)
        and isinstance(given.problem, Problem)
    )


def _chosen(network: Any) -> dict[str, Any]:
    """Return the arguments that a `functools.partial` binds, but for the scale."""
    bound = network.keywords if isinstance(network, partial) else {}
    return {name: value for name, value in bound.items() if name != "scale"}

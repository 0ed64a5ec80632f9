"""The engine's parts put together by hand, for tests of what `train` drives.

The internals of `sciml_par.training` that several tests use are imported here as well.
"""

# ruff: noqa: F401

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from sciml_par.networks import make_network
from sciml_par.parallel import Communicator
from sciml_par.problems import Problem
from sciml_par.problems.unknowns.unknowns import initial_unknowns
from sciml_par.training import Adam
from sciml_par.training.loop.loop import (
    NO_DECREASE,
    NOT_FINITE,
    RUNNING,
    Chunk,
    Loop,
    Span,
    State,
    compiles_collectives,
)
from sciml_par.training.loop.stops import Stops
from sciml_par.training.loss.function_networks import networks_of_functions
from sciml_par.training.loss.known import Gradient, Jacobian, LinearJacobian
from sciml_par.training.loss.objective import StackedObjective, field_of, jacobians_of
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.loss.traced_terms import trace_terms
from sciml_par.training.optimizers.optimizer import At
from sciml_par.training.points.feed import RankFeed, Rows, StackedFeed
from sciml_par.training.points.make_feed import make_feed
from sciml_par.training.weights.loss_weights import Weighting


@dataclass
class Engine:
    """Models of this problem on the ranks of a group, in double precision."""

    problem: Problem
    group: Communicator
    model: Any
    points: Any = None
    points_per_rank: Any = None
    optimizer: Any = field(default_factory=Adam)
    log_every: int = 10
    strategy: Any = None
    members: int = 1

    def __post_init__(self) -> None:
        self.feed = make_feed(
            self.problem,
            self.points,
            points_per_rank=self.points_per_rank,
            rank=self.group.rank,
            size=self.group.size,
            seed=0,
            dtype="float64",
        )
        d, m = self.problem.domain.dimension, self.problem.outputs
        network = make_network(self.model, d, m, dtype="float64")
        others = networks_of_functions(
            self.problem, beside=network, seed=0, members=1, dtype="float64", initial_weights=None
        )
        network = network.with_others(others)
        layout = ParameterLayout.of(
            network.trainable_variables, self.problem.unknowns, linear=network.linear
        )
        self._layout = layout
        only_linear = getattr(self.optimizer, "needs", None) is LinearJacobian
        derived = layout.of_linear() if only_linear else layout
        self.jacobians = jacobians_of(self.problem, network, derived)
        self.field = partial(field_of, self.problem, network)
        self.objective = self.objective_of(self.members)
        weighting = None
        if self.strategy is not None:
            weighting = Weighting(self.strategy, [self.problem], self.objective, self.feed)
        self.loop = Loop(self.objective, self.optimizer, self.feed, weighting=weighting)
        weights = [tf.convert_to_tensor(v) for v in network.trainable_variables]
        weights.append(tf.constant(initial_unknowns(self.problem.unknowns, 0)))
        first = layout.flatten(weights)[None]
        noise = np.random.default_rng(3).normal(size=(self.members - 1, layout.size))
        self.parameters = tf.concat([first, first + 0.1 * noise], axis=0)

    def objective_of(self, members: int) -> StackedObjective:
        """Return the loss of M members on the engine's points."""
        return StackedObjective(
            self.field,
            self.problem.terms,
            layout=self._layout,
            members=members,
            stacked=self.feed.stacked,
            communicator=self.group,
            jacobians=self.jacobians,
            rows_of_ranks=self.feed.rows_of_ranks,
            compile_local=not compiles_collectives(self.group),
        )

    def start(self) -> State:
        return self.loop.start(self.parameters)

    def value_and_gradient(self) -> tuple[float, Any]:
        """At the initial weights, by themselves."""
        known = self.objective.evaluate(Gradient, self.parameters, self.feed.whole(0))
        return float(tf.reduce_sum(known.terms)), known.gradient.numpy()[0]

    def residuals_and_jacobian(self, parameters: Any, batch: Any) -> Any:
        known = self.objective.evaluate(Jacobian, parameters, batch)
        return known.residuals, known.jacobian

    def advance(
        self, state: State, count: int, *, step: int = 0, rate_factor: float = 1.0
    ) -> Chunk:
        return self.loop.advance(
            state,
            self.feed.chunk(step),
            Stops().limits("float64"),
            tf.fill([self.members, 1], tf.constant(rate_factor, tf.float64)),
            Span(step, 0, count, self.log_every),
        )


def losses(chunk: Chunk) -> np.ndarray:
    """The recorded losses of the one member."""
    return chunk.records[:, 0].sum(axis=1)

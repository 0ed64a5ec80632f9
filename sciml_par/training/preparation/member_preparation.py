"""Make the members of a training, with their networks before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from sciml_par.errors import InputError
from sciml_par.networks.keras.network import Network
from sciml_par.networks.layers.initial_weights import CENTRES
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.problems.problem import Problem
from sciml_par.problems.unknowns.unknowns import initial_unknowns
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.arguments.ensemble import Division, Ensemble, problem_of
from sciml_par.training.arguments.settings import Settings
from sciml_par.training.loop.stops import Stops
from sciml_par.training.loss.function_networks import networks_of_functions
from sciml_par.training.loss.traced_terms import TermTracer
from sciml_par.training.members.stack import MemberSetup
from sciml_par.training.optimizers.phases import Phase, initial_rate
from sciml_par.training.points.feed import RankFeed
from sciml_par.training.points.make_feed import make_feed
from sciml_par.training.preparation.description import Description, describe_model
from sciml_par.training.preparation.problem_changes import ProblemChanges
from sciml_par.training.weights.loss_weights import LossWeights, TermsOfLoss, check_strategy


@dataclass(frozen=True)
class Asked:
    """What `train` was asked for, checked on this rank."""

    settings: Settings
    phases: tuple[Phase, ...]
    stops: Stops
    ensemble: Ensemble | None
    division: Division
    changes: ProblemChanges
    strategy: LossWeights | None


@dataclass(frozen=True)
class MemberPreparation:
    """Makes the members of a training one by one.

    `group` are the ranks that train the same members as this one. If `scattered`, points without a
    chosen method are Sobol's.
    """

    given: Arguments
    asked: Asked
    group: Communicator
    scattered: bool
    tracer: TermTracer = field(default_factory=TermTracer)

    def make(self, number: int) -> tuple[Description, MemberSetup]:
        """Return the member of that number, and a description of it without optimizers."""
        asked, ensemble, seed = self.asked, self.asked.ensemble, self._seed(number)
        precision = asked.settings.precision
        problem = asked.changes.weigh(problem_of(number, self.given.problem, ensemble))
        sizes = asked.changes.sizes(problem)
        feed = self._feed(problem, seed)
        network = network_of_member(
            problem,
            self.given.network,
            seed=seed,
            members=asked.division.members,
            dtype=precision,
            optimizers=[phase.optimizer for phase in asked.phases],
        )
        problem = asked.changes.scale(problem, network.model)
        traced = self.tracer.of(
            problem,
            network,
            dtype=precision,
            arrays=feed.arrays,
            rows=feed.totals,
            in_step=[ranks[self.group.rank] for ranks in feed.rows_of_ranks],
        )
        described = describe_model(
            asked.settings,
            problem,
            feed=feed,
            network=network,
            traced=traced,
            strategy=asked.strategy,
            ranks=self.group.size,
        )
        unknowns = initial_unknowns(problem.unknowns, seed)
        factor = 1.0  # of the initial learning rate of the first phase's optimizer
        if ensemble is not None and ensemble.learning_rates is not None:
            rate = float(ensemble.learning_rates[number])
            factor = rate / initial_rate(asked.phases[0].optimizer)
        return described, MemberSetup(
            number, seed, problem, network, feed, factor, traced, unknowns, sizes
        )

    def _seed(self, number: int) -> int:
        if self.asked.ensemble is not None and self.asked.ensemble.seeds is not None:
            return int(self.asked.ensemble.seeds[number])
        # NumPy's SeedSequence keeps the seeds of neighbouring runs apart.
        sequence = np.random.SeedSequence(self.asked.settings.seed, spawn_key=(number,))
        return int(sequence.generate_state(1, np.uint32)[0])

    def _feed(self, problem: Problem, seed: int) -> RankFeed:
        bootstrap = self.asked.ensemble is not None and self.asked.ensemble.bootstrap
        feed = make_feed(
            problem,
            self.given.points,
            points_per_rank=self.given.points_per_rank,
            rank=self.group.rank,
            size=self.group.size,
            seed=self.asked.settings.seed,
            dtype=self.asked.settings.precision,
            bootstrap=seed if bootstrap else None,
            block=1 if self.asked.ensemble is None else self.asked.ensemble.block,
            scattered=self.scattered,
        )
        if self.asked.strategy is not None:
            loss = TermsOfLoss.of([problem], feed.rows_of_ranks)
            check_strategy(self.asked.strategy, loss, same_points=feed.same_points)
        return feed


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

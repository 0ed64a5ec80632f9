"""Make the members of a training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.problems.problem import Problem
from sciml_par.problems.unknowns.unknowns import initial_unknowns
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.arguments.ensemble import Ensemble, problem_of
from sciml_par.training.arguments.settings import Settings
from sciml_par.training.loss.traced_terms import TermTracer
from sciml_par.training.members.initial_networks import member_seed, network_of_member
from sciml_par.training.members.stack import MemberSetup
from sciml_par.training.optimizers.phases import Phase, initial_rate
from sciml_par.training.points.feed import RankFeed
from sciml_par.training.points.make_feed import make_feed
from sciml_par.training.preparation.description import Description, describe_model
from sciml_par.training.preparation.problem_changes import ProblemChanges
from sciml_par.training.weights.loss_weights import LossWeights, TermsOfLoss, check_strategy


@dataclass(frozen=True)
class MemberPreparation:
    """Makes the members of a training one by one.

    `group` are the ranks that train the same members as this one, and `members` is the number of
    all. If `scattered`, points without a chosen method are Sobol's.
    """

    given: Arguments
    settings: Settings
    phases: Sequence[Phase]
    ensemble: Ensemble | None
    group: Communicator
    members: int
    changes: ProblemChanges
    strategy: LossWeights | None
    tracer: TermTracer
    scattered: bool

    def make(self, number: int) -> tuple[Description, MemberSetup]:
        """Return the member of that number, and a description of it without optimizers."""
        seed = self._seed(number)
        problem = self.changes.weigh(problem_of(number, self.given.problem, self.ensemble))
        sizes = self.changes.sizes(problem)
        feed = self._feed(problem, seed)
        network = network_of_member(
            problem,
            self.given.network,
            seed=seed,
            members=self.members,
            dtype=self.settings.precision,
            optimizers=[phase.optimizer for phase in self.phases],
        )
        problem = self.changes.scale(problem, network.model)
        traced = self.tracer.of(
            problem,
            network,
            dtype=self.settings.precision,
            arrays=feed.arrays,
            rows=feed.totals,
            in_step=[ranks[self.group.rank] for ranks in feed.rows_of_ranks],
        )
        described = describe_model(
            self.settings,
            problem,
            feed=feed,
            network=network,
            traced=traced,
            strategy=self.strategy,
            ranks=self.group.size,
        )
        unknowns = initial_unknowns(problem.unknowns, seed)
        factor = 1.0  # of the initial learning rate of the first phase's optimizer
        if self.ensemble is not None and self.ensemble.learning_rates is not None:
            rate = float(self.ensemble.learning_rates[number])
            factor = rate / initial_rate(self.phases[0].optimizer)
        return described, MemberSetup(
            number, seed, problem, network, feed, factor, unknowns, traced, sizes
        )

    def _seed(self, number: int) -> int:
        if self.ensemble is not None and self.ensemble.seeds is not None:
            return int(self.ensemble.seeds[number])
        return member_seed(self.settings.seed, number)

    def _feed(self, problem: Problem, seed: int) -> RankFeed:
        bootstrap = self.ensemble is not None and self.ensemble.bootstrap
        feed = make_feed(
            problem,
            self.given.points,
            points_per_rank=self.given.points_per_rank,
            rank=self.group.rank,
            size=self.group.size,
            seed=self.settings.seed,
            dtype=self.settings.precision,
            bootstrap=seed if bootstrap else None,
            block=1 if self.ensemble is None else self.ensemble.block,
            scattered=self.scattered,
        )
        if self.strategy is not None:
            loss = TermsOfLoss.of([problem], feed.rows_of_ranks)
            check_strategy(self.strategy, loss, same_points=feed.same_points)
        return feed

"""What a rank makes and compares with the others before any training."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.collectives.fused import broadcast_variables
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import World
from sciml_par.problems.problem import Problem
from sciml_par.results.growth import Growth
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.arguments.ensemble import Division, as_mode, divide, problem_of
from sciml_par.training.arguments.settings import Settings
from sciml_par.training.loop.course import Course
from sciml_par.training.loop.divided_loop import DividedLoop, divide_loop
from sciml_par.training.loop.loop import Loop
from sciml_par.training.loop.loop_cache import loop_for
from sciml_par.training.loop.stops import Stops, as_stops
from sciml_par.training.members.stack import MemberSetup, Stack, divided, make_stacks
from sciml_par.training.optimizers.phases import Phase, as_phases
from sciml_par.training.points.feed import DividedFeed
from sciml_par.training.points.growing import grown
from sciml_par.training.preparation.automatic import with_optimizer
from sciml_par.training.preparation.consistency import (
    check_consistency,
    check_evaluation_domain,
    refuse_shared_models,
    remarks_on_equal_members,
)
from sciml_par.training.preparation.coupled_points import refuse_coupling_ansatz
from sciml_par.training.preparation.data_remarks import notes_on_data, remarks_on_equal_data
from sciml_par.training.preparation.description import (
    Description,
    Identity,
    describe_phases,
    describe_run,
    joined,
)
from sciml_par.training.preparation.member_preparation import Asked, MemberPreparation
from sciml_par.training.preparation.problem_changes import ProblemChanges
from sciml_par.training.preparation.remarks import remarks_on_stack
from sciml_par.training.preparation.sizes import for_sizes
from sciml_par.training.weights.loss_weights import LossWeights, check_names, strategy_of
from sciml_par.training.weights.of_noise import data_first


@dataclass(frozen=True)
class Preparation:
    """What a rank has before the first step.

    Attributes
    ----------
    settings, phases, stops : as they were asked for, checked.
    group : the ranks that train this rank's members.
    threads : how many computations of this rank may run at the same time.
    stacks : the members of this rank's group.
    group_number : of all groups.
    identity : what tells this training from others, for its checkpoints.
    points : as they were given.
    strategy : weighs the loss, or None.
    notes : sentences about what was chosen for the user.
    problem_of : gives the problem of the member of a number, of all ranks, as far as it is known.
    seconds_solved, solved_by : how long a solution before the first step took, and the optimizer
        that found it.
    """

    settings: Settings
    phases: tuple[Phase, ...]
    stops: Stops
    group: Communicator
    threads: int
    stacks: tuple[Stack, ...]
    group_number: int
    identity: Identity
    points: Any
    strategy: LossWeights | None
    notes: tuple[str, ...]
    problem_of: Callable[[int], Problem]
    seconds_solved: float = 0.0
    solved_by: Any = None

    @property
    def networks(self) -> list[Any]:
        """The models of this rank's members, in the order of their numbers."""
        setups = [setup for stack in self.stacks for setup in stack.setups]
        return [setup.network.model for setup in sorted(setups, key=lambda setup: setup.number)]

    def courses(self) -> list[Course]:
        """Return a course for each stack, before its first step."""
        found = [self._course(stack) for stack in self.stacks]
        for course in found:
            course.seconds_train = self.seconds_solved
        return found

    def take_apart(self, course: Course) -> None:
        """Train the members of a course, which cannot be one computation, one after another."""
        if course.stack.feed.adaptive is not None:
            raise InputError(
                "train: the members cannot be compiled as one computation, which adapt= needs. "
                "Train one member on each rank, or leave out adapt."
            )
        parts = self._in_parts(course.stack, len(course.stack.numbers))
        if parts is None:
            raise InputError(
                "train: the members cannot be compiled as one computation, nor be trained one "
                "after another, since an optimizer has a state without an axis for the members. "
                "Train one member on each rank."
            )
        course.take_apart(*parts)

    def _course(self, stack: Stack) -> Course:
        count = min(self.threads, len(stack.numbers))
        divisible = count > 1 and stack.feed.adaptive is None
        parts = self._in_parts(stack, count) if divisible else None
        loops, feed = parts or (self._loops(stack), stack.feed)
        return Course(
            stack,
            self.phases,
            loops,
            feed,
            limits=self.stops.limits(self.settings.precision),
            log_every=self.settings.log_every,
        )

    def _loops(self, stack: Stack) -> list[Loop]:
        ranks = self.group.size
        return [
            loop_for(stack, phase.program.with_ranks(ranks), self.group, self.strategy)
            for phase in self.phases
        ]

    def _in_parts(self, stack: Stack, count: int) -> tuple[list[DividedLoop], DividedFeed] | None:
        """Return the loops of a stack and its points in `count` parts, if it can be divided."""
        parts = divided(stack, count, self.settings.precision)
        of_parts = zip(*(self._loops(part) for part in parts), strict=True)
        thetas = [tf.constant(part.parameters) for part in parts]
        loops = [
            divide_loop(whole, own, thetas, threads=self.threads)
            for whole, own in zip(self._loops(stack), of_parts, strict=True)
        ]
        if None in loops:
            return None
        return [loop for loop in loops if loop], DividedFeed([part.feed for part in parts])


def prepare(
    given: Arguments, world: World, *, scattered: bool | None = None, growths: Sequence[Growth] = ()
) -> Preparation:
    """Check the arguments, see that the ranks agree, and make networks and points (collective).

    growths : as often are there more points, scattered where the method was left open.
    """
    everyone = world.communicator
    given, chosen = with_optimizer(given, everyone)
    if growths:
        given = replace(given, points=grown(given.points, given.problem, len(growths)))
        scattered = True
    asked = everyone.attempt(lambda: _checked(given, everyone))
    settings, phases, division = asked.settings, asked.phases, asked.division
    domain = given.evaluation_domain
    run = describe_run(settings, phases, asked.stops, division, given.problem, domain)
    check_consistency(run, everyone)
    group = training_group(division, world)
    if scattered is None:  # optimizers of second order make residuals vanish at their points alone
        scattered = any(phase.optimizer.second_order for phase in phases)
    members = MemberPreparation(given, asked, group, scattered)
    optimizers = describe_phases(phases)
    described = joined(optimizers)
    setups, models, alike = _make_members(members, described, everyone)
    _tell(alike, everyone)
    stacks = make_stacks(setups, settings.precision)
    tried = everyone.attempt(lambda: _tried(stacks, members, chosen=chosen is not None))
    steps, stop = tuple(phase.steps for phase in phases), (asked.stops.target, asked.stops.progress)
    phases, solvers = for_sizes(phases, stacks, group, everyone)
    _tell(tried, everyone)
    of_networks = [note for setup in setups for note in setup.network.notes]
    notes = [*([chosen] if chosen else []), *asked.changes.notes, *of_networks, *solvers]
    notes += [note for setup in setups for note in notes_on_data(setup.problem)]
    return Preparation(
        settings,
        phases,
        asked.stops,
        group,
        # Computations of several ranks communicate, and run one after another.
        world.threads if group.size == 1 and world.gpu is None else 1,
        tuple(stacks),
        division.group,
        Identity(run, tuple(models), optimizers, steps, repr(stop), scattered, tuple(growths)),
        given.points,
        asked.strategy,
        tuple(dict.fromkeys(notes)),
        partial(problem_of, problem=given.problem, ensemble=asked.ensemble),
    )


def _checked(given: Arguments, everyone: Communicator) -> Asked:
    ensemble = as_mode(given.mode)
    settings = Settings(
        mode="data" if ensemble is None else "ensemble",
        seed=given.seed,
        precision=given.precision,
        log_every=given.log_every,
        evaluation_points=given.evaluation_points,
        keep=given.keep,
        grow=given.grow,
    )
    if not isinstance(given.problem, Problem):
        raise InputError(f"train: expected problem to be a Problem; got {given.problem!r}.")
    check_evaluation_domain(given.evaluation_domain, given.problem)
    phases = as_phases(given.optimizer, given.steps, given.phases)
    division = divide(ensemble, rank=everyone.rank, size=everyone.size)
    stops = as_stops(given.stop)
    changes = ProblemChanges(given.weights, [phase.optimizer for phase in phases])
    strategy = strategy_of(given.weights, given.problem)
    if strategy is None:
        of_rank = problem_of(division.numbers[0], given.problem, ensemble)
        strategy = data_first(changes.weigh(of_rank), of_rank, phases)
    return Asked(settings, phases, stops, ensemble, division, changes, strategy)


def _make_members(
    members: MemberPreparation, optimizers: Description, everyone: Communicator
) -> tuple[list[MemberSetup], list[Description], list[str]]:
    """Make this rank's members, equal on the ranks of its group, and remarks (collective)."""
    group, ensemble = members.group, members.asked.ensemble
    made = everyone.attempt(
        lambda: [members.make(number) for number in members.asked.division.numbers]
    )
    for model, _ in made:
        check_consistency({**model, **optimizers}, group)
    setups, models = [], []
    for model, setup in made:
        of_setup = {
            "seed": repr(setup.seed),
            "factor of the learning rate": repr(setup.rate_factor),
            "numbers of points": repr(list(setup.feed.totals)),
        }
        models.append(model | of_setup)
        setups.append(setup)
        # The same seed gives the same weights; different machines may still round apart.
        broadcast_variables(setup.network.trainable_variables, communicator=group)
    everyone.attempt(lambda: refuse_shared_models(setups))
    alike: list[str] = []
    if ensemble is not None:
        samples = ensemble.bootstrap
        alike = remarks_on_equal_members(setups, models, group, everyone, samples=samples)
        if not (alike or samples):
            alike = remarks_on_equal_data(setups, group, everyone)
    return setups, models, alike


def _tried(stacks: Sequence[Stack], members: MemberPreparation, *, chosen: bool) -> list[str]:
    """Return remarks on the stacks, whose residuals are tried at this rank's points."""
    remarks: list[str] = []
    asked, ranks = members.asked, members.group.size
    precision = asked.settings.precision
    for stack in stacks:
        if asked.strategy is not None:
            check_names([setup.problem for setup in stack.setups])
        refuse_coupling_ansatz(stack.problem, stack.network.model, precision)
        remarks += remarks_on_stack(stack, asked.phases, precision, ranks, chosen=chosen)
    return remarks


def _tell(remarks: Sequence[str], communicator: Communicator) -> None:
    if communicator.rank == 0:
        for remark in dict.fromkeys(remarks):
            warnings.warn(f"train: {remark}", RuntimeWarning, stacklevel=6)


def training_group(division: Division, world: World) -> Communicator:
    """Return the ranks that train this rank's members (collective at a division's first call)."""
    size = world.communicator.size
    if division.groups == 1:
        return world.communicator
    if division.groups == size:
        return world.alone
    kept: dict[Any, Communicator] = world.kept.setdefault("training groups", {})
    if division.groups not in kept:
        kept[division.groups] = world.communicator.split(division.group)
    return kept[division.groups]

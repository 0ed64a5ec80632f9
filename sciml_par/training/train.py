"""Train networks on a problem: one model by all ranks, or models of their own on each rank."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciml_par.errors import InputError, TrainingError
from sciml_par.evaluation.figures.data import Shard
from sciml_par.parallel.collectives.variables import broadcast_variables
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import current_world
from sciml_par.problems.domain import Box
from sciml_par.problems.problem import Problem
from sciml_par.results.member import Member, RankContribution
from sciml_par.results.result import Result
from sciml_par.training.collect import collect, sample_for_figures
from sciml_par.training.consistency import check_consistency, common_domain
from sciml_par.training.description import Description, describe
from sciml_par.training.evaluate import evaluate
from sciml_par.training.initial_networks import make_networks
from sciml_par.training.loop import Loop
from sciml_par.training.objective import Objective
from sciml_par.training.optimizers.adam import Adam
from sciml_par.training.progress import make_reporter
from sciml_par.training.rank_points import (
    FloatArray,
    Points,
    RankPoints,
    count_points,
    points_of_rank,
)
from sciml_par.training.run import Run, run
from sciml_par.training.seed import member_seed
from sciml_par.training.settings import Settings


def train(
    problem: Problem,
    *,
    mode: str = "data",
    points: Points = 64,
    boundary_points: int | None = None,
    network: Callable[..., Any] | None = None,
    optimizer: Adam | None = None,
    steps: int = 30_000,
    members: int = 1,
    seed: int = 0,
    precision: str = "float32",
    log_every: int = 1000,
    evaluation_points: int = 201,
    evaluation_domain: Box | None = None,
    progress: bool = True,
) -> Result:
    """Minimize the loss of a problem over the weights of a network (collective).

        L(θ) = Σ_t w_t (1/N_t) Σ_i |r_t(u_θ)(x_i)|²      over the terms t of the problem

    In mode "data" all ranks train one model. The domain is split into as many slabs as there are
    ranks, and each rank has the points of its slab. P ranks compute, to rounding, what one rank
    computes on the union of their points. In mode "ensemble" each rank trains `members` models of
    its own, and `problem` may differ from rank to rank. In both modes chunks of many steps are
    one XLA call; the ranks meet between chunks.

    Parameters
    ----------
    problem : what to solve; in mode "data" the same on all ranks, as all else that decides the
        result: it is compared. Ensembles may differ in problem, points, network and optimizer.
    points : how many equispaced interior points each rank has, both ends included (in d > 1
        about, or a tuple per axis); or, as an array [N, d], all points, which mode "data" deals
        out to the ranks.
    boundary_points : about how many points the boundary conditions have on the whole boundary;
        by default as dense as the interior ones. In 1-D there are always two.
    network : makes a network; called with (d, m, seed=…, dtype=…). By default
        `sciml_par.networks.MLP`; `functools.partial(MLP, width=32, depth=3)` sets more.
    optimizer : `Adam()` by default.
    steps : updates of the weights.
    members : models per rank in mode "ensemble".
    seed : of the run. Members get seeds derived from it, all different.
    precision : "float32" or "float64".
    log_every : the loss is recorded at multiples of this number of updates.
    evaluation_points : about how many equispaced points the prediction is made on.
    evaluation_domain : where; by default the smallest box around the domains of all ranks'
        problems. All members predict there, and on their own domain as well.
    progress : show progress on rank 0. Without it, a warning says there if a member was not sound.

    Returns
    -------
    What all ranks found: see `Result`. An ensemble's member whose loss is not finite any more ends
    there, at the last weights whose loss was, and the others go on; its `status` says so, as it
    does of a loss that ends far above its best.

    Raises
    ------
    InputError
        Something cannot be used as given, the ranks differ in what must be the same, or a residual
        reads a trainable variable; on all ranks, before any training.
    TrainingError
        In mode "data", the loss was not finite, or the ranks' replicas of the model have parted; in
        mode "ensemble", no member came to its end. On all ranks, naming step and ranks.
    """
    world = current_world()
    everyone = world.communicator
    group = world.alone if mode == "ensemble" else everyone

    def prepare() -> _Prepared:
        settings = Settings(
            mode=mode,
            steps=steps,
            members=members,
            seed=seed,
            precision=precision,
            log_every=log_every,
            evaluation_points=evaluation_points,
        )
        own_points = points_of_rank(
            problem, points, boundary_points=boundary_points, rank=group.rank, size=group.size
        )
        numbers = _member_numbers(settings, everyone.rank)
        networks = make_networks(problem, own_points, network, settings, numbers)
        return _Prepared(settings, _checked_optimizer(optimizer), own_points, numbers, networks)

    ready = everyone.attempt(prepare)
    check_consistency(_described(problem, points, ready, evaluation_domain), everyone)
    runs = _run_all(_make_loop(ready, group), ready, group, everyone, shown=progress)
    whole = evaluation_domain or common_domain(problem, everyone)
    found = _members(problem, ready, runs, whole, everyone)
    result = Result(mode, collect(mode, found, everyone), ready.networks, everyone)
    if not result.sound and not progress and everyone.rank == 0:
        said = " ".join(remark.removeprefix("! ") for remark in result.remarks)
        warnings.warn(f"train: {said}", RuntimeWarning, stacklevel=2)
    return result


@dataclass(frozen=True)
class _Prepared:
    """What one rank has made before any training."""

    settings: Settings
    optimizer: Adam
    rank_points: RankPoints
    numbers: list[int]
    networks: list[Any]


def _described(
    problem: Problem, points: Points, ready: _Prepared, evaluation_domain: Box | None
) -> Description:
    return describe(
        ready.settings,
        problem,
        points=points,
        rank_points=ready.rank_points,
        optimizer=ready.optimizer,
        network=ready.networks[0],
        evaluation_domain=evaluation_domain,
    )


def _checked_optimizer(optimizer: Any) -> Adam:
    if optimizer is None:
        return Adam()
    if not isinstance(optimizer, Adam):
        raise InputError(
            f"train: expected optimizer to be a sciml_par.training.Adam, as "
            f"Adam(learning_rate=1e-3); got {optimizer!r}."
        )
    return optimizer


def _member_numbers(settings: Settings, rank: int) -> list[int]:
    """The numbers of this rank's members in the whole ensemble."""
    if settings.mode == "data":
        return [0]
    return [rank * settings.members + j for j in range(settings.members)]


def _make_loop(ready: _Prepared, group: Communicator) -> Loop:
    """The loop that serves all of this rank's networks in turn (collective in the group)."""
    objective = Objective(
        ready.networks[0],
        ready.rank_points,
        totals=count_points(ready.rank_points, group),
        communicator=group,
        dtype=ready.settings.precision,
    )
    log_every = ready.settings.log_every
    return Loop(objective, ready.optimizer, log_every=log_every, communicator=group)


def _run_all(
    loop: Loop, ready: _Prepared, group: Communicator, world: Communicator, *, shown: bool
) -> list[Run]:
    """Train one network after the other and leave the weights in them (collective)."""
    runs = []
    steps, networks = ready.settings.steps, ready.networks
    with make_reporter(shown=shown and world.rank == 0, total=steps * len(networks)) as reporter:
        for j, model in enumerate(networks):
            variables = model.trainable_variables
            # The same seed gives the same weights; different machines may still round apart.
            broadcast_variables(variables, communicator=group)
            start = loop.start([np.asarray(v) for v in variables], ready.settings.precision)
            outcome = run(
                loop, start, steps, group=group, world=world, reporter=reporter, before=j * steps
            )
            for variable, value in zip(
                variables, loop.parameters_of(outcome.parameters), strict=True
            ):
                variable.assign(value)
            runs.append(outcome)
    failures = [each.failure for each in runs]
    if None not in failures:
        raise TrainingError(failures[0])
    return runs


def _members(
    problem: Problem, ready: _Prepared, runs: Sequence[Run], whole: Box, world: Communicator
) -> list[Member]:
    """This rank's members, with what they predict (local)."""
    sample = sample_for_figures(ready.rank_points.interior, world.size)
    found = []
    for number, model, outcome in zip(ready.numbers, ready.networks, runs, strict=True):
        prediction = evaluate(problem, model, whole, ready.settings)
        same = problem.domain == whole
        found.append(
            Member(
                number=number,
                rank=0 if ready.settings.mode == "data" else world.rank,
                problem=problem.name,
                seed=member_seed(ready.settings.seed, number),
                steps=outcome.steps,
                steps_asked=ready.settings.steps,
                loss=outcome.loss,
                loss_steps=outcome.loss_steps,
                losses=outcome.losses,
                finite=outcome.finite,
                times_brought_together=outcome.times_brought_together,
                largest_drift=outcome.largest_drift,
                prediction=prediction,
                on_own_domain=prediction
                if same
                else evaluate(problem, model, problem.domain, ready.settings),
                contributions=(_contribution(world.rank, ready.rank_points, outcome, sample),),
            )
        )
    return found


def _contribution(
    rank: int, rank_points: RankPoints, found: Run, sample: FloatArray
) -> RankContribution:
    part = rank_points.sub_domain
    corners = None if part is None else (part.lower, part.upper)
    return RankContribution(
        rank=rank,
        points=len(rank_points.interior),
        shard=Shard(f"rank {rank}", training_points=sample, sub_domain=corners),
        seconds_compile=found.seconds_compile,
        seconds_train=found.seconds_train,
    )

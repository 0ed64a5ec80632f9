"""Train networks on a problem: one model by all ranks, or models of their own on each rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.communicator import Communicator
from sciml_par.parallel.variables import broadcast_variables
from sciml_par.parallel.world import current_world
from sciml_par.problems.domain import Box
from sciml_par.problems.field import Field
from sciml_par.problems.problem import Problem
from sciml_par.training.adam import Adam
from sciml_par.training.consistency import check_consistency, common_domain
from sciml_par.training.evaluate import evaluate
from sciml_par.training.loop import Loop
from sciml_par.training.member import Member, Portion
from sciml_par.training.objective import Objective
from sciml_par.training.progress import make_reporter
from sciml_par.training.result import Result
from sciml_par.training.run import Run, run
from sciml_par.training.seed import member_seed
from sciml_par.training.settings import Settings
from sciml_par.training.shard import Points, Shard, count_points, make_shard


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
    problem : what to solve; in mode "data" the same on all ranks.
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
    progress : show progress on rank 0.

    Returns
    -------
    What all ranks found, the same on every rank.

    Raises
    ------
    InputError
        Something cannot be used as given; on all ranks, before any training.
    TrainingError
        A loss was not finite; on all ranks, naming step and ranks.
    """
    world = current_world()
    everyone = world.communicator
    settings = everyone.attempt(
        lambda: Settings(
            mode=mode,
            steps=steps,
            members=members,
            seed=seed,
            precision=precision,
            log_every=log_every,
            evaluation_points=evaluation_points,
        )
    )
    chosen = everyone.attempt(lambda: _checked_optimizer(optimizer))
    check_consistency(problem, settings, everyone)
    group = everyone if mode == "data" else world.alone
    shard = everyone.attempt(
        lambda: make_shard(
            problem, points, boundary_points=boundary_points, rank=group.rank, size=group.size
        )
    )
    totals = count_points(shard, group)
    numbers = _member_numbers(settings, everyone.rank)
    networks = everyone.attempt(
        lambda: _make_networks(problem, shard, network or _mlp(), settings, numbers)
    )
    objective = Objective(networks[0], shard, totals=totals, communicator=group, dtype=precision)
    loop = Loop(objective, chosen, log_every=log_every, communicator=group)
    runs = _run_all(loop, networks, settings, group, everyone, shown=progress)
    whole = evaluation_domain or common_domain(problem, everyone)
    found = [
        _member(problem, shard, settings, number, model, outcome, whole, everyone.rank)
        for number, model, outcome in zip(numbers, networks, runs, strict=True)
    ]
    members_of_all = _merge(mode, everyone.allgather_object(found))
    return Result(mode=mode, members=members_of_all, networks=networks, communicator=everyone)


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


def _mlp() -> Callable[..., Any]:
    from sciml_par.networks.mlp import MLP  # it is a Keras model, so this imports TensorFlow

    return MLP


def _make_networks(
    problem: Problem,
    shard: Shard,
    network: Callable[..., Any],
    settings: Settings,
    numbers: Sequence[int],
) -> list[Any]:
    """This rank's networks, after a trial of the residuals on the first (local)."""
    networks = [
        network(
            problem.domain.dimension,
            problem.outputs,
            seed=member_seed(settings.seed, number),
            dtype=settings.precision,
        )
        for number in numbers
    ]
    first = networks[0]
    missing = [name for name in ("apply", "jet", "trainable_variables") if not hasattr(first, name)]
    if missing:
        raise InputError(
            f"train: expected network to make a model with apply, jet and trainable_variables, as "
            f"sciml_par.networks.MLP; got a {type(first).__name__} without {', '.join(missing)}."
        )
    weights = [tf.convert_to_tensor(v) for v in first.trainable_variables]
    u = Field(partial(first.apply, weights), jet=partial(first.jet, weights))
    problem.check(u, arrays=shard.arrays, dtype=settings.precision)
    return networks


def _run_all(
    loop: Loop,
    networks: Sequence[Any],
    settings: Settings,
    group: Communicator,
    world: Communicator,
    *,
    shown: bool,
) -> list[Run]:
    """Train one network after the other and leave the weights in them (collective)."""
    runs = []
    total = settings.steps * len(networks)
    with make_reporter(shown=shown and world.rank == 0, total=total) as reporter:
        for j, model in enumerate(networks):
            variables = model.trainable_variables
            # The same seed gives the same weights; different machines may still round apart.
            broadcast_variables(variables, communicator=group)
            start = loop.start([np.asarray(v) for v in variables], settings.precision)
            before = j * settings.steps
            outcome = run(
                loop, start, settings.steps, world=world, reporter=reporter, before=before
            )
            for variable, value in zip(
                variables, loop.parameters_of(outcome.parameters), strict=True
            ):
                variable.assign(value)
            runs.append(outcome)
    return runs


def _member(
    problem: Problem,
    shard: Shard,
    settings: Settings,
    number: int,
    model: Any,
    outcome: Run,
    whole: Box,
    rank: int,
) -> Member:
    return Member(
        number=number,
        rank=0 if settings.mode == "data" else rank,
        problem=problem.name,
        seed=member_seed(settings.seed, number),
        steps=settings.steps,
        loss=outcome.loss,
        loss_steps=outcome.loss_steps,
        losses=outcome.losses,
        prediction=evaluate(problem, model, whole, settings),
        own=evaluate(problem, model, problem.domain, settings),
        portions=(_portion(rank, shard, outcome),),
    )


def _portion(rank: int, shard: Shard, found: Run) -> Portion:
    part = shard.sub_domain
    return Portion(
        rank=rank,
        points=shard.interior,
        lower=None if part is None else part.lower,
        upper=None if part is None else part.upper,
        seconds_compile=found.seconds_compile,
        seconds_train=found.seconds_train,
    )


def _merge(mode: str, gathered: Sequence[Sequence[Member]]) -> tuple[Member, ...]:
    """All members of the ensemble, or the one model with the portions of all ranks."""
    if mode == "ensemble":
        return tuple(member for per_rank in gathered for member in per_rank)
    portions = tuple(portion for per_rank in gathered for portion in per_rank[0].portions)
    return (gathered[0][0].with_portions(portions),)

"""Train networks on a problem: one model by all ranks, or an ensemble by groups of ranks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from sciml_par._other_names import by_name
from sciml_par.errors import ResultWarning
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import current_world
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.problem import Problem
from sciml_par.results.member import Member
from sciml_par.results.result import Result
from sciml_par.results.uncertainty import remarks_on
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.arguments.ensemble import Ensemble
from sciml_par.training.checkpoints.checkpoint import Checkpoint
from sciml_par.training.loop.stops import Stop
from sciml_par.training.once import train_once
from sciml_par.training.slabs.march import in_slabs, march


@by_name
def train(
    problem: Problem,
    *,
    network: Callable[..., Any] | None = None,
    points: Any = None,
    points_per_rank: Any = None,
    mode: str | Ensemble = "data",
    optimizer: Any = None,
    steps: int | None = None,
    phases: Sequence[tuple[Any, int]] | None = None,
    stop: Stop | Sequence[Stop] | None = None,
    callbacks: Any = (),
    checkpoint: Checkpoint | None = None,
    resume: bool | str = False,
    keep: str = "best",
    weights: Any = None,
    seed: int = 0,
    precision: str = "float32",
    log_every: int | None = None,
    evaluation_points: int | None = None,
    evaluation_domain: Domain | None = None,
    progress: bool = True,
    estimate: bool | None = None,
    grow: bool | None = None,
    uncertainty: bool | None = None,
) -> Result:
    """Minimize the loss of a problem over the weights of a network (collective).

        L(θ) = Σ_t w_t (1/N_t) Σ_i |r_t(u_θ)(x_i)|²      over the terms t of the problem

    In mode "data" all ranks train one model, each on its part of the points. The result on P ranks
    is that on one rank, to rounding. In mode "ensemble" each rank trains a separate model;
    `Ensemble` sets the number of members, the ranks that share one, and how members differ. In all
    modes a chunk of many steps is one XLA call, and the ranks communicate between chunks.

    On a domain with slabs of time, such as `Time(0, 100, slabs=50)`, each slab is such a training.
    It begins with the values, and the weights, at the end of the slab before. Numbers of points,
    steps, stops and callbacks are those of each slab; the result is one over all slabs. At a time
    between two slabs the earlier one answers.

    Parameters
    ----------
    problem : what to solve; in mode "data" the same on all ranks, as all else that decides the
        result: it is compared. Ensembles may differ in problem, points, network and optimizer.
    network : makes a network; called with (d, m, seed=…, dtype=…). By default
        `sciml_par.networks.MLP`; `functools.partial(MLP, width=32, depth=3)` sets more. Or a Keras
        model, or a name: see `sciml_par.networks.network_named`.
    points : how many equispaced interior points a model has, of all ranks that train it, by
        default 64 (in d > 1 about, or a tuple per axis); or, as an array [N, d], all points; or
        `Points`, which says more: of the boundary, sampling, minibatches, new draws.
    points_per_rank : in place of `points`, how many equispaced points each rank has in its slab of
        the domain, both ends included.
    mode : "data", "ensemble" or an `Ensemble`.
    optimizer, steps : `Adam()` by default, and how many updates of the weights: 30,000, and 1,000
        of `LevenbergMarquardt`, which may end before. Or its name, as "adam" or "lm", for its
        defaults. "auto" chooses it by the numbers of parameters and residuals and the precision.
    phases : in their place, pairs (optimizer, steps), one after the other.
    stop : `TargetLoss`, `NoProgress`, `WallTime`, or several of these; None makes all steps.
    callbacks : functions f(progress), called between chunks of steps, or `Callback` objects.
    checkpoint : the folder for checkpoints, and how often one is written.
    resume : continue from the checkpoint in that folder, bit for bit as without the interruption.
        All arguments must be the same except `stop`, `keep`, `log_every`, `grow`, the arguments of
        the evaluation, and the steps, which may be more. Without a checkpoint, "auto" starts from
        the beginning.
    keep : "best" predicts with the network's weights of the least loss, "last" with those at the
        end.
    weights : of the terms of the loss, by their names, as {"residual": 1.0, "dirichlet": 100.0}, in
        place of those that residuals and conditions have; or a strategy that changes them between
        steps: `GradientAnnealing`, `GradientNorm`, `NTKWeights`, `ReLoBRaLo`, `SelfAdaptive`,
        `ResidualBasedAttention` or `Causal`. The loss that is recorded, that stops judge and by
        which "best" is chosen is that without what a strategy multiplies it by.
    seed : of the run. Members get seeds derived from it, all different.
    precision : "float32" or "float64".
    log_every : the loss is recorded, and where this is given also shown, at multiples of this
        number of updates. By default there are about 500 records of the steps made,
        however many were asked for.
    evaluation_points : about how many points the prediction is made on; by default 201 in one
        dimension, 2,601 in two, 4,096 in more. They are equispaced, and in more than three
        dimensions scattered by Sobol', as a grid would have nearly all on the faces there.
    evaluation_domain : where; by default the smallest box around the domains of all ranks'
        problems. All members predict there, and on their own domain as well.
    progress : show progress on rank 0.
    estimate : estimate the error at the end, by a solution of the problem by polynomials; see
        `Result.error`. It takes a second or two where u is smooth, and a minute at most. By default
        one is made of a single model that was trained for 20 seconds or more, but not in slabs, and
        takes at most a quarter of that time, and ten minutes.
    grow : add points and continue where the loss at points that were not trained on is more than
        10 times that of the training. It is tested after 1/8, 1/4, 1/2 and 3/4 of the steps and
        where the training ends early; the points grow three times at most, to at most 20,000 in
        the interior. None does so where it can, and True raises an error where it cannot: for
        ensembles, interior points in an array, `points_per_rank`, minibatches, new or adapted
        points, weights of single points, and fewer than 60 steps.
    uncertainty : compute at the end how well observations with known errors determine the unknowns
        and the solution; see `Result.uncertainty`. By default where a problem has an equation and
        such observations, of at most 16 members.

    Returns
    -------
    The `Result` of all ranks. SIGINT (Ctrl-C), SIGTERM, SIGUSR1 and SIGUSR2 end the training at the
    next chunk with the results so far; a second Ctrl-C ends the job at once. If a loss becomes NaN
    or infinite, the training of that member stops and its best weights are kept. Its `status` says
    so, and also if a loss ends far above its best.

    Raises
    ------
    InputError
        Something cannot be used as given, the ranks differ in what must be the same, or a residual
        reads a trainable variable, or a checkpoint cannot be used; on all ranks, before any
        training.
    OutputError
        The folder for checkpoints cannot be written; on all ranks.
    TrainingError
        No model had a finite loss at any time, or the ranks' replicas of a model have parted. On
        all ranks.

    Warns
    -----
    RuntimeWarning
        A member was not sound, or its loss is far larger at points that were not trained on; or,
        after 60 steps, it is hardly better than u = 0 there, or misses a condition by as much as
        u itself; on rank 0.
    """
    world = current_world()
    everyone = world.communicator
    arguments = Arguments(
        problem=problem,
        network=network,
        points=points,
        points_per_rank=points_per_rank,
        mode=mode,
        optimizer=optimizer,
        steps=steps,
        phases=phases,
        stop=stop,
        keep=keep,
        weights=weights,
        seed=seed,
        precision=precision,
        log_every=log_every,
        evaluation_points=evaluation_points,
        evaluation_domain=evaluation_domain,
        grow=grow,
    )
    how: dict[str, Any] = {
        "callbacks": callbacks,
        "checkpoint": checkpoint,
        "resume": resume,
        "progress": progress,
        "estimate": estimate,
        "uncertainty": uncertainty,
    }
    if in_slabs(problem, world):
        result = march(arguments, world, **how)
    else:
        result = train_once(arguments, world, **how)
    _warn_of_doubts(result, everyone)
    return result


def _warn_of_doubts(result: Result, everyone: Communicator) -> None:
    """Warn of an unsound or doubtful result, on rank 0 (local)."""
    doubtful = not result.sound or any(_doubtful(member) for member in result.members)
    if doubtful and everyone.rank == 0:
        said = " ".join(remark.removeprefix("! ") for remark in result.remarks)
        warnings.warn(f"train: {said}", ResultWarning, stacklevel=4)


def _doubtful(member: Member) -> bool:
    found = member.linearized
    return member.doubtful or bool(found and remarks_on(found, member.unknown_values.names))

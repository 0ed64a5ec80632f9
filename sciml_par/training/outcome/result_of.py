"""The result of a solution that was found without a training."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import import_module, tf
from sciml_par.assembly.equations import Equations
from sciml_par.assembly.solution import Solution
from sciml_par.evaluation.figures.parts.data import Shard
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import World
from sciml_par.problems.unknowns.unknowns import initial_unknowns
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.results.linearized import Linearized
from sciml_par.results.member import Member, RankContribution, Weights
from sciml_par.results.result import Result
from sciml_par.results.trained_field import TrainedField, form_of
from sciml_par.results.unknown_values import unknown_values
from sciml_par.training.arguments.arguments import Arguments, texts_of
from sciml_par.training.arguments.settings import LAST
from sciml_par.training.identity.described import architecture_of
from sciml_par.training.loss.objective import field_of
from sciml_par.training.optimizers.least_squares.least_squares import LeastSquares
from sciml_par.training.outcome.collect import collect, sample_for_figures
from sciml_par.training.outcome.data_fits import data_fits, observed_in
from sciml_par.training.outcome.evaluate import points_of, prediction_of
from sciml_par.training.outcome.validation import AtOtherPoints

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Report:
    """How a solution was found: squares of each term before and after the steps, [2, T]."""

    equations: Equations
    squares: Array
    steps: int
    judged: AtOtherPoints
    seconds: float


def result_of(
    model: Any,
    solution: Solution,
    values: Array,
    report: Report,
    error: ErrorEstimate,
    linearized: Linearized | None = None,
    *,
    world: World,
    seed: int,
    sizes: dict[str, float],
) -> Result:
    """Return a solution as what `train` returns (collective).

    Parameters
    ----------
    model : of the solution, with its weights.
    values : u at the points of the evaluation, [k, m].
    linearized : how errors of the data move θ, if any has them.
    sizes : by which residuals were divided, by the names of their terms.
    """
    everyone, problem = world.communicator, solution.problem
    losses = report.squares.sum(axis=1)
    prediction = prediction_of(problem, *points_of(problem.domain, None), values)
    d, m = problem.domain.dimension, problem.network_outputs
    # It imports TensorFlow, which is not to be there before `init`.
    as_network = import_module("sciml_par.networks").as_network
    network = as_network(model, d, m, dtype=tf.float64.name)
    field, p = (partial(field_of, problem, network), model), solution.parameters
    begin = initial_unknowns(problem.unknowns, seed)
    member = Member(
        number=0,
        rank=0,
        problem=problem.name,
        seed=seed,
        steps=report.steps,
        steps_asked=report.steps,
        ended="no further decrease",
        loss=float(losses[-1]),
        best_loss=float(losses[-1]),
        best_step=report.steps,
        kept=LAST,
        loss_steps=np.array([0, report.steps]),
        losses=losses,
        terms=tuple(term.name for term in problem.terms),
        term_losses=report.squares,
        times_brought_together=0,
        largest_drift=0.0,
        stacked_with=(0,),
        prediction=prediction,
        on_own_domain=prediction,
        weights=Weights(*[solution.theta[: len(solution.theta) - len(p)]] * 2),
        architecture=architecture_of(model),
        contributions=(_contribution(everyone, report),),
        error=error,
        sizes=sizes,
        linearized=linearized,
        unknown_values=unknown_values(problem.unknowns, p, p, np.stack([begin, p])),
        fits=data_fits(problem, lambda: solution.field, np.float64),
        observations=observed_in(problem, linearized.scale, with_errors=linearized.known)
        if linearized is not None
        else observed_in(problem),
        **vars(report.judged),
        form=form_of(problem, tf.float64.name),
        field=TrainedField(lambda: field),
        most_left=LeastSquares().most_left,
    )
    arguments = Arguments(
        problem=problem,
        network=model,
        points=None,
        optimizer=LeastSquares(),
        steps=report.steps,
        keep=LAST,
        seed=seed,
        precision=tf.float64.name,
    )
    members = collect([member], everyone, lambda _: problem)
    return Result("data", members, [model], everyone, arguments=texts_of(arguments))


def _contribution(everyone: Communicator, report: Report) -> RankContribution:
    """Return the share of a rank: all solve alike, and each stands for a part of the points."""
    x = report.equations.rows[0].arrays[0].numpy()[everyone.rank :: everyone.size]
    sample = sample_for_figures(x, everyone.size)
    return RankContribution(
        rank=everyone.rank,
        points=len(x),
        shard=Shard(f"rank {everyone.rank}", training_points=sample),
        seconds_compile=0.0,
        seconds_train=report.seconds,
    )

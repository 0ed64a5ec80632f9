"""The members of this rank with their predictions."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.evaluation.figures.parts.data import Prediction, Shard
from sciml_par.networks.keras.network import Network
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.problems.checks.functions import values_at
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.unknowns.placed_function import PlacedFunction
from sciml_par.results.member import Member, PredictionElsewhere, RankContribution, Weights
from sciml_par.results.member_function import MemberFunction, function_field
from sciml_par.results.trained_field import TrainedField, form_of
from sciml_par.results.unknown_values import unknown_values
from sciml_par.training.identity.described import architecture_of
from sciml_par.training.loop.course import Course
from sciml_par.training.loss.function_networks import is_scaled
from sciml_par.training.loss.objective import field_of
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.members.stack import MemberSetup
from sciml_par.training.outcome.collect import sample_for_figures
from sciml_par.training.outcome.data_fits import fits_of_member, observed_in
from sciml_par.training.outcome.evaluate import Solution, points_of, prediction_of
from sciml_par.training.outcome.outcome import Outcome
from sciml_par.training.outcome.validation import AtOtherPoints, at_other_points
from sciml_par.training.preparation.preparation import Preparation
from sciml_par.training.run.holdout import mean_squares

FloatArray = npt.NDArray[np.float64]


def members_found(
    ready: Preparation,
    courses: Sequence[Course],
    outcomes: Sequence[Outcome],
    whole: Domain,
    world: Communicator,
) -> list[Member]:
    """Return the members of this rank's group; their networks keep the weights (collective)."""
    found = []
    given = iter(outcomes)
    of_courses = [[next(given) for _ in course.stack.setups] for course in courses]
    kept = [[outcome.kept for outcome in each] for each in of_courses]
    stacks = [course.stack for course in courses]
    held_out = at_other_points(
        stacks, kept, ready.points, settings=ready.settings, group=ready.group
    )
    for course, own, others in zip(courses, of_courses, held_out, strict=True):
        fields = _fields(course)
        for j, pair in enumerate(zip(own, others, strict=True)):
            found.append(_member(ready, course, j, *pair, fields, whole, world))
    return sorted(found, key=lambda member: member.number)


def _fields(course: Course) -> list[TrainedField]:
    """Return the field of a course's members, and then those of their unknown functions."""
    stack = course.stack
    made = partial(field_of, stack.problem, stack.network), stack.network.model
    dtype = stack.parameters.dtype.name
    placed = zip(stack.problem.unknown_functions.values(), stack.network.others, strict=True)
    functions = [field_of_function(each, network, dtype=dtype) for each, network in placed]
    return [TrainedField(lambda: made), *functions]


def _member(
    ready: Preparation,
    course: Course,
    j: int,
    outcome: Outcome,
    judged: AtOtherPoints,
    fields: Sequence[TrainedField],
    whole: Domain,
    world: Communicator,
) -> Member:
    setup, layout = course.stack.setups[j], course.stack.layout
    problem, settings = setup.problem, ready.settings
    kept, count = outcome.kept, layout.size_of_network
    # Behind the weights there are the parameters of unknowns.
    values = layout.unflatten(kept)[: len(layout.shapes) - layout.unknowns]
    for variable, value in zip(setup.network.trainable_variables, values, strict=True):
        variable.assign(value)
    solution = Solution(problem, setup.network, layout, kept)

    def on(domain: Domain) -> Prediction:
        x, inside = points_of(domain, settings.evaluation_points)
        return prediction_of(problem, x, inside, solution(x))

    prediction = on(whole)
    squares = mean_squares(course.stack, problem, tf.constant(kept))
    own_weights = slice(setup.size_of_own)
    return Member(
        number=setup.number,
        rank=ready.group.world_ranks[0],
        problem=problem.name,
        seed=setup.seed,
        steps=outcome.steps,
        steps_asked=course.steps_asked,
        ended=outcome.ended,
        loss=outcome.loss,
        best_loss=outcome.best_loss,
        best_step=outcome.best_step,
        kept=settings.keep,
        loss_steps=outcome.loss_steps,
        losses=outcome.terms.sum(axis=1),
        terms=tuple(term.name for term in problem.terms),
        term_losses=outcome.terms,
        term_weights=outcome.weights,
        times_brought_together=course.times_brought_together,
        largest_drift=course.largest_drift,
        stacked_with=(setup.number,) if course.apart else course.stack.numbers,
        prediction=prediction,
        on_own_domain=prediction if problem.domain == whole else on(problem.domain),
        weights=Weights(outcome.best[own_weights], outcome.last[own_weights]),
        architecture=architecture_of(setup.network.model),
        contributions=(_contribution(world, setup, course),),
        unknown_values=unknown_values(
            problem.unknowns, outcome.best[count:], outcome.last[count:], outcome.unknowns
        ),
        functions=functions_found(setup, outcome, layout, prediction, fields[1:]),
        form=form_of(problem, settings.precision),
        field=fields[0],
        fits=fits_of_member(course.stack, kept, j),
        held_out={name: math.sqrt(square) for name, square in squares.items()},
        # The figure of an ensemble draws those of its first member.
        observations=observed_in(problem) if setup.number == 0 else (),
        growths=ready.identity.growths,
        sizes=setup.sizes,
        most_left=(ready.solved_by or ready.phases[-1].optimizer).most_left,
        **vars(judged),
    )


def _contribution(world: Communicator, setup: MemberSetup, course: Course) -> RankContribution:
    points, part = setup.feed.interior, setup.feed.sub_domain
    corners = None if part is None else (part.lower, part.upper)
    sample = sample_for_figures(points, world.size)
    # Members that are one computation share its time.
    members = len(course.stack.numbers) if course.apart else 1
    return RankContribution(
        rank=world.rank,
        points=len(points),
        shard=Shard(f"rank {world.rank}", training_points=sample, sub_domain=corners),
        seconds_compile=course.seconds_compile / members,
        seconds_train=course.seconds_train / members,
    )


def functions_found(
    setup: MemberSetup,
    outcome: Outcome,
    layout: ParameterLayout,
    prediction: Prediction,
    fields: Sequence[TrainedField],
) -> tuple[MemberFunction, ...]:
    """Return the unknown functions of a member, in the order of the problem."""
    found = []
    first = setup.size_of_own
    placed = setup.problem.unknown_functions.values()
    for each, network, field in zip(placed, setup.network.others, fields, strict=True):
        end = first + sum(math.prod(v.shape) for v in network.trainable_variables)
        weights = Weights(outcome.best[first:end], outcome.last[first:end])
        z, inside = _points(each, setup.problem.domain.names, prediction)
        exact = None
        if each.function.true is not None:
            exact = np.full((len(z), 1), np.nan)
            # It need not be known, or finite, anywhere else.
            exact[inside] = values_at(
                each.function.true, z[inside], what=each.true_text, columns=1, reads_variables=True
            )
        seen = Prediction(
            "prediction",
            z,
            field.at(outcome.kept[first:end], z).astype(np.float64),
            exact,
            inside=inside,
            coordinates=each.names,
            fields=(each.name,),
        )
        function = _described(each, network)
        found.append(replace(function, prediction=seen, weights=weights, field=field))
        first = end
    return tuple(found)


def field_of_function(placed: PlacedFunction, network: Network, *, dtype: str) -> TrainedField:
    """Return the function of its inputs z by this network."""
    found = _described(placed, network)
    return function_field(lambda: network.model, found.placed, scaled=found.scaled, dtype=dtype)


def _described(placed: PlacedFunction, network: Network) -> MemberFunction:
    """Describe an unknown function with its network, without any arrays."""
    scaled = is_scaled(network)
    # Equal for functions that differ in their weights only.
    text = repr((placed.name, placed.key(scaled=scaled), architecture_of(network.model)))
    return MemberFunction(
        # For files and other ranks, with its bounds and inputs alone.
        placed=replace(
            placed, function=replace(placed.function, network=None, prior=None, true=None)
        ),
        scaled=scaled,
        architecture=hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
        prediction=PredictionElsewhere(False, float("nan")),
        weights=None,
    )


def _points(
    placed: PlacedFunction, coordinates: tuple[str, ...], prediction: Prediction
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Return the points of its prediction, z: [k, e], and which of them lie in the domain."""
    if placed.names == tuple(coordinates):
        return prediction.x, np.asarray(prediction.inside)
    lower, upper = placed.lower.copy(), placed.upper.copy()
    for j, each in enumerate(placed.inputs):
        if each.component is not None:
            lower[j], upper[j] = _range(prediction.u[prediction.inside, each.component])
    return points_of(Box(lower, upper, names=placed.names), None)


def _range(values: FloatArray) -> tuple[float, float]:
    """Return the least and the greatest of them that are finite, if these differ."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (-1.0, 1.0)
    return (low, high) if low < high else (low - 0.5, low + 0.5)

"""One result of the results of all slabs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.parallel.groups.world import World
from sciml_par.problems.problem import Problem
from sciml_par.results.member import Member
from sciml_par.results.result import Result
from sciml_par.results.stored.keras_models import flat_weights
from sciml_par.training.arguments.arguments import Arguments, texts_of
from sciml_par.training.arguments.settings import LAST
from sciml_par.training.once import train_once
from sciml_par.training.optimizers.keep import Keep
from sciml_par.training.points.points import Points
from sciml_par.training.slabs.divide import Slab

Array = npt.NDArray[Any]

_MOST_POINTS = 10_000
"""Interior points at which the loss of all slabs together is evaluated."""


def joined(
    whole: Problem,
    slabs: Sequence[Slab],
    results: Sequence[Result],
    networks: Sequence[Any],
    given: Arguments,
    world: World,
    *,
    estimate: bool,
) -> Result:
    """Return one result over all slabs, whose network has those of the slabs (collective)."""
    model = _model_of(whole, slabs, networks)
    number = sum(each.members[0].points for each in results)
    method = Points.of(given.points).method
    arguments = replace(
        given,
        problem=whole,
        network=model,
        points=Points(min(number, _MOST_POINTS), method=method),
        points_per_rank=None,
        optimizer=Keep(parameters=tuple(map(float, flat_weights(model)))),
        steps=None,
        phases=None,
        stop=None,
        keep=LAST,
        weights=None,
        log_every=None,
        grow=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = train_once(arguments, world, progress=False, estimate=estimate, uncertainty=False)
    (member,) = found.members
    parts = [each.members[0] for each in results]
    return replace(
        found, members=(_of_all(member, parts),), arguments=texts_of(given), resample=None
    )


def _model_of(whole: Problem, slabs: Sequence[Slab], networks: Sequence[Any]) -> Any:
    """Return the networks of all slabs as one model, of x as the whole problem gives it."""
    from sciml_par.networks.keras.in_slabs import InSlabs  # it imports TensorFlow

    coordinates = [slab.coordinates for slab in slabs]
    centers, factors = (np.array(each) for each in zip(*coordinates, strict=True))
    times = np.array([slab.end for slab in slabs[:-1]])
    if whole.scaled_box is not None:  # x = half z + middle
        lower, upper = map(np.array, whole.scaled_box)
        middle, half = (lower + upper) / 2, (upper - lower) / 2
        centers, factors = (centers - middle) / half, factors * half
        times = (times - middle[-1]) / half[-1]
    sizes = whole.domain.dimension, whole.network_outputs
    return InSlabs(networks, *sizes, times=times, centers=centers, factors=factors)


def _of_all(member: Member, parts: Sequence[Member]) -> Member:
    """Return the member of all slabs with their steps and times."""
    contributions = tuple(
        replace(
            each,
            seconds_compile=sum(part.contributions[i].seconds_compile for part in parts),
            seconds_train=sum(part.contributions[i].seconds_train for part in parts),
        )
        for i, each in enumerate(member.contributions)
    )
    steps = sum(part.steps for part in parts)
    return replace(
        member,
        steps=steps,
        steps_asked=sum(part.steps_asked for part in parts),
        best_step=steps,
        ended=parts[-1].ended,
        contributions=contributions,
        **_history_of(member, parts),
    )


def _history_of(member: Member, parts: Sequence[Member]) -> dict[str, Any]:
    """Return the losses of all slabs one after another; the last ones if slabs differ in terms."""
    if any(part.terms != member.terms for part in parts):
        ends = np.array([0, sum(part.steps for part in parts)])
        return {"loss_steps": ends[-len(member.loss_steps) :]}
    steps = [part.loss_steps for part in parts]
    before = np.cumsum([0, *(part.steps for part in parts)])
    return {
        "loss_steps": np.concatenate([a + b for a, b in zip(steps, before, strict=False)]),
        "losses": np.concatenate([part.losses for part in parts]),
        "term_losses": np.concatenate([part.term_losses for part in parts]),
        "term_weights": np.empty((0, 0)),
    }

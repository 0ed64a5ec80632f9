"""One result of the results of all slabs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.parallel.groups.world import World
from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import ErrorEstimate
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
        found = train_once(arguments, world, progress=False, estimate=False, uncertainty=False)
    (member,) = found.members
    parts = [each.members[0] for each in results]
    return replace(
        found, members=(_of_all(member, parts, slabs),), arguments=texts_of(given), resample=None
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


def _of_all(member: Member, parts: Sequence[Member], slabs: Sequence[Slab]) -> Member:
    """Return the member of all slabs with their steps, times, and errors."""
    contributions = tuple(
        replace(
            each,
            seconds_compile=sum(part.contributions[i].seconds_compile for part in parts),
            seconds_train=sum(part.contributions[i].seconds_train for part in parts),
        )
        for i, each in enumerate(member.contributions)
    )
    steps = sum(part.steps for part in parts)
    error = _error_of(member, [part.error for part in parts], slabs)
    return replace(
        member,
        steps=steps,
        steps_asked=sum(part.steps_asked for part in parts),
        best_step=steps,
        ended=parts[-1].ended,
        contributions=contributions,
        error=error,
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


@dataclass(frozen=True)
class _Errors:
    """The estimated error of the slab of each point."""

    errors: Sequence[Any]
    times: Array

    def __call__(self, x: Array) -> Array:
        """Return e at x: [n, d] -> [n, m]."""
        return self._by_slab(x, lambda error, z: error(z))

    def quantity(self, f: Callable[..., Any], x: Array) -> Array:
        """Return f(u + e, x) − f(u, x) at x: [n, d] -> [n, k]."""
        return self._by_slab(x, lambda error, z: error.quantity(f, z))

    def _by_slab(self, x: Array, values_of: Callable[[Any, Array], Array]) -> Array:
        found = np.array([])
        slab = np.sum(x[:, -1:] > self.times, axis=1)
        for k in np.unique(slab):
            here = slab == k
            values = values_of(self.errors[k], x[here])
            if not found.size:
                found = np.full((len(x), values.shape[1]), math.nan)
            found[here] = values
        return found


def _error_of(
    member: Member, errors: Sequence[ErrorEstimate | None], slabs: Sequence[Slab]
) -> ErrorEstimate | None:
    """Return the error of the whole march; None if none was asked for."""
    found = [each for each in errors if each is not None]
    if len(found) < len(errors):
        return None
    prediction: Any = member.on_own_domain
    outputs = len(prediction.fields)
    seconds = sum(each.seconds for each in found if not math.isnan(each.seconds))
    for each in found:
        if not each.known:
            return ErrorEstimate.not_known(outputs, each.reason, reliability=each.reliability)
    times = np.array([slab.end for slab in slabs[:-1]])
    evaluate = _Errors([each.evaluate for each in found], times)
    values = evaluate(prediction.x)
    inside = np.ones(len(values), np.bool_) if prediction.inside is None else prediction.inside
    slab_of = np.sum(prediction.x[:, -1:] > times, axis=1)
    of_slabs = [inside & (slab_of == k) for k in range(len(slabs))]
    squares = np.array([np.sum(prediction.u[here] ** 2) for here in of_slabs])
    counts = np.array([np.sum(here) for here in of_slabs])
    relative = np.array([each.relative for each in found])
    absolute = np.array([each.absolute for each in found])
    return ErrorEstimate(
        float(np.sqrt(np.sum(squares * relative**2) / np.sum(squares))),
        np.sqrt(counts @ absolute**2 / np.sum(counts)),
        min(each.reliability for each in found),
        own_error=max(each.own_error for each in found),
        values=values,
        seconds=seconds,
        at_rounding=any(each.at_rounding for each in found),
        between=any(each.between for each in found),
        undetermined=found[0].undetermined,
        evaluate=evaluate,
    )

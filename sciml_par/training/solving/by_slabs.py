"""Solve slab by slab in time, each from the end of the one before."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sciml_par.problems.problem import Problem
from sciml_par.results.result import Result
from sciml_par.results.stored.keras_models import copy_with, flat_weights
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.arguments.settings import LAST
from sciml_par.training.once import train_once
from sciml_par.training.optimizers.keep import Keep
from sciml_par.training.run.progress import Reporter
from sciml_par.training.slabs.carried import Carried
from sciml_par.training.slabs.divide import Slab, slabs_of
from sciml_par.training.slabs.join import joined
from sciml_par.training.solving.ladder import Ladder, text_of, with_error

_POINTS = 500
"""Interior points of a slab at which its loss is evaluated."""


def solve_in_slabs(
    ladder: Ladder, climb: Callable[[Ladder], str | None], *, least: float
) -> str | None:
    """Solve for all slabs, and keep one result (collective); why all ends, if there was a reason.

    Errors of slabs may add up, so that each is solved to its share of the tolerance; but not below
    the `least` one.
    """
    everyone, whole = ladder.world.communicator, ladder.problem
    scaled = whole.input_scaling is not False
    # Each network sees its slab: there is nothing that slabs of equal duration would share.
    slabs = [replace(s, first=s.domain) for s in slabs_of(whole, scaled=scaled)]
    reporter = Reporter(1, shown=ladder.shown and everyone.rank == 0)
    carried, began = Carried(whole.outputs), time.perf_counter()
    for slab in slabs:
        start = time.perf_counter()
        ladder.doing(slab.text)
        problem = everyone.attempt(partial(slab.problem_of, whole, carried.before))
        share = ladder.left() / (slab.count - slab.number)
        own = _ladder_of(ladder, slab, problem, max(ladder.tolerance / slab.count, least), share)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            climb(own)
        assert own.best is not None
        found = _with_error(own, carried, late=ladder.left() <= 0)
        carried.add(slab, problem, found, estimate=True)
        error = carried.results[-1].error
        reporter.note(
            f"{slab.text}   loss {found.members[0].kept_loss:.2e}, at other points "
            f"{found.members[0].validation_loss:.2e}   error {text_of(error)}   "
            f"{time.perf_counter() - start:.1f} s"
        )
    networks = [each.networks[0] for each in carried.results]
    arguments = _arguments(ladder, whole, None)
    ladder.best = joined(whole, slabs, carried.results, networks, arguments, ladder.world)
    late = ladder.longest(time.perf_counter() - began) > ladder.seconds
    return "time is up" if late else None


def _ladder_of(
    ladder: Ladder, slab: Slab, problem: Problem, tolerance: float, seconds: float
) -> Ladder:
    checkpoint = ladder.checkpoint
    if checkpoint is not None:
        folder = Path(checkpoint.folder) / f"slab-{slab.number + 1:0{len(str(slab.count))}}"
        checkpoint = replace(checkpoint, folder=folder)
    return Ladder(
        problem,
        tolerance,
        seconds,
        ladder.precision,
        ladder.seed,
        ladder.world,
        shown=False,
        checkpoint=checkpoint,
        resume=ladder.resume,
        start=ladder.start,
        signals=ladder.signals,
    )


def _with_error(ladder: Ladder, carried: Carried, *, late: bool) -> Result:
    """Return the best result with the error that includes that of the slabs before (collective).

    Of the first slab it may be known already. Later ones estimate it by one correction of all.
    """
    best = ladder.best
    assert best is not None
    first = not carried.results
    if carried.unknown or first and (not best.error.known or not best.error.between):
        return best
    if late:
        return with_error(best, ladder.no_time())
    (model,) = best.networks
    weights = flat_weights(model)
    found = train_once(
        _arguments(ladder, ladder.problem, copy_with(model, weights)),
        ladder.world,
        progress=False,
        estimate=True,
        uncertainty=False,
        start=carried.error,
    )
    return replace(best, members=(replace(best.members[0], error=found.members[0].error),))


def _arguments(ladder: Ladder, problem: Problem, network: Any) -> Arguments:
    """Return the arguments of a training that keeps the weights of a network."""
    weights = () if network is None else tuple(map(float, flat_weights(network)))
    return Arguments(
        problem=problem,
        network=network,
        points=_POINTS,
        optimizer=Keep(parameters=weights),
        steps=None,
        keep=LAST,
        seed=ladder.seed,
        precision=ladder.precision,
        grow=False,
    )

"""Estimate the error of a trained field by one Gauss–Newton step of richer features."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import import_module
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.arguments.ensemble import Ensemble
from sciml_par.training.members.stack import MemberSetup
from sciml_par.training.optimizers.least_squares.least_squares import LeastSquares
from sciml_par.training.outcome.outcome import outcomes_of
from sciml_par.training.outcome.evaluate import values_of
from sciml_par.training.outcome.validation import at_other_points
from sciml_par.training.points.points import Points
from sciml_par.training.preparation.preparation import prepare
from sciml_par.training.run.meeting import Meeting
from sciml_par.training.run.run import run


@dataclass(frozen=True)
class Candidates:
    """Make the sum of a trained network and of random features, of another scale for each seed."""

    base: Any
    kinds: Sequence[tuple[str, float]]
    features: int
    first_seed: int

    def __call__(self, d: int, m: int, *, seed: int, dtype: str, box: Any = None) -> Any:
        models: Any = import_module("sciml_par.networks.models.random_features")
        corrected: Any = import_module("sciml_par.networks.models.corrected")
        activation, scale = self.kinds[seed]
        features = models.RandomFeatures(
            d, m, features=self.features, activation=activation, scale=scale,
            seed=self.first_seed, box=box, dtype=dtype,
        )
        return corrected.Corrected(self.base, features)


def corrections(setup: MemberSetup, kept, world, *, kinds, features, points, settings, steps=1, seed=77):
    factory = Candidates(setup.network.model, kinds, features, seed)
    arguments = Arguments(
        problem=setup.problem, network=factory, points=points, points_per_rank=None,
        mode=Ensemble(members=len(kinds), ranks_per_member=world.communicator.size, seeds=range(len(kinds))),
        optimizer=LeastSquares(), steps=steps, phases=None, stop=None, keep="last", weights=None,
        seed=settings.seed + seed, precision=settings.precision, log_every=None, evaluation_points=None,
        evaluation_domain=None,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ready = prepare(arguments, world)
    courses = ready.courses()
    everyone = world.communicator
    start = [[np.asarray(row) for row in course.stack.parameters] for course in courses]
    meeting = Meeting(courses, rank=everyone.rank, speaks=False, ensemble=True)
    run(meeting, take_apart=ready.take_apart, group=ready.group, world=everyone, watchers=[])
    ends = [[outcome.last for outcome in outcomes_of(course)] for course in courses]
    before = at_other_points(courses, start, points, settings=ready.settings, group=ready.group)
    after = at_other_points(courses, ends, points, settings=ready.settings, group=ready.group)
    out = []
    for c, course in enumerate(courses):
        for k, s in enumerate(course.stack.setups):
            out.append((s.number, before[c][k].validation_loss, after[c][k].validation_loss, course, s, start[c][k], ends[c][k]))
    return sorted(out, key=lambda e: e[0])

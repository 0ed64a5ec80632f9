"""Train a model again, from where it is, on many problems at once that differ in their data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.parallel.groups.world import World
from sciml_par.problems.problem import Problem
from sciml_par.results.stored.keras_models import copy_with, flat_weights
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.arguments.ensemble import Ensemble
from sciml_par.training.optimizers.least_squares.levenberg_marquardt import LevenbergMarquardt
from sciml_par.training.outcome.outcome import Outcome, outcomes_of
from sciml_par.training.preparation.preparation import Preparation, prepare
from sciml_par.training.run.meeting import Meeting
from sciml_par.training.run.run import run
from sciml_par.training.weights.of_noise import statistical_terms

Array = npt.NDArray[Any]

_STEPS = 40


@dataclass(frozen=True)
class Trained:
    """What M members ended with.

    Attributes
    ----------
    parameters : θ, [M, p].
    chi_squares : of each statistical term by its name, [M].
    finite : whether the loss stayed finite, [M].
    """

    parameters: Array
    chi_squares: dict[str, Array]
    finite: Array


@dataclass(frozen=True)
class Retraining:
    """Trains members from the parameters θ: [p] of a model, at its points."""

    arguments: Arguments
    ready: Preparation
    theta: Array
    world: World

    @property
    def problem(self) -> Problem:
        """The problem with its weights and scaling of inputs."""
        return self.ready.stacks[0].problem

    def train(self, problems: Sequence[Problem]) -> Trained:
        """Train a member for each problem (collective)."""
        everyone = self.world.communicator
        # Each rank has at least one.
        filled = list(problems)
        filled += filled[-1:] * max(0, everyone.size - len(filled))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the training itself has said what there is to say
            ready = prepare(
                self._arguments(filled),
                self.world,
                scattered=self.ready.identity.scattered,
                growths=self.ready.identity.growths,
            )
        for stack in ready.stacks:
            stack.parameters[:] = self.theta
        courses = ready.courses()
        meeting = Meeting(courses, rank=everyone.rank, speaks=ready.group.rank == 0, ensemble=True)
        run(meeting, take_apart=ready.take_apart, group=ready.group, world=everyone, watchers=[])
        here = [
            (setup.number, _found(outcome, setup.problem))
            for course in courses
            for setup, outcome in zip(
                course.stack.setups, outcomes_of(course, ready.settings), strict=True
            )
        ]
        numbered = dict(pair for part in everyone.allgather_object(here) for pair in part)
        found = [numbered[number] for number in range(len(problems))]
        names = list(found[0][1])
        return Trained(
            np.stack([theta for theta, _, _ in found]).astype(np.float64),
            {name: np.array([each[name] for _, each, _ in found]) for name in names},
            np.array([finite for _, _, finite in found]),
        )

    def _arguments(self, problems: Sequence[Problem]) -> Arguments:
        model = self.ready.stacks[0].network.model
        weights = flat_weights(model)
        return replace(
            self.arguments,
            problem=problems[0],
            network=lambda *given, **named: copy_with(model, weights),
            mode=Ensemble(
                members=len(problems),
                ranks_per_member=1,
                problems=list(problems),
                seeds=[self.arguments.seed] * len(problems),
            ),
            optimizer=LevenbergMarquardt(),
            phases=None,
            steps=_STEPS,
            stop=None,
            keep="best",
            weights={},
            log_every=None,
            grow=False,
        )


def _found(outcome: Outcome, problem: Problem) -> tuple[Array, dict[str, float], bool]:
    rows, terms = statistical_terms(problem), zip(problem.terms, outcome.terms[-1], strict=True)
    chi = {t.name: last / t.weight * rows[t.name] for t, last in terms if t.name in rows}
    return outcome.best, chi, outcome.sound

"""Train networks slab by slab in time, each from the end of the one before."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sciml_par._checks import check_flag
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError, TrainingError
from sciml_par.networks.keras.network import Network
from sciml_par.parallel.groups.world import World
from sciml_par.problems.conditions.in_time import Before
from sciml_par.problems.problem import Problem
from sciml_par.results.member import SIGNALS
from sciml_par.results.result import Result
from sciml_par.results.stored.keras_models import copy_with, flat_weights
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.arguments.ensemble import as_mode
from sciml_par.training.checkpoints.checkpoint import AUTO, Checkpoint, compare_checkpoints
from sciml_par.training.loss.objective import field_of
from sciml_par.training.once import train_once
from sciml_par.training.optimizers.phases import as_phases
from sciml_par.training.outcome.evaluate import in_time
from sciml_par.training.preparation.automatic import with_optimizer
from sciml_par.training.preparation.problem_changes import ProblemChanges
from sciml_par.training.run.progress import Reporter
from sciml_par.training.slabs.divide import Slab, check_points
from sciml_par.training.slabs.join import joined
from sciml_par.training.solving.scale_of_features import with_scale


def in_slabs(problem: Any, world: World) -> bool:
    """Return whether the problem of a rank has slabs of time (collective)."""
    several = isinstance(problem, Problem) and len(problem.domain.slabs) > 1
    return any(world.communicator.allgather_object(several))


def march(
    arguments: Arguments,
    world: World,
    *,
    checkpoint: Checkpoint | None,
    resume: bool | str,
    progress: bool,
    estimate: bool | None,
    uncertainty: bool | None,
    callbacks: Any,
) -> Result:
    """Train on all slabs, and return one result (collective); arguments as of `train`."""
    everyone = world.communicator
    everyone.attempt(lambda: _check(arguments, estimate, uncertainty))
    compare_checkpoints(checkpoint, resume, everyone)
    everyone.on_root(lambda: _check_resume(checkpoint, resume))
    shown = progress and everyone.rank == 0
    marching = March(arguments, world, Reporter(1, shown=shown))
    for slab in marching.slabs:
        marching.train(
            slab,
            callbacks=callbacks,
            checkpoint=_of_slab(checkpoint, slab),
            resume=AUTO if resume else False,
        )
    return marching.result(estimate=bool(estimate))


@dataclass(frozen=True)
class _First:
    """Makes the network of the first slab as the given one does, and lets it be moved."""

    network: Any
    slab: Slab

    def __call__(
        self, d: int, m: int, *, seed: int, dtype: str, box: Any = None, initial_weights: Any = None
    ) -> Any:
        from sciml_par.networks.keras.factory import make_network  # it imports TensorFlow

        made = make_network(
            self.network, d, m, seed=seed, dtype=dtype, box=box, initial_weights=initial_weights
        )
        return _moved(made.model, d, m, self.slab)


class March:
    """A march through the slabs of a problem, as far as it has come."""

    def __init__(self, given: Arguments, world: World, reporter: Reporter) -> None:
        everyone = world.communicator
        scaled = everyone.attempt(lambda: _scales(given))
        parts = given.problem.domain.slabs
        self.slabs = [Slab(k, len(parts), each, parts[0], scaled) for k, each in enumerate(parts)]
        self._given, self._world, self._reporter = given, world, reporter
        first = self.slabs[0]
        on_first = everyone.attempt(
            lambda: replace(
                given,
                problem=first.problem_of(given.problem, None),
                points=first.points_of(given.points, given.problem.domain),
            )
        )
        chosen, note = with_optimizer(on_first, everyone)
        phases = everyone.attempt(lambda: as_phases(chosen.optimizer, chosen.steps, chosen.phases))
        # The weights of all slabs are those of the whole problem.
        changes = everyone.attempt(
            lambda: ProblemChanges(given.weights, [phase.optimizer for phase in phases])
        )
        whole = everyone.attempt(lambda: changes.weigh(given.problem))
        whole = changes.with_ranges(whole) if scaled else whole
        self.whole: Problem = whole.with_output_ranges(whole.output_ranges)  # of all slabs
        weights = None if isinstance(given.weights, Mapping) else given.weights
        own = replace(chosen, weights=weights, problem=first.problem_of(self.whole, None))
        own, of_scale = with_scale(own, world)
        self._arguments = replace(own, network=_First(own.network, first), evaluation_domain=None)
        for text in (*([note] if note else []), *changes.notes, *of_scale):
            reporter.note(text)
        self._results: list[Result] = []  # of the slabs so far
        self._before: Before | None = None  # the solution at the end of the last slab

    def train(self, slab: Slab, **how: Any) -> None:
        """Train on the next slab, and show a line (collective)."""
        began, everyone = time.perf_counter(), self._world.communicator
        problem = everyone.attempt(lambda: slab.problem_of(self.whole, self._before))
        points = everyone.attempt(
            lambda: slab.points_of(self._given.points, self._given.problem.domain)
        )
        arguments = replace(self._arguments, problem=problem, points=points)
        if self._results:
            before = self._results[-1].networks[0].network
            copy = copy_with(before, flat_weights(before))
            network = _moved(copy, problem.domain.dimension, problem.network_outputs, slab)
            arguments = replace(arguments, network=network)
        try:
            found = train_once(
                arguments, self._world, progress=False, estimate=False, uncertainty=False, **how
            )
        except TrainingError as error:
            raise TrainingError(f"{slab.text}: {error}") from error
        (member,) = found.members
        if member.ended in SIGNALS:
            raise TrainingError(
                f"train: {member.ended} ended the training in {slab.text}, and the later slabs "
                f"have none. With checkpoint=Checkpoint(folder), resume=True continues there."
            )
        self._results.append(found)
        self._before = _end_of(problem, found.networks[0])
        self._reporter.note(
            f"{slab.text}   loss {member.kept_loss:.2e}, at other points "
            f"{member.validation_loss:.2e}   {time.perf_counter() - began:.1f} s"
        )

    def result(self, *, estimate: bool) -> Result:
        """Return the result over all slabs (collective); `estimate` its error."""
        networks = [each.networks[0].network for each in self._results]
        of = self.whole, self.slabs, self._results, networks, self._given, self._world
        return joined(*of, estimate=estimate)


def _end_of(problem: Problem, model: Any) -> Before:
    """Return the solution of a slab, with which the one after it begins."""
    from sciml_par.networks.keras.from_model import as_network  # it imports TensorFlow

    d, m = problem.domain.dimension, problem.network_outputs
    dtype = str(model.trainable_variables[0].dtype)
    network: Network = as_network(model, d, m, dtype=dtype)
    weights = [tf.constant(np.asarray(variable)) for variable in network.trainable_variables]
    u = field_of(problem, network, weights)
    return lambda x, order: in_time(u, x, order, dtype)


def _moved(model: Any, d: int, m: int, slab: Slab) -> Any:
    from sciml_par.networks.keras.in_slabs import Moved  # it imports TensorFlow

    return Moved(model, d, m, slab.shift)


def _scales(given: Arguments) -> bool:
    """Return whether networks see the box of each slab as [−1, 1]^d."""
    from sciml_par.networks.keras.factory import make_network  # it imports TensorFlow
    from sciml_par.networks.models.random_features import RandomFeatures

    problem = given.problem
    if problem.input_scaling is not None:
        return bool(problem.input_scaling)
    d, m = problem.domain.dimension, problem.network_outputs
    box = (-1.0,) * d, (1.0,) * d
    model = make_network(given.network, d, m, seed=0, dtype=given.precision, box=box).model
    return isinstance(model, RandomFeatures) or bool(getattr(model, "sees_scaled_inputs", False))


def _check(given: Arguments, estimate: Any, uncertainty: Any) -> None:
    if not isinstance(given.problem, Problem) or len(given.problem.domain.slabs) == 1:
        raise InputError("train: other ranks have a problem with slabs of time, and this one not.")
    if as_mode(given.mode) is not None:
        raise InputError(
            "train: slabs of time are solved by one model, mode='data', as each begins with the "
            "end of the one before; for an ensemble, leave out slabs=, or call train in a loop "
            "over seeds."
        )
    check_flag("train", "estimate", estimate, or_none=True)
    if uncertainty:
        raise InputError(
            "train: uncertainty=True takes all observations together, and slabs of time those of "
            "each slab; leave out one of them."
        )
    check_points(given.points)


def _check_resume(checkpoint: Checkpoint | None, resume: bool | str) -> None:
    if checkpoint is not None and resume is True:
        first = sorted(Path(checkpoint.folder).glob("slab-*/*.npz"))
        if not first:
            raise InputError(
                f"train: {checkpoint.folder} has no checkpoint of a slab to resume from; "
                f"resume='auto' starts from the beginning in that case."
            )


def _of_slab(checkpoint: Checkpoint | None, slab: Slab) -> Checkpoint | None:
    if checkpoint is None:
        return None
    digits = len(str(slab.count))
    return replace(checkpoint, folder=Path(checkpoint.folder) / f"slab-{slab.number + 1:0{digits}}")

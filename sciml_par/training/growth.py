"""Add points to a training that over-fits those that it has, and let it continue."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

from sciml_par._text import one_line
from sciml_par.errors import InputError
from sciml_par.parallel.groups.world import World
from sciml_par.results.growth import Growth, over_fits
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.arguments.ensemble import DATA
from sciml_par.training.checkpoints.checkpoint_watcher import CheckpointWatcher
from sciml_par.training.loop.course import Course
from sciml_par.training.outcome.data_fits import fits_of_member
from sciml_par.training.outcome.validation import at_other_points
from sciml_par.training.points.growing import MOST_GROWTHS, number_after, why_fixed
from sciml_par.training.preparation.preparation import Preparation, prepare
from sciml_par.training.run.callbacks import computes_something_else
from sciml_par.training.run.meeting import Meeting
from sciml_par.training.run.watcher import NO_LIMIT, Watcher

_LEAST_STEPS = 60
_EIGHTHS = (1, 2, 4, 6)
"""A training is tested after as many eighths of its steps, and where it ends early."""


class GrowthWatcher(Watcher):
    """Compare the loss with that at other points, and add points where the model over-fits.

    What it decides depends on the steps alone, not on the clock or the chunks.

    Attributes
    ----------
    ready : what the training has been prepared with since the last growth.
    """

    def __init__(
        self,
        ready: Preparation,
        arguments: Arguments,
        world: World,
        savers: Sequence[CheckpointWatcher],
    ) -> None:
        self.ready, self._arguments = ready, arguments
        self._world, self._savers = world, savers
        steps = sum(ready.identity.steps)
        on = arguments.grow is not False and why_not(arguments, ready) is None
        self._steps = tuple(each * steps // 8 for each in _EIGHTHS) if on else ()
        self._tested = -1

    @property
    def _growths(self) -> tuple[Growth, ...]:
        """Those until now, before an interruption as well."""
        return self.ready.identity.growths

    def longest_chunk(self, step: int) -> int:
        return min((each - step for each in self._steps if each > step), default=NO_LIMIT)

    def met(self, meeting: Meeting) -> str | None:
        course = meeting.course
        if not self._due(course) or meeting.stop is not None:
            return None
        self._tested = course.step
        kept = course.state.parameters.numpy()[0]
        # As `Member.losses_of_equations`.
        noise = sum(fit.loss for fit in fits_of_member(course.stack, kept, 0).values())
        loss = max(float(course.terms_here().sum()) - noise, 0.0)
        other = self._elsewhere(course) - noise
        if not over_fits(other, loss, course.first_loss):
            return None
        number = len(self._growths)
        before, after = (
            number_after(self._arguments.points, self._arguments.problem, number + more)
            for more in (0, 1)
        )
        return self._grow(meeting, Growth(course.step, before, after, loss, other))

    def _due(self, course: Course) -> bool:
        if not self._steps or course.step in (0, self._tested, *(g.step for g in self._growths)):
            return False
        more = (
            len(self._growths) < MOST_GROWTHS
            and why_fixed(self.ready.points, self._arguments.problem) is None
        )
        return more and course.can_go_on and (course.finished or course.step in self._steps)

    def _elsewhere(self, course: Course) -> float:
        """Return the loss at other points, by the present weights (collective)."""
        ((found,),) = at_other_points(
            [course.stack],
            [list(course.state.parameters.numpy())],
            self.ready.points,
            settings=self.ready.settings,
            group=self.ready.group,
        )
        return found.validation_loss

    def _grow(self, meeting: Meeting, growth: Growth) -> str:
        """Continue with more points (collective); return what to report."""
        changed = computes_something_else(meeting.course)
        if any(self._world.communicator.allgather_object(changed)):
            # To trace it again would train what it is now, of which the callbacks' watcher warns.
            return self._stay("the residuals, conditions or ansatz have changed")
        # The same network, since one that is made again may draw other weights that stay.
        arguments = replace(self._arguments, network=self.ready.networks[0])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it has been said of the first points
                ready = prepare(arguments, self._world, growths=(*self._growths, growth))
        except InputError as error:
            return self._stay(one_line(error))
        (other,) = ready.courses()
        if not meeting.course.move_to(other):
            return self._stay("the loss is not finite at some of the new ones")
        meeting.reopen()
        self.ready = ready
        for saver in self._savers:
            saver.go_on_with(ready)
        return str(growth)

    def _stay(self, why: str) -> str:
        self._steps = ()
        return f"the points stay as they are: {why}"


def why_not(arguments: Arguments, ready: Preparation) -> str | None:
    """Return why the points of a training cannot grow, as the end of a sentence, or None."""
    reasons = (
        (ready.settings.mode != DATA, "the members of an ensemble keep their points"),
        (arguments.points_per_rank is not None, "points_per_rank= says where the points are"),
        (ready.strategy is not None and ready.strategy.of_points, "each point has a weight"),
        (
            sum(ready.identity.steps) < _LEAST_STEPS,
            f"that takes {_LEAST_STEPS} steps or more, by which over-fitting shows",
        ),
    )
    found = next((text for fixed, text in reasons if fixed), None)
    return found or why_fixed(arguments.points, arguments.problem)


def check_grow(arguments: Arguments, ready: Preparation) -> None:
    """Refuse grow=True where points cannot grow."""
    why = why_not(arguments, ready) if arguments.grow else None
    if why is not None:
        raise InputError(
            f"train: grow=True adds points where a training over-fits, but {why}. Leave grow out, "
            f"and give more points, as points=4000, where the loss at other points is far larger."
        )

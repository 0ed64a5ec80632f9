"""Show the progress of a training, from what the ranks report to each other."""

from __future__ import annotations

import time

import numpy as np

from sciml_par._text import rank_list
from sciml_par.problems.unknowns.unknowns import numbers_of
from sciml_par.results.member import WALL_TIME
from sciml_par.training.run.meeting import Meeting, Watcher, named_values
from sciml_par.training.run.progress import Reporter


class ProgressWatcher(Watcher):
    """Pass every meeting on to a reporter."""

    def __init__(self, reporter: Reporter, *, all_records: bool) -> None:
        self._reporter = reporter
        self._all_records = all_records
        self._shown: dict[tuple[int, ...], int] = {}
        self._ended: set[int] = set()
        self._started = False
        self._phase = 0

    def met(self, meeting: Meeting) -> None:
        for note in dict.fromkeys(note for s in meeting.everyone for note in s.notes):
            self._reporter.note(note)
        ended = {rank for rank, status in enumerate(meeting.everyone) if status.not_finite}
        new, self._ended = sorted(ended - self._ended), ended
        if new and meeting.losses:
            self._reporter.note(
                f"{rank_list(new)} of {len(meeting.everyone)}: the loss is no longer finite; the "
                f"model{'s' * (len(new) > 1)} in training there end{'s' * (len(new) == 1)}, "
                f"the others continue"
            )
        if not self._started:
            self._started = True
            self._shown = {c.stack.numbers: len(c.steps) for c in meeting.courses}
            self._reporter.ready()
            return
        if self._all_records:
            self._show_records(meeting)
        if meeting.losses:
            # The rank that has made the fewest steps, of those at work with rank 0's courses.
            first = meeting.everyone[0]
            working = [s for s in meeting.everyone if s.course < s.courses == first.courses]
            last = min(working, key=lambda status: status.done, default=first)
            names = [term.name for term in meeting.course.stack.terms]
            terms = dict(zip(names, last.terms, strict=False)) if len(meeting.losses) == 1 else {}
            self._reporter.update(last.done, meeting.losses, terms, last.measures, meeting.unknowns)
        course, phase = meeting.course, meeting.course.position.phase
        if phase > self._phase:  # the first course has come to it
            self._phase = phase
            name = type(course.phases[phase].optimizer).__name__
            of_all = f"phase {phase + 1} of {len(course.phases)}"
            self._reporter.note(f"{of_all}, from step {course.position.phase_start:,}: {name}")

    def _show_records(self, meeting: Meeting) -> None:
        course, at = meeting.course, meeting.worked
        before = sum(each.step for each in meeting.courses[:at])
        first = self._shown.get(course.stack.numbers, 0)
        names = [term.name for term in course.stack.terms]
        unknowns = course.stack.problem.unknowns
        for steps, records in zip(course.steps[first:], course.records[first:], strict=True):
            for step, record in zip(steps, records, strict=True):
                running = [j for j in range(len(record)) if step <= course.last_step_of(j)]
                if not running:
                    continue
                rows, parameters = np.split(record[running], [len(names)], axis=1)
                alone = dict(zip(names, rows[0], strict=True)) if len(rows) == 1 else {}
                losses = [float(row.sum()) for row in rows]
                sought = named_values(unknowns, numbers_of(unknowns, parameters))
                self._reporter.record(before + int(step), losses, alone, sought)
        self._shown[course.stack.numbers] = len(course.steps)


class TimeWatcher(Watcher):
    """Stop a training when its time is over, by rank 0's clock."""

    def __init__(self, seconds: float, *, rank: int) -> None:
        self._end = time.monotonic() + seconds if rank == 0 else float("inf")

    def stop(self) -> str | None:
        return WALL_TIME if time.monotonic() >= self._end else None

"""The progress of a training: a moving line on a terminal or in a notebook, or plain lines."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Self

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn

from sciml_par._terminal import CellLine, console, prints_to_terminal
from sciml_par._text import rank_list
from sciml_par.problems.unknowns.unknowns import numbers_of
from sciml_par.results.member import WALL_TIME
from sciml_par.training.run.meeting import Meeting, named_values
from sciml_par.training.run.watcher import Watcher

_SECONDS_BETWEEN_LINES, _MOST_SECONDS = 2.0, 300.0
_SHARE_BETWEEN_LINES = 0.02
"""Of the time so far: lines of a run of hours are some hundreds."""
_WIDE, _BAR_WIDTH = 120, 24
"""A terminal with this many columns has room for a bar of this width."""
_MOST_UNKNOWNS = 6  # a line has no room for more
_NONE: Mapping[str, float] = MappingProxyType({})
Unknowns = Mapping[str, Sequence[float]]
_NO_UNKNOWNS: Unknowns = MappingProxyType({})


class Reporter:
    """What `train` shows between chunks of steps.

    On a terminal and in a notebook it is one line that moves; on a terminal it leaves out what has
    no room. Elsewhere there are plain lines, at most one every two seconds, or every fiftieth of
    the time so far, and the last. If records are shown, each has a line, and plain lines are those
    alone.
    """

    def __init__(self, total: int, *, shown: bool = True) -> None:
        self._pace, self._shown = Pace(total), shown
        self._began = self._said = 0.0
        self._records = False
        self._bar: Progress | None = None
        self._line = CellLine.of_notebook() if shown else None
        if shown and prints_to_terminal():
            screen = console()
            bar = [BarColumn(bar_width=_BAR_WIDTH)] if screen.width >= _WIDE else []
            self._bar = Progress(
                TextColumn("step {task.completed:,.0f} of {task.total:,.0f}"),
                *bar,
                TextColumn("{task.description}"),
                console=screen,
            )
            self._task = self._bar.add_task("compiling", total=total)

    def begin(self, done: int) -> None:
        """Show that compilation starts, after `done` steps of a training that this one resumes."""
        self._pace.start_at(done)
        resumed = [f"resumed at step {done:,}"] if done else []
        if self._bar is None:
            show = self.note if self._line is None else self._line.show
            show("; ".join([*resumed, "compiling"]))
            return
        for text in resumed:
            self.note(text)
        self._bar.update(self._task, completed=done)

    def ready(self) -> None:
        """Count time from now on, since the loop is compiled."""
        self._pace.resume()
        self._began = self._said = time.monotonic()

    def record(
        self,
        done: int,
        losses: Sequence[float],
        terms: Mapping[str, float],
        unknowns: Unknowns = _NO_UNKNOWNS,
    ) -> None:
        """Show the loss that was recorded after `done` steps; arguments as `update`."""
        self._records = True
        loss = f"loss {loss_text(losses)}{terms_text(terms)}{unknowns_text(unknowns)}"
        self.note(f"step {done:,} of {self._pace.total:,}   {loss}")

    def update(
        self,
        done: int,
        losses: Sequence[float],
        terms: Mapping[str, float],
        measures: Mapping[str, float] = _NONE,
        unknowns: Unknowns = _NO_UNKNOWNS,
    ) -> None:
        """Show that `done` steps are made."""
        self._pace.update(done)
        total = self._pace.total
        head = f"step {done:,} of {total:,}"
        # From the most important to what is left out first.
        parts = {
            "left": f"   {clock_text(self._pace.seconds_left)} left",
            "loss": f"   loss {loss_text(losses)}",
            "unknowns": unknowns_text(unknowns),
            "terms": terms_text(terms),
            "measures": measures_text(measures),
            "rate": f"   {rate_text(self._pace.rate)}",
        }
        if self._bar is not None:
            width = self._bar.console.width
            room = width - len(head) - (_BAR_WIDTH + 1 if width >= _WIDE else 0)
            fitting = {}
            for name, part in parts.items():
                if len(part) <= room:
                    fitting[name] = part
                    room -= len(part)
            text = _in_order(fitting).lstrip()
            self._bar.update(self._task, completed=done, description=text)
            return
        text = head + _in_order(parts)
        if self._line is not None:
            self._line.show(text)
        elif done >= total or self._is_due():
            self._said = time.monotonic()
            self.note(text)

    def note(self, text: str) -> None:
        """Show a line at once, above the one that moves."""
        if self._bar is not None:
            self._bar.console.print(text)
        elif self._shown:
            print(text, flush=True)

    def _is_due(self) -> bool:
        now = time.monotonic()
        between = max(_SECONDS_BETWEEN_LINES, _SHARE_BETWEEN_LINES * (now - self._began))
        return not self._records and now - self._said >= min(between, _MOST_SECONDS)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _in_order(parts: Mapping[str, str]) -> str:
    """Return the parts of a line as it is read."""
    order = ("loss", "terms", "unknowns", "measures", "rate", "left")
    return "".join(parts.get(name, "") for name in order)


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


class Pace:
    """Steps per second, and how long the rest will take."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._done = self._first = 0
        self._seconds = 0.0
        self._since = time.monotonic()

    def start_at(self, done: int) -> None:
        """Take note of steps that were made before."""
        self._done = self._first = done

    def resume(self) -> None:
        """Count time from now on, not since the last update."""
        self._since = time.monotonic()

    def update(self, done: int) -> None:
        """Take note that `done` steps are made."""
        now = time.monotonic()
        self._done, self._seconds, self._since = done, self._seconds + now - self._since, now

    @property
    def rate(self) -> float:
        """Steps per second."""
        return (self._done - self._first) / max(self._seconds, 1e-9)

    @property
    def seconds_left(self) -> float:
        """The time of the remaining steps at this pace."""
        left = self.total - self._done
        if left == 0:
            return 0.0
        return left / self.rate if self._done > self._first else math.inf


def loss_text(losses: Sequence[float]) -> str:
    """Return one loss, or the least and the largest of several."""
    low, high = min(losses), max(losses)
    return f"{low:.2e}" if low == high else f"{low:.2e} to {high:.2e}"


def terms_text(terms: Mapping[str, float]) -> str:
    """Return the terms of a loss, where it has several."""
    if len(terms) < 2:
        return ""
    return " (" + ", ".join(f"{name} {value:.1e}" for name, value in terms.items()) + ")"


def unknowns_text(unknowns: Unknowns) -> str:
    """Return the values of unknowns, of several members the least and the largest."""
    texts = []
    for name, values in list(unknowns.items())[:_MOST_UNKNOWNS]:
        low, high = f"{min(values):.6g}", f"{max(values):.6g}"
        texts.append(f"{name} {low}" if low == high else f"{name} {low} to {high}")
    more = ", …" if len(unknowns) > _MOST_UNKNOWNS else ""
    return f"   {', '.join(texts)}{more}" if texts else ""


def measures_text(measures: Mapping[str, float]) -> str:
    """Return what an optimizer reports of its last step."""
    if not measures:
        return ""
    return "   " + ", ".join(f"{name} {value:.1e}" for name, value in measures.items())


def rate_text(rate: float) -> str:
    """Return steps per second, or seconds per step if a step takes longer."""
    if 0 < rate < 1:
        return f"{1 / rate:.1f} s/step"
    return f"{rate:,.0f} steps/s" if rate >= 10 else f"{rate:.1f} steps/s"


def clock_text(seconds: float) -> str:
    """Return seconds as "0:07" or "1:02:03"."""
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

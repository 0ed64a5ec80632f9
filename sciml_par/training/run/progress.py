"""How a training shows that it goes on: a line that moves, or lines where no terminal is."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn

from sciml_par._terminal import console, prints_to_terminal

_SECONDS_BETWEEN_LINES = 2.0
_MOST_UNKNOWNS = 6  # a line has no room for more
_NONE: Mapping[str, float] = MappingProxyType({})
Unknowns = Mapping[str, Sequence[float]]
_NO_UNKNOWNS: Unknowns = MappingProxyType({})


class Reporter:
    """What `train` tells between chunks of steps. This one shows nothing of it."""

    def begin(self, done: int) -> None:
        """Compilation begins; `done` steps were made by a training that this one continues."""

    def ready(self) -> None:
        """The loop is compiled; steps begin. Called once for each model."""

    def record(
        self,
        done: int,
        losses: Sequence[float],
        terms: Mapping[str, float],
        unknowns: Unknowns = _NO_UNKNOWNS,
    ) -> None:
        """The loss was recorded after `done` steps, and is to be shown; arguments as `update`."""

    def update(
        self,
        done: int,
        losses: Sequence[float],
        terms: Mapping[str, float],
        measures: Mapping[str, float] = _NONE,
        unknowns: Unknowns = _NO_UNKNOWNS,
    ) -> None:
        """`done` steps are made."""

    def note(self, text: str) -> None:
        """Something happened that is to be known at once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        return None


class Lines(Reporter):
    """Plain lines, at most one every two seconds, and the last.

    Where records are shown, there is one for each of them and no others.
    """

    def __init__(self, total: int) -> None:
        self._pace = Pace(total)
        self._said = 0.0
        self._records = False

    def begin(self, done: int) -> None:
        """Write what is done now, before anything else can be seen."""
        self._pace.start_at(done)
        print(_begin_text(done), flush=True)

    def ready(self) -> None:
        """Leave the time of compilation out of the pace."""
        self._pace.resume()
        self._said = time.monotonic()

    def note(self, text: str) -> None:
        """Write it as a line."""
        print(text, flush=True)

    def update(
        self,
        done: int,
        losses: Sequence[float],
        terms: Mapping[str, float],
        measures: Mapping[str, float] = _NONE,
        unknowns: Unknowns = _NO_UNKNOWNS,
    ) -> None:
        """Write a line, if one is due."""
        self._pace.update(done)
        total, now = self._pace.total, time.monotonic()
        if self._records and done < total:
            return
        if done < total and now - self._said < _SECONDS_BETWEEN_LINES:
            return
        self._said = now
        print(
            f"step {done:,} of {total:,}   loss {loss_text(losses)}{terms_text(terms)}"
            f"{unknowns_text(unknowns)}{measures_text(measures)}   {rate_text(self._pace.rate)}   "
            f"{clock_text(self._pace.seconds_left)} left",
            flush=True,
        )

    def record(
        self,
        done: int,
        losses: Sequence[float],
        terms: Mapping[str, float],
        unknowns: Unknowns = _NO_UNKNOWNS,
    ) -> None:
        """Write a line."""
        self._records = True
        print(_record_text(done, self._pace.total, losses, terms, unknowns), flush=True)


class Line(Reporter):
    """One line that moves, and above it those of records that are to be shown."""

    def __init__(self, total: int) -> None:
        self._pace = Pace(total)
        self._progress = Progress(
            TextColumn("step {task.completed:,.0f} of {task.total:,.0f}"),
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            console=console(),
        )
        self._task: TaskID = self._progress.add_task("compiling", total=total)

    def begin(self, done: int) -> None:
        """Show where it begins."""
        self._pace.start_at(done)
        if done:
            self.note(f"resumed at step {done:,}")
        self._progress.update(self._task, completed=done)

    def ready(self) -> None:
        """Leave the time of compilation out of the pace."""
        self._pace.resume()

    def record(
        self,
        done: int,
        losses: Sequence[float],
        terms: Mapping[str, float],
        unknowns: Unknowns = _NO_UNKNOWNS,
    ) -> None:
        """Write it above the line that moves."""
        self.note(_record_text(done, self._pace.total, losses, terms, unknowns))

    def note(self, text: str) -> None:
        """Write it above the line that moves."""
        self._progress.console.print(text)

    def update(
        self,
        done: int,
        losses: Sequence[float],
        terms: Mapping[str, float],
        measures: Mapping[str, float] = _NONE,
        unknowns: Unknowns = _NO_UNKNOWNS,
    ) -> None:
        """Move the line."""
        self._pace.update(done)
        text = (
            f"loss {loss_text(losses)}{terms_text(terms)}{unknowns_text(unknowns)}"
            f"{measures_text(measures)}   "
            f"{rate_text(self._pace.rate)}   "
            f"{clock_text(self._pace.seconds_left)} left"
        )
        self._progress.update(self._task, completed=done, description=text)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()


def make_reporter(*, shown: bool, total: int) -> Reporter:
    """Return the reporter of `total` steps that fits standard output, or a silent one."""
    if not shown:
        return Reporter()
    return Line(total) if prints_to_terminal() else Lines(total)


class Pace:
    """Steps per second, and how long the rest will take."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._done = self._first = 0
        self._seconds = 0.0
        self._since = time.monotonic()

    def start_at(self, done: int) -> None:
        """So many steps were made before."""
        self._done = self._first = done

    def resume(self) -> None:
        """Steps begin again now; what passed since the last update does not count."""
        self._since = time.monotonic()

    def update(self, done: int) -> None:
        """`done` steps are made."""
        now = time.monotonic()
        self._done, self._seconds, self._since = done, self._seconds + now - self._since, now

    @property
    def rate(self) -> float:
        """Steps per second."""
        return (self._done - self._first) / max(self._seconds, 1e-9)

    @property
    def seconds_left(self) -> float:
        """At this pace."""
        left = self.total - self._done
        if left == 0:
            return 0.0
        return left / self.rate if self._done > self._first else math.inf


def _begin_text(done: int) -> str:
    return f"resumed at step {done:,}; compiling" if done else "compiling"


def _record_text(
    done: int,
    total: int,
    losses: Sequence[float],
    terms: Mapping[str, float],
    unknowns: Unknowns,
) -> str:
    return (
        f"step {done:,} of {total:,}   loss {loss_text(losses)}{terms_text(terms)}"
        f"{unknowns_text(unknowns)}"
    )


def loss_text(losses: Sequence[float]) -> str:
    """One loss, or the least and the largest of several."""
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
    """What an optimizer tells of its last step."""
    if not measures:
        return ""
    return "   " + ", ".join(f"{name} {value:.1e}" for name, value in measures.items())


def rate_text(rate: float) -> str:
    """Steps per second, or seconds per step where these are more."""
    if 0 < rate < 1:
        return f"{1 / rate:.1f} s/step"
    return f"{rate:,.0f} steps/s" if rate >= 10 else f"{rate:.1f} steps/s"


def clock_text(seconds: float) -> str:
    """Seconds as "0:07" or "1:02:03"."""
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

"""What a process finds is written line by line, so that nothing is lost if it hangs or crashes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpu.report import FAILED, OK, SKIPPED, Row

_LONGEST_DETAIL = 300

Found = tuple[str, dict[str, Any]]
"""What a check returns: a text, and numbers."""


class WrongError(Exception):
    """A check has found something wrong; the text says what."""


class SkippedError(Exception):
    """A check cannot be done here; the text says why."""


class Budget:
    """A number of seconds, which run from now on.

    Parameters
    ----------
    clock : gives seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left, never below 0."""
        return max(0.0, self._end - self._clock())

    def share(self, seconds: float, *, reserve: float = 0.0) -> float:
        """`seconds`, or what is left but for a `reserve` if that is less."""
        return max(0.0, min(seconds, self.left - reserve))


class Recorder:
    """Runs the checks of one process, and writes a row for each.

    Parameters
    ----------
    path : the file for the rows, a line of JSON each.
    stage : of the rows.
    budget : once it is spent, checks are skipped.
    agree : gives whether all ranks say yes, so that none skips what others do (collective).
    done : checks to leave out, because an earlier process has a row for them.
    """

    def __init__(
        self,
        path: Path,
        stage: str,
        budget: Budget,
        agree: Callable[[bool], bool] = bool,
        done: Sequence[str] = (),
    ) -> None:
        self._path = path
        self._stage = stage
        self._budget = budget
        self._done = frozenset(done)
        self.agree = agree

    def check(self, what: str, action: Callable[[], Found], *, needs: float = 0.0) -> None:
        """Do `action` and write what came of it (collective).

        Parameters
        ----------
        needs : seconds that must be left.
        """
        if what in self._done:
            return
        self._write({"begun": what})
        if not self.agree(self._budget.left > needs):
            row = Row(self._stage, what, SKIPPED, "out of time")
        else:
            row = self._attempt(what, action)
        self._write({"row": asdict(row)})

    def _attempt(self, what: str, action: Callable[[], Found]) -> Row:
        try:
            detail, numbers = action()
        except SkippedError as reason:
            return Row(self._stage, what, SKIPPED, str(reason))
        except WrongError as wrong:
            return Row(self._stage, what, FAILED, _shortened(str(wrong)))
        except Exception as error:
            return Row(self._stage, what, FAILED, _shortened(f"{type(error).__name__}: {error}"))
        return Row(self._stage, what, OK, detail, numbers)

    def _write(self, line: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def read(path: Path) -> tuple[list[Row], str | None]:
    """The rows of a process, and what it had begun but not finished when it ended."""
    rows: list[Row] = []
    begun: str | None = None
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                found = json.loads(line)
            except json.JSONDecodeError:  # the process was ended while it wrote
                break
            if "row" in found:
                rows.append(Row(**found["row"]))
                begun = None
            else:
                begun = found["begun"]
    return rows, begun


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_DETAIL else f"{line[: _LONGEST_DETAIL - 1]}…"

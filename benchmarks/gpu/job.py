"""Processes of the check: what each is to do, and how they are started and ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gpu.record import read
from gpu.report import FAILED, Row

SCRIPT = Path(__file__).resolve().parents[1] / "gpu_check.py"
ROOT = SCRIPT.parents[1]
WHOLE = "the process as a whole"
"""What fails where a process ends between checks."""

_ANOTHER = "another rank had failed"
_LAST_LINES = 40
_GRACE_SECONDS = 5.0
_START_SECONDS = 30.0


@dataclass(frozen=True)
class Job:
    """What one process does.

    Attributes
    ----------
    stage : of its rows.
    task : "look", "full", or "sharing": what ranks that take turns on one GPU can do.
    part : what to look at, or the arena: "tensorflow", "jax", "cupy".
    out : the file for its rows; MPI's ranks append their number.
    seconds : after how long it begins nothing more.
    rank, size : its place where it is started without MPI.
    meeting : the file by which such ranks find each other.
    rehearse : on the CPU, by MPI.
    done : checks to leave out.
    """

    stage: str
    task: str
    part: str
    out: str
    seconds: float
    rank: int = 0
    size: int = 1
    meeting: str = ""
    rehearse: bool = False
    done: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Job:
        """From the command line of the process."""
        return cls(**json.loads(text))

    @property
    def command(self) -> list[str]:
        """How Python is started for it."""
        return [
            sys.executable,
            "-X",
            "faulthandler",
            str(SCRIPT),
            "--worker",
            json.dumps(asdict(self)),
        ]


@dataclass
class Started:
    """A process at work.

    Attributes
    ----------
    log : the file for what it says.
    was_ended : whether it was ended from outside.
    """

    process: subprocess.Popen[bytes]
    log: Path
    was_ended: bool = False

    def ended(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def end(self) -> None:
        """End it, with its children; it may say where it was."""
        self.was_ended = True
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_GRACE_SECONDS)
        self._signal(signal.SIGKILL)
        self.process.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)  # the group that `start` made

    def last_lines(self) -> list[str]:
        """What it has said in the end."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return [line.strip() for line in text.splitlines() if line.strip()][-_LAST_LINES:]


def start(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Started:
    """Start a command in a process group of its own; what it says goes to `log`."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    inherited = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**inherited, **environment},
            start_new_session=True,
        )
    return Started(process, log)


def wait(
    processes: Sequence[Started], seconds: float, *, outs: Sequence[Path], patience: float
) -> str:
    """Wait until all have ended; the rest is ended when it takes too long or one has failed.

    Parameters
    ----------
    seconds : for all together.
    outs : the files that they write.
    patience : seconds without a new line in any of them; the start may take longer.

    Returns
    -------
    Why some were ended; empty if all ended by themselves.
    """
    deadline, began = time.monotonic() + seconds, time.time()
    reason = f"the time was over ({seconds:.0f} s)"
    try:
        while not all(process.ended() for process in processes):
            if time.monotonic() > deadline:
                return reason
            if any(process.process.poll() for process in processes) and reason != _ANOTHER:
                # A rank that is gone leaves the others waiting; they get a moment to end.
                deadline, reason = time.monotonic() + _GRACE_SECONDS, _ANOTHER
            lines = [path.stat().st_mtime for path in outs if path.exists()]
            if time.time() - max(lines, default=began + _START_SECONDS) > patience:
                return f"nothing had happened for {patience:.0f} s"
            time.sleep(0.05)
        return ""
    finally:
        for process in processes:
            if not process.ended():
                process.end()


def rows_of(job: Job, out: Path, process: Started, reason: str) -> list[Row]:
    """The rows of a process; what it had begun when it hung or crashed is a row as well."""
    rows, begun = read(out)
    code = process.process.returncode
    if code == 0 and begun is None and (rows or job.done):
        return rows
    said = process.last_lines()
    from_outside = f"ended from outside, since {reason}"
    how = from_outside if process.was_ended else f"ended with exit code {code}"
    rows.append(Row(job.stage, begun or WHOLE, FAILED, f"{how}{_place(said)}", {"log": said}))
    return rows


def _place(said: Sequence[str]) -> str:
    """Where it was, as the fault handler says; or else the last line."""
    for line, next_line in zip(said, said[1:], strict=False):
        if line.startswith(("Current thread", "Stack (most recent")):
            return f": {next_line}"
    return f": {said[-1]}" if said else ""

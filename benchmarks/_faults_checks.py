"""What must hold of a job after a fault, and what did not."""

from __future__ import annotations

import zipfile
from pathlib import Path

from _faults_job import Ended
from _faults_kinds import ENDS, GOES_ON, Fault

from sciml_par.errors import InputError
from sciml_par.training.checkpoints import checkpoint_file

HANG, CODE, FAILED, MESSAGE, CHECKPOINT, LEFT = (
    "hangs",
    "exit code 0",
    "failed",
    "not named",
    "checkpoint lost",
    "left behind",
)
MISSES = {
    HANG: "the job was still there when its time was over",
    CODE: "exit code 0 although work was lost",
    FAILED: "the job failed although its ranks could go on",
    MESSAGE: "no message names the rank or the cause",
    CHECKPOINT: "a checkpoint that was complete cannot be read",
    LEFT: "a process or a socket is left",
}
HELD, NO_FAULT = "held", "no fault"
"""All that must hold does; the job was over before the fault came."""


def misses(fault: Fault, ended: Ended, out: Path) -> dict[str, str]:
    """Return the name of each broken promise, and what was seen."""
    found = {}
    if ended.code is None:
        after = ended.seconds - (ended.fault_at or 0.0)
        found[HANG] = f"{after:.0f} s after the fault at {ended.fault_at} s"
    else:
        found |= _code(fault, ended)
    if ended.left:
        found[LEFT] = ", ".join(ended.left)
    if ended.ranks_that("written"):
        problem = _checkpoint(out)
        if problem:
            found[CHECKPOINT] = problem
    return found


def _code(fault: Fault, ended: Ended) -> dict[str, str]:
    kind = fault.of_kind
    complete = ended.ranks_that("done") == set(range(fault.ranks))
    if ended.code == 0:
        if not complete:
            return {CODE: f"only ranks {sorted(ended.ranks_that('done'))} have done all"}
        # One that came after all work was done is none of the program's any more.
        late = fault.moment == "end" or ended.fault_at is None or _is_late(fault, ended)
        return {CODE: "all have done all"} if kind.follows == ENDS and not late else {}
    if kind.follows == GOES_ON:
        return {FAILED: f"exit code {ended.code}"}
    if complete and "sys.exit" in (fault.kind, fault.inner) and ended.code == fault.code:
        return {}  # the program's own last word
    return {} if kind.is_named_in(ended.said) else {MESSAGE: f"exit code {ended.code}"}


def _is_late(fault: Fault, ended: Ended) -> bool:
    """Return whether the rank had finished before the fault came from outside."""
    done = [t for t, what, rank in ended.events if (what, rank) == ("done", fault.rank)]
    return bool(done) and ended.fault_at is not None and done[0] <= ended.fault_at


def _checkpoint(out: Path) -> str:
    """Return the defect of the last checkpoint."""
    path = out / "checkpoint.keras"
    if path.exists():
        try:
            with zipfile.ZipFile(path) as file:
                return file.testzip() or ""
        except (OSError, zipfile.BadZipFile) as error:
            return str(error)
    try:
        checkpoint_file.read(out / "checkpoint.npz")
    except InputError as error:
        return str(error)
    return ""

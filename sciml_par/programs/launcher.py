"""Start programs under `mpirun`, and end with them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

from sciml_par._text import counted
from sciml_par.errors import InputError
from sciml_par.parallel.startup.cpu_threads import cores_of_this_process

_PAST_LIMIT = 124  # as the command `timeout` has it
_GRACE_SECONDS = 10.0
# Open MPI refuses more ranks than cores unless told; the names are those of versions 4 and 5.
_OVERSUBSCRIBE = {
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":OVERSUBSCRIBE",
}


def launch(
    ranks: int, arguments: Sequence[str], *, threads: int, seconds: float, program: str
) -> None:
    """Run `python arguments...` on `ranks` ranks, and wait for its end.

    What it prints is printed. It ends with this process, when that is interrupted or terminated.
    """
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        raise InputError(
            "--ranks needs mpirun, and there is none on PATH. Install one with "
            "pip install 'sciml-par[mpich]', or load your cluster's MPI module."
        )
    on = counted(ranks, "rank")
    print(f"{program}: {on} …", flush=True)
    crowded = ranks * threads > len(cores_of_this_process())
    environment = {**(_OVERSUBSCRIBE if crowded else {}), **os.environ}
    command = [mpirun, "-np", str(ranks), sys.executable, *arguments]
    code = _wait(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL), seconds)
    if code == 0:
        return
    how = f"was ended after {seconds:g} s" if code == _PAST_LIMIT else f"failed, exit code {code}"
    print(f"{program}: error: the run on {on} {how}", file=sys.stderr)
    sys.exit(code)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int:
    """Return the exit code of `process`, which ends in any case."""
    before = {number: signal.signal(number, _leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return _PAST_LIMIT
    finally:
        if process.poll() is None:  # ask the launcher to end its ranks, and make sure of it
            process.terminate()
            try:
                process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)

"""Programs that are stopped or killed during a training, and resumed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launch import ROOT, Ended, Started, launch, start
from mpi4py import MPI

pytestmark = [
    pytest.mark.launches,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun on PATH"),
]

POISSON = ROOT / "scripts" / "pinn_poisson.py"
OPTIONS = ("--output", "run", "--no-plots", "--log-every", "1000", "--optimizer", "adam",
           "--width", "6", "--depth", "1")  # fmt: skip
SECONDS = 300.0


def wait_for(condition: Callable[[], bool], started: Started) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        if started.process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"it did not come: {started.end(1.0)}")
        time.sleep(0.05)


def interrupt(started: Started, folder: Path) -> None:
    """Send Ctrl-C to the launcher as a terminal does; Open MPI's would kill the ranks at once."""
    wait_for((folder / "run" / "checkpoint.npz").exists, started)
    number = signal.SIGUSR1 if MPI.get_vendor()[0] == "Open MPI" else signal.SIGINT
    started.process.send_signal(number)
    ended = started.end(SECONDS)
    assert ended.code == 75, ended
    assert f"stopped by {number.name} before the last step; --resume" in ended.err
    (member,) = results(folder)["members"]
    assert 0 < member["steps"] < 10_000_000


def kill(started: Started, folder: Path) -> None:
    """Send SIGKILL to the launcher and all its descendants."""
    wait_for((folder / "run" / "checkpoint.npz").exists, started)
    for process in [started.process.pid, *descendants(started.process.pid)]:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
    started.end(SECONDS)
    assert not (folder / "run" / "results.json").exists()


def descendants(process: int) -> list[int]:
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [each for child in map(int, children) for each in (child, *descendants(child))]


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run" / "results.json").read_text())
    return found


def step_of(folder: Path) -> int:
    with np.load(folder / "run" / "checkpoint.npz") as file:
        texts = json.loads(file["texts.json"].tobytes())
    (course,) = texts["courses"]
    step: int = course["step"]
    return step


def found(folder: Path) -> tuple[str, list[bytes], float]:
    with np.load(folder / "run" / "predictions.npz") as file:
        arrays = [file[name].tobytes() for name in file.files]
    history = (folder / "run" / "history.csv").read_text()
    (member,) = results(folder)["members"]
    return history, arrays, member["loss"]


@pytest.mark.all_after(1)
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux' /proc")
@pytest.mark.parametrize("end", [interrupt, kill])
def test_a_job_that_was_ended_is_resumed_bit_for_bit(end: Any, tmp_path: Path) -> None:
    interrupted, whole = tmp_path / "interrupted", tmp_path / "whole"
    interrupted.mkdir()
    whole.mkdir()
    options = (POISSON, *OPTIONS, "--checkpoint-every", "500")
    end(start(2, *options, "--steps", "10000000", folder=interrupted), interrupted)
    step = step_of(interrupted)
    steps = ("--steps", str(step + 700))
    resumed = launch(2, *options, *steps, "--resume", folder=interrupted).succeeded()
    assert f"resumed at step {step:,}; compiling" in resumed.out
    launch(2, *options, *steps, folder=whole).succeeded()
    assert found(interrupted) == found(whole)


def test_a_wall_time_and_a_folder_that_holds_a_checkpoint(tmp_path: Path) -> None:
    options = (POISSON, *OPTIONS, "--steps", "10000000", "--wall-time", "0:00:01")
    for way in ([], ["--resume", "auto"]):
        ended = launch(None, *options, *way, folder=tmp_path)
        assert ended.code == 75, ended
        assert "stopped by wall time before the last step" in ended.err
    refused = launch(None, *options, folder=tmp_path)
    assert refused.code == 2
    assert re.search("run holds the checkpoint of another run.*Resume that run", refused.err)


@pytest.mark.long
def test_the_job_script_of_the_docs_puts_itself_into_the_queue_again(tmp_path: Path) -> None:
    """As bash runs it, with the signal of the scheduler, and a command that is only called."""
    page = (ROOT / "docs" / "long-runs.md").read_text()
    script = re.search(r"```bash\n(#!/bin/bash\n#SBATCH.*?)```", page, re.DOTALL)
    assert script is not None
    (tmp_path / "job.sh").write_text(script[1])
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    (tmp_path / "scontrol").write_text('#!/bin/sh\necho scontrol "$@"\n')
    (tmp_path / "scontrol").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "SLURM_NTASKS": "2",
        "SLURM_JOB_ID": "4711",
        "OMP_NUM_THREADS": "1",
    }
    command = ["bash", "job.sh"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    started = Started(process, command)
    wait_for((tmp_path / "runs" / "long" / "checkpoint.npz").exists, started)
    process.send_signal(signal.SIGUSR1)
    ended = started.end(SECONDS)
    assert ended.code == 75, ended
    assert "stopped by SIGUSR1 before the last step" in ended.err
    assert ended.out.splitlines()[-1] == "scontrol requeue 4711"


SHARED = """
import sys, warnings
from functools import partial
import numpy as np
import sciml_par as sp
from sciml_par.networks import MLP
from sciml_par.problems import poisson
from sciml_par.training import Checkpoint

sp.init()
resume, folder = sys.argv[1:]
warnings.simplefilter("ignore", sp.errors.ResultWarning)  # so short a training finds little
# Not on [-1, 1]: there, by symmetry, some gradients are rounding errors, and Adam makes whole steps
# of them.
domain = sp.problems.Interval(0, 1)
result = sp.train(
    poisson(domain=domain),
    network=partial(MLP, width=4, depth=1),
    points=np.linspace(0, 1, 23)[:, None],
    steps=300,
    precision="float64",
    checkpoint=Checkpoint(folder, every=100),
    resume=resume == "resume",
    callbacks=(lambda p: p.stop("the test") if p.step >= 100 else None) if resume == "stop" else (),
    progress=False,
)
member = result.members[0]
if sp.rank() == 0:
    print(sp.size(), member.ended, repr(member.loss), *member.weights.last.tolist())
"""


@pytest.mark.all_after(1)
@pytest.mark.parametrize(("before", "after"), [(1, 2), (3, 1)])
def test_a_shared_model_continues_on_another_number_of_ranks(
    before: int, after: int, tmp_path: Path
) -> None:
    (tmp_path / "shared.py").write_text(SHARED)

    def run(ranks: int, resume: str, folder: str) -> list[float]:
        out = launch(ranks, "shared.py", resume, folder, folder=tmp_path).succeeded().out
        size, *why, numbers = out.split(maxsplit=3)
        assert int(size) == ranks
        assert " ".join(why) == ("the test" if resume == "stop" else "all steps")
        return [float(word) for word in numbers.split()]

    whole = run(1, "whole", "whole")
    run(before, "stop", "stopped")
    np.testing.assert_allclose(run(after, "resume", "stopped"), whole, rtol=1e-9)


STUCK = """
import os, time
from functools import partial
import sciml_par as sp
from sciml_par.networks import MLP
from sciml_par.problems import poisson

sp.init()


def hang(progress):
    if sp.rank() == 1:
        time.sleep(3600)
    os.write(1, f"pid {os.getpid()} waits\\n".encode())


sp.train(poisson(), network=partial(MLP, width=4, depth=1), points=9, callbacks=hang)
"""


def test_a_second_ctrl_c_ends_a_rank_that_waits_in_a_collective(tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(STUCK)
    started = start(2, "stuck.py", folder=tmp_path)
    said = started.process.stdout
    assert said is not None
    waiting = next(int(m[1]) for line in said if (m := re.match(r"pid (\d+) waits", line)))
    time.sleep(1.0)  # until it is in the collective
    os.kill(waiting, signal.SIGINT)
    time.sleep(1.0)
    assert started.process.poll() is None
    os.kill(waiting, signal.SIGINT)
    began = time.monotonic()
    ended: Ended = started.end(60.0)
    assert time.monotonic() - began < 20.0
    assert ended.code != 0
    assert "interrupted a second time: the job ends at once" in ended.err

"""A rank that never comes to `init` is told of by those that wait there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest
from launch import environment, launch
from mpi4py import MPI

from sciml_par.parallel.startup.start_of_mpi import rank_of_several, watched_start
from sciml_par.parallel.supervision.watchdog import Patience

PROGRAM = """
import os, sys
import sciml_par.parallel as par

if os.environ.get("PMI_RANK") == "1" or os.environ.get("OMPI_COMM_WORLD_RANK") == "1":
    if sys.argv[1] == "fails":
        raise FileNotFoundError("this host has no mesh.npz")
    sys.exit()
par.init()
"""

MPI_NAME = MPI.get_vendor()[0]

needs_launcher = pytest.mark.skipif(
    shutil.which("mpirun") is None or MPI_NAME not in ("MPICH", "Open MPI"),
    reason="needs the launcher of MPICH or Open MPI on PATH",
)


@pytest.mark.launches
@needs_launcher
def test_a_rank_that_fails_before_init(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    ended = launch(3, "program.py", "fails", folder=tmp_path, fresh=True)
    assert ended.code != 0
    said = ended.out + ended.err
    assert said.count("FileNotFoundError: this host has no mesh.npz") == 1
    if MPI_NAME == "MPICH":  # Open MPI's launcher ends the job by itself, and names the rank
        assert "sciml_par: rank 1 ended before init, and rank " in said
        assert "the job ends" in said


@pytest.mark.launches
@needs_launcher
def test_a_rank_that_leaves_before_init_without_an_error(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    ended = launch(3, "program.py", "leaves", folder=tmp_path, fresh=True)
    assert ended.code != 0
    assert "sciml_par: rank 1 ended before init, and rank " in ended.err
    assert "the job ends" in ended.err


SMALL = "mount -t tmpfs -o size=64k none /dev/shm && "


@pytest.mark.launches
@pytest.mark.skipif(MPI_NAME != "MPICH", reason="Open MPI reports it itself")
@needs_launcher
def test_too_little_shared_memory(tmp_path):
    """As in a container: MPICH would end by SIGBUS."""
    apart = ["unshare", "--mount", "sh", "-c"]
    try:
        subprocess.run([*apart, SMALL + "true"], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file systems of this test's own: {error}")
    (tmp_path / "program.py").write_text("import sciml_par.parallel as par\npar.init()\n")
    run = SMALL + f"mpirun -np 2 {sys.executable} program.py"
    ended = subprocess.run(
        [*apart, run],
        check=False,
        capture_output=True,
        cwd=tmp_path,
        env=environment(threads=1),
        timeout=300,
    )
    said = (ended.stdout + ended.stderr).decode()
    assert ended.returncode == 1
    assert said.count("init: expected 1 MiB in /dev/shm for each of the 2 ranks on this host") == 1
    assert "got 64 KiB" in said and "--shm-size" in said
    assert "Bus error" not in said


def test_a_start_that_stands_still_is_told_and_ended():
    """Whatever keeps the others away, as `init` cannot know it everywhere."""
    code = "import time; from sciml_par.parallel.startup.start_of_mpi import watched_start as w\n"
    code += "from sciml_par.parallel.supervision.watchdog import Patience as P\n"
    code += "with w({'PMI_RANK': '0', 'PMI_SIZE': '2'},"
    code += " P(warn_after=0.2, end_after=1.2)): time.sleep(60)"
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL
    first, second, third = ended.stderr.decode().splitlines()
    assert first.startswith("sciml_par: warning: rank 0 has waited ")
    assert second.startswith("sciml_par: rank 0 has waited ")
    assert third == "sciml_par: the job ends."


def test_a_start_that_is_over_leaves_no_child():
    with watched_start({"PMI_RANK": "0", "PMI_SIZE": "2"}, Patience()):
        pass
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, None),
        ({"PMI_RANK": "0", "PMI_SIZE": "1"}, None),
        ({"PMI_RANK": "3", "PMI_SIZE": "4"}, 3),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, 1),
        ({"PMI_RANK": "one", "PMI_SIZE": "4"}, None),
    ],
)
def test_the_launcher_tells_who_this_is(environment, rank):
    assert rank_of_several(environment) == rank

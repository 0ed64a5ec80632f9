"""A job whose work is done ends with 0, however its ranks end."""

from __future__ import annotations

import shutil

import pytest
from launch import launch

from sciml_par.parallel.startup.launcher_environment import warn_of_copies

pytestmark = [
    pytest.mark.launches,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun on PATH"),
]

PROGRAM = """
import atexit, os, sys, time
# The last that a program does, after MPI has ended: an open file is written out, say.
atexit.register(lambda: (time.sleep(0.5), os.write(1, b"done")))
import numpy as np
import sciml_par.parallel as par
par.init()
from mpi4py import MPI
assert par.allreduce(np.ones(3), par.Sum)[0] == 2
os.write(1, b"worked")
if par.rank() == 0 or sys.argv[1].startswith("all"):
    {"finalize": MPI.Finalize, "exit": sys.exit, "leave": lambda: os._exit(0)}[sys.argv[2]]()
"""


@pytest.mark.all_after(3)
@pytest.mark.parametrize(
    ("who", "how"),
    [("one", "leave"), ("one", "finalize"), ("one", "exit"), ("all", "finalize"), ("all", "leave")],
)
def test_the_end_of_a_program(who, how, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    # Copies of a process end as copies, unless the program leaves at once.
    ended = launch(2, "program.py", who, how, folder=tmp_path, fresh=how == "leave").succeeded()
    assert ended.out.count("worked") == 2
    skip = 0 if how != "leave" else 1 if who == "one" else 2  # os._exit runs nothing more
    assert ended.out.count("done") == 2 - skip


REUSES = """
import os
import sciml_par.parallel as par
par.init()
from mpi4py import MPI
MPI.Finalize()
socket = int(os.environ["PMI_FD"])
kept_open = os.dup(socket)
with open("notes", "w") as notes:
    os.dup2(notes.fileno(), socket)
    os._exit(0)
"""


def test_nothing_is_written_into_a_file_that_has_the_number_of_the_launchers_socket(tmp_path):
    (tmp_path / "program.py").write_text(REUSES)
    ended = launch(1, "program.py", folder=tmp_path, fresh=True)
    if "PMI_FD" in ended.err:
        pytest.skip("this launcher hands the ranks no socket")
    assert (tmp_path / "notes").read_text() == ""


@pytest.mark.parametrize("variable", ("PMI_SIZE", "HOROVOD_SIZE", "SLURM_STEP_NUM_TASKS"))
def test_processes_that_are_separate_jobs_say_so_once(variable, capfd):
    warn_of_copies({variable: "4096", "SLURM_PROCID": "0"})
    assert f"{variable} says that 4096 processes were started together" in capfd.readouterr().err
    for quiet in ({variable: "4096", "SLURM_PROCID": "1"}, {variable: "1"}, {}):
        warn_of_copies(quiet)
    assert capfd.readouterr().err == ""

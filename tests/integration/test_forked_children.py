"""Children made by a fork: however they end, the ranks go on, and the job ends as if alone."""

from __future__ import annotations

import shutil

import pytest
from launch import launch

pytestmark = [
    pytest.mark.launches,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun on PATH"),
]

PROGRAM = """
import multiprocessing, os, signal, subprocess, sys, time
if sys.argv[1] == "mpi first":
    from mpi4py import MPI
import sciml_par.parallel as sp
from sciml_par.errors import InputError

sp.init(timeline=sys.argv[2])
rank = sp.rank()


def raises():
    raise RuntimeError("the child is ill")


def asks():
    for collective in (sp.barrier, sp.join, lambda: sp.allreduce(1.0)):
        try:
            collective()
        except InputError as error:
            assert "a child made by a fork" in str(error)
        else:
            os._exit(6)
    assert sp.rank() == rank and sp.is_initialized()
    sp.stop_timeline()
    sp.shutdown()
    sp.init()
    sys.exit(9)


ENDS = {
    "raises": (raises, 1 << 8),
    "exits": (lambda: sys.exit(3), 3 << 8),
    "leaves": (lambda: os._exit(5), 5 << 8),
    "ends": (lambda: None, 0),
    "is killed": (lambda: os.kill(os.getpid(), signal.SIGKILL), signal.SIGKILL),
    "asks": (asks, 9 << 8),
}

def fork(do):
    child = os.fork()
    if child == 0:
        sys.stderr = open(os.devnull, "w")
        do()
        sys.exit()
    return child


def square(x):
    if x == 2:
        raise ValueError("no square of 2")
    return x * x


def pool():
    with multiprocessing.get_context("fork").Pool(2) as workers:
        assert workers.map(square, [3, 4]) == [9, 16]
        try:
            workers.map(square, [2])
        except ValueError:
            return
    raise AssertionError("no error came")


def quiet_process():
    process = multiprocessing.get_context("fork").Process(target=sys.exit, args=(4,))
    process.start()
    process.join()
    assert process.exitcode == 4


if rank == 1:
    for name, (do, status) in ENDS.items():
        assert os.waitpid(fork(do), 0)[1] == status, name
    pool()
    quiet_process()
    subprocess.run(["false"], preexec_fn=lambda: None)
    try:
        subprocess.run(["true"], preexec_fn=raises)
    except subprocess.SubprocessError:
        pass
sp.barrier()
total = sp.allreduce(1.0, sp.Sum).numpy()
os.write(1, f"total {total}\\n".encode())
"""


@pytest.mark.all_after(1)
@pytest.mark.parametrize("first", ("mpi first", "init first"))
def test_the_ranks_go_on_however_a_child_ends(tmp_path, first):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ended = launch(2, program, first, tmp_path / "t.json", folder=tmp_path, threads=1)
    said = ended.out + ended.err
    assert ended.code == 0, said
    assert ended.out.count("total 2.0\n") == 2, said
    assert ended.err == ""
    assert (tmp_path / "t.json").read_text().count("timeline ends") == 1

"""A rank that is lost without a word is named, and the job ends with it, wherever it happens.

What the sentinel makes of it is tested piece by piece in tests/parallel/test_sentinel.py; here are
real ranks under a real launcher, which kills the others by itself in most cases.
"""

from __future__ import annotations

import re
import shutil

import pytest
from launch import launch

pytestmark = [
    pytest.mark.launches,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun on PATH"),
]

PROGRAM = """
import os, signal, sys, threading
import sciml_par.parallel as sp

sp.init()
import tensorflow as tf

place, how = sys.argv[1:]


def fail():
    if how == "leaves":
        os._exit(0)
    os.kill(os.getpid(), signal.Signals[how])


def eager():
    for step in range(100_000):
        sp.allreduce(tf.ones(2))
        if step == 100 and sp.rank() == 1:
            fail()


@tf.function(jit_compile=True)
def loop(steps):
    step = lambda i, x: (i + 1, sp.allreduce(x))
    return tf.while_loop(lambda i, x: i < steps, step, (0, tf.ones(3)))[1]


def compiled():
    loop(tf.constant(10))  # the fault comes in the midst of the steps, not while XLA compiles
    if sp.rank() == 1:
        threading.Timer(0.2, fail).start()
    while True:
        loop(tf.constant(10_000))


globals()[place]()
os.write(1, b"went on\\n")
"""

WRAPPER = """
import subprocess, sys
# As a shell script would, with the files open by which the launcher speaks to its ranks.
sys.exit(subprocess.call([sys.executable, *sys.argv[1:]], close_fds=False))
"""

TWO_HOSTS = """
import os, time
from mpi4py import MPI
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.supervision.end_job import JobEnd
from sciml_par.parallel.supervision.sentinel_client import start_sentinel

everyone = Communicator(MPI.COMM_WORLD)
host = everyone.split(everyone.rank % 2)  # made up: ranks 0 and 2 here, rank 1 there
job_end = JobEnd(everyone)
end = lambda: job_end.with_code(1)
job_end.sentinel = start_sentinel(everyone, host, os.environ, end)
if everyone.rank == 1:
    time.sleep(0.5)
    os._exit(0)
everyone.mpi.Barrier()
"""

ABORTED = """
import os, threading, time
from mpi4py import MPI
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.supervision.end_job import JobEnd

done = threading.Event()


class FakeNCCL:
    def abort(self):
        done.set()  # as the GPU's work is done when NCCL is aborted, with wrong numbers
        time.sleep(1.0)


everyone = Communicator(MPI.COMM_WORLD)
everyone.nccl_transport = FakeNCCL()
threading.Timer(0.2, JobEnd(everyone).with_message, args=["Rank 1 is gone."]).start()


def wait():
    done.wait()
    os.write(1, b"went on\\n")


threading.Thread(target=wait).start()
wait()
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("killed") / "program.py"
    path.write_text(PROGRAM)
    return path


def run(program, *arguments, ranks, fresh=False):
    """Return the program's messages after the expected end."""
    ended = launch(ranks, program, *arguments, folder=program.parent, threads=1, fresh=fresh)
    said = ended.out + ended.err
    assert ended.code != 0, said
    assert "went on" not in said
    return said


@pytest.mark.all_after(2)
@pytest.mark.parametrize(
    ("place", "how", "ranks"),
    [
        ("compiled", "leaves", 2),
        ("eager", "SIGKILL", 3),
        ("compiled", "SIGKILL", 3),
        ("eager", "SIGSEGV", 3),
    ],
)
def test_a_rank_that_is_lost_is_named_once(program, place, how, ranks):
    # Where the launcher must see the end of a rank itself, be it by a signal or as a success.
    fresh = place == "compiled"
    said = run(program, place, how, ranks=ranks, fresh=fresh)
    # How it ended can be seen only until the launcher has asked for it.
    seen = "left with exit code 0" if how == "leaves" else rf"was killed by signal \d+ \({how}\)"
    assert_named(1, ranks, said, f"({seen}|is gone)")


@pytest.mark.long
def test_a_rank_that_leaves_with_success_in_a_program_of_its_own_fails_the_launcher(program):
    """MPICH's returns 0 if it kills the others' programs before they have returned 1."""
    wrapper = program.with_name("wrapper.py")
    wrapper.write_text(WRAPPER)
    said = run(wrapper, program, "eager", "leaves", ranks=2, fresh=True)
    # Rank 0 may hear of it from rank 1, whose Python ends in order, before the wrapper ends.
    if "Rank 1 ended the program while rank 0 waits in allreduce" not in said:
        assert_named(1, 2, said, "(left with exit code 0|is gone)")
    assert said.endswith("sciml_par: the job ends.\n")


def test_a_rank_alone_on_its_host_is_named_by_the_other_host(program):
    """One that the launcher would not miss, and no rank of its own host could tell the others."""
    path = program.with_name("two_hosts.py")
    path.write_text(TWO_HOSTS)
    assert_named(1, 3, run(path, ranks=3, fresh=True), "(left with exit code 0|is gone)")


def test_a_program_does_not_see_what_an_aborted_collective_leaves(program):
    path = program.with_name("aborted.py")
    path.write_text(ABORTED)
    said = run(path, ranks=1)
    assert said.endswith("sciml_par: Rank 1 is gone.\nsciml_par: the job ends.\n")


def assert_named(rank, ranks, said, how):
    ours = [line for line in said.splitlines() if line.startswith("sciml_par: ")]
    assert len(ours) == 2 and ours[1] == "sciml_par: the job ends.", said
    assert re.match(rf"sciml_par: rank {rank} of {ranks} on \S+ \(process \d+\) {how}", ours[0])

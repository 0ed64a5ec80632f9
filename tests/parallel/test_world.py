"""The ranks themselves: who they are, groups of them, and errors that all of them share."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import tensorflow as tf

import sciml_par
import sciml_par.parallel as sp
from sciml_par.errors import InputError, NotInitializedError


def everyone(value):
    return sp.current_world().communicator.allgather_object(value)


def test_ranks_are_numbered_as_mpi_does():
    from mpi4py import MPI

    assert everyone(sp.rank()) == list(range(sp.size()))
    assert (sp.rank(), sp.size()) == (MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size())
    assert (sciml_par.rank(), sciml_par.size()) == (sp.rank(), sp.size())


def test_ranks_on_a_host():
    hosts = everyone((os.uname().nodename, sp.local_rank(), sp.local_size()))
    for host in {name for name, _, _ in hosts}:
        here = [(rank, size) for name, rank, size in hosts if name == host]
        assert here == [(rank, len(here)) for rank in range(len(here))]


def test_a_second_init_does_nothing():
    before = sp.current_world()
    if sp.rank() == 0:  # and waits for nobody
        sp.init()
        sp.init(threads=7)
    assert sp.current_world() is before
    assert sp.is_initialized()
    sp.barrier()


def test_barrier_waits_for_everyone(tmp_path_factory):
    folder = sp.current_world().communicator.broadcast_object(str(tmp_path_factory.mktemp("b")))
    open(os.path.join(folder, str(sp.rank())), "w").close()
    sp.barrier()
    assert len(os.listdir(folder)) == sp.size()
    sp.barrier()


def test_a_group_of_its_own():
    alone = sp.current_world().alone
    assert (alone.rank, alone.size, alone.world_ranks) == (0, 1, [sp.rank()])
    x = tf.constant(float(sp.rank()))
    assert sp.allreduce(x, sp.Sum, communicator=alone).numpy() == sp.rank()
    with pytest.raises(InputError, match=r"among ranks 0..0; got 1"):
        sp.broadcast(x, 1, communicator=alone)


def test_on_root():
    communicator, root = sp.current_world().communicator, sp.size() - 1
    done = []
    result = communicator.on_root(lambda: done.append(1) or f"by {sp.rank()}", root=root)
    assert result == f"by {root}"
    assert len(done) == (sp.rank() == root)


def test_on_root_shares_its_error():
    def fail():
        raise InputError(f"no such folder on rank {sp.rank()}")

    with pytest.raises(InputError, match="no such folder on rank 0"):
        sp.current_world().communicator.on_root(fail)


@pytest.mark.parametrize("threads", (0, -2))
def test_init_checks_its_threads(threads, monkeypatch):
    monkeypatch.setattr("sciml_par.parallel.groups.world.world", None)
    with pytest.raises(InputError, match=f"expected threads ≥ 1 or None; got {threads}"):
        sp.init(threads=threads)


@pytest.mark.parametrize("text", ("soon", "-1", "0", "nan"))
def test_init_checks_its_environment(text, monkeypatch):
    monkeypatch.setattr("sciml_par.parallel.groups.world.world", None)
    monkeypatch.setenv("SCIML_PAR_STALL_LIMIT", text)
    with pytest.raises(InputError, match="SCIML_PAR_STALL_LIMIT: expected a number of seconds"):
        sp.init()


def test_without_ranks(monkeypatch):
    monkeypatch.setattr("sciml_par.parallel.groups.world.world", None)
    assert not sp.is_initialized()
    for call in (sp.rank, sp.size, sp.local_rank, sp.local_size, sp.barrier):
        with pytest.raises(NotInitializedError, match=r"call sciml_par.init\(\) first"):
            call()
    with pytest.raises(NotInitializedError):
        sp.allreduce(tf.constant(1.0))


SHUTDOWN = """
import sciml_par.parallel as sp
from sciml_par.errors import NotInitializedError
import sys
hook = sys.excepthook
sp.init(); sp.init()
assert (sp.rank(), sp.size()) == (0, 1)
sp.shutdown(); sp.shutdown()
assert sys.excepthook is hook
try:
    sp.rank()
except NotInitializedError:
    print("no ranks")
sp.init()
print(sp.allreduce(3.0, sp.Sum).numpy())
"""


@pytest.mark.launches
def test_shutdown_and_a_new_beginning():
    done = subprocess.run(
        [sys.executable, "-c", SHUTDOWN], capture_output=True, check=False, text=True
    )
    assert (done.returncode, done.stdout) == (0, "no ranks\n3.0\n"), done.stderr


def test_a_forked_child_does_not_leave_for_its_rank():
    child = os.fork()
    if child == 0:
        sp.shutdown()
        # It goes on to know which rank it is a copy of, and cannot begin anew.
        os._exit(0 if sp.is_initialized() else 1)
    assert os.waitpid(child, 0)[1] == 0
    sp.barrier()
    current = sp.current_world()
    current.mailbox.poll()
    assert not current.mailbox.left

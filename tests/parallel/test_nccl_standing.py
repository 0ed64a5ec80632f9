"""Collectives by NCCL in progress, as the ranks and the watchdog see them; on a fake NCCL."""

from __future__ import annotations

import time

import numpy as np
import pytest
import tensorflow as tf
from fake_cupy import ILLEGAL_ADDRESS
from ranks import eager, graph, odd_one_out
from transports import with_fake_gpus

import sciml_par.parallel as sp
from sciml_par.errors import CollectiveMismatchError
from sciml_par.parallel.groups.call_site import CallSite
from sciml_par.parallel.groups.mailbox import Mailbox, Present, Waiting
from sciml_par.parallel.requests.request import Allreduce
from sciml_par.parallel.supervision.watchdog import Patience, Watchdog
from sciml_par.parallel.transports.cupy_binding import BindingError

pytestmark = pytest.mark.ranks(
    least=2, most=3, reason="one rank has nobody to exchange anything with"
)


@pytest.mark.parametrize("context", (eager, graph))
def test_ranks_with_different_transports_are_told(fakes, context):
    device = "/CPU:0" if odd_one_out() else None
    with pytest.raises((CollectiveMismatchError, tf.errors.OpError)) as error:
        context(lambda x: [sp.allreduce(x, sp.Sum, communicator=fakes, device=device)])(tf.ones(7))
    last = sp.size() - 1
    others = (
        f"ranks {', '.join(map(str, range(last - 1)))} and {last - 1}" if last > 1 else "rank 0"
    )
    assert f"{others}: allreduce(float32 [7], Sum) by NCCL\n" in str(error.value)
    assert f"rank {last}: allreduce(float32 [7], Sum)\n" in str(error.value)
    y = sp.allreduce(tf.ones(7), sp.Sum, communicator=fakes)
    assert y.numpy().tolist() == [sp.size()] * 7


def test_what_is_under_way_is_visible(fakes, monkeypatch):
    seen = []
    synchronize, before = fakes.gpu.synchronize, fakes.progress.sequence
    in_transfer = fakes.nccl_transport._link.allreduce

    def enqueue(*arguments):
        seen.append((fakes.progress.in_progress, fakes.in_progress()))
        in_transfer(*arguments)

    def wait(stream):
        seen.append((fakes.progress.in_progress, fakes.in_progress()))
        synchronize(stream)

    monkeypatch.setattr(fakes.nccl_transport._link, "allreduce", enqueue)
    monkeypatch.setattr(fakes.gpu, "synchronize", wait)
    sp.allreduce(tf.ones(6), sp.Sum, communicator=fakes)
    (signature, standing), (later, still_standing) = seen
    assert str(signature) == "allreduce(float32 [6], Sum) by NCCL" and later is None
    assert standing == still_standing == (before + 1, signature)
    assert fakes.progress.sequence == before + 1 and fakes.in_progress() is None


def test_what_the_gpu_is_at_keeps_its_number(fakes, monkeypatch):
    """Also after later collectives by MPI: ranks at the same place must report the same number."""
    monkeypatch.setattr(fakes.gpu, "has_passed", lambda mark: False)
    before = fakes.progress.sequence
    sp.allreduce(tf.ones(6), sp.Sum, communicator=fakes)
    for _ in range(2):
        sp.allreduce(tf.ones(6), sp.Sum, communicator=fakes, device="/CPU:0")
    number, signature = fakes.in_progress()
    assert number == before + 1 and fakes.progress.sequence == before + 3
    assert str(signature) == "allreduce(float32 [6], Sum) by NCCL"


@pytest.fixture
def private():
    """A group whose GPUs may be left in disorder."""
    return with_fake_gpus(sp.current_world().communicator.mpi)


def enqueue_like_a_program(group, x, y):
    """Enqueue a transfer without a wait."""
    call = CallSite(group, Allreduce("float32", x.shape, sp.Sum)).prepared(group.nccl_transport)
    call.execute(x.ctypes.data, y.ctypes.data, group.nccl_transport.stream)


class Ended(Exception):
    """The job would have ended with this message."""


def looks(group, n, *, answered=False, **patience):
    """The messages of waiting ranks after `n` looks of a watchdog, a moment apart."""

    def end_job(message):
        raise Ended(message)

    said = []
    mailbox = Mailbox(group.control)

    def send(message, to):
        said.append(message)
        if answered:
            asked = {message.description: (message.rank,)}
            mailbox.present[message.group] = Present(
                message.group, message.sequence, message.question, asked
            )

    mailbox.send = send
    mailbox.poll = lambda: None
    quick = {"announce_after": 0.0, "interval": 0.001, **patience}
    dog = Watchdog(mailbox, lambda: [group], end_job, Patience(**quick))
    for _ in range(n):
        dog._look_at(group)
        time.sleep(0.01)
    return said


def test_the_watchdog_sees_what_the_gpu_waits_for(private):
    group, _, runtime = private
    x, y = np.ones(2, np.float32), np.zeros(2, np.float32)
    enqueue_like_a_program(group, x, y)
    assert group.progress.in_progress is None
    what = "allreduce(float32 [2], Sum) by NCCL"
    assert looks(group, 2) == [Waiting(group.identity, 1, what, group.rank, question=1)]
    with pytest.raises(Ended, match=r"waited 0 s in allreduce\(float32 \[2\], Sum\) by NCCL"):
        looks(group, 6, answered=True, end_after=0.001)
    runtime.streamSynchronize(group.nccl_transport.stream)
    assert looks(group, 3, end_after=0.001) == []
    assert y.tolist() == [sp.size()] * 2


def test_an_error_that_nccl_or_cuda_finds_ends_the_job(private):
    group, _, runtime = private
    group.nccl_transport._link._communicator.async_error = "NCCL_ERROR_REMOTE_ERROR: a rank is gone"
    said = f"^Rank {sp.rank()} of «fake GPUs»: NCCL reports NCCL_ERROR_REMOTE_ERROR: a rank is gone"
    with pytest.raises(Ended, match=said):
        looks(group, 1)
    x, y = np.ones(2, np.float32), np.zeros(2, np.float32)
    enqueue_like_a_program(group, x, y)
    runtime.code = ILLEGAL_ADDRESS
    with pytest.raises(Ended, match="cudaErrorIllegalAddress: an illegal memory access was enc"):
        looks(group, 1)


def test_a_refused_call_is_not_in_progress(private):
    group, nccl, _ = private
    nccl.failing["allReduce"] = "NCCL_ERROR_SYSTEM_ERROR: unhandled system error"
    said = rf"^NCCL refused allreduce\(.*\) by NCCL on rank {sp.rank()}: NCCL_ERROR_SYSTEM_ERROR.*"
    with pytest.raises(BindingError, match=f"{said}NCCL_DEBUG=INFO"):
        sp.allreduce(tf.ones(2), sp.Sum, communicator=group)
    assert group.in_progress() is None

"""Whether the ranks use NCCL: what they conclude from what each has found out.

Wishes that cannot be granted are in tests/integration/test_start.py.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

import sciml_par.parallel as sp
from sciml_par.parallel.startup.nccl import GpuTransport, Report, decide, set_up_transport
from sciml_par.parallel.transports.cupy_binding import Gpu

pytestmark = pytest.mark.ranks(most=2, reason="reports of more ranks are made up")

NO_CUPY = "CuPy cannot be imported (no such file): pip install 'sciml-par[gpu]'"


def able(gpu, choice="auto", *, may_share=False):
    """A rank that could use NCCL."""
    return Report(choice, gpu, "", may_share)


def without_gpu(choice="auto"):
    return Report(choice, None, "no GPU")


def without_cupy(gpu, choice="auto"):
    return Report(choice, gpu, NO_CUPY)


SHARED = "share a GPU, which takes NCCL 2.30 and NCCL_MULTI_RANK_GPU_ENABLE=1"
ASKED = "SCIML_PAR_TRANSPORT=mpi asks for MPI"


@pytest.mark.parametrize(
    ("reports", "obstacle", "surprising"),
    [
        ([able("a"), able("b")], "", False),
        ([able("a", "nccl"), able("b", "nccl"), able("c", "nccl")], "", False),
        ([able("a", may_share=True)] * 2, "", False),
        # No GPU anywhere surprises nobody, and one rank misses nothing.
        ([without_gpu()] * 3, "ranks 0, 1 and 2: no GPU", False),
        ([without_gpu()], "rank 0: no GPU", False),
        ([able("a")], "one rank has nobody to exchange tensors with", False),
        ([without_cupy("a")], f"rank 0: {NO_CUPY}", False),
        ([able("a"), without_gpu(), able("b"), without_gpu()], "ranks 1 and 3: no GPU", True),
        ([able("a"), able("b"), without_cupy("c")], f"rank 2: {NO_CUPY}", True),
        (
            [without_cupy("a"), without_gpu(), without_cupy("b"), able("c")],
            f"ranks 0 and 2: {NO_CUPY}; rank 1: no GPU",
            True,
        ),
        ([able("a"), able("b"), able("a"), able("a")], f"ranks 0, 2 and 3 {SHARED}", True),
        ([able("a", may_share=True), able("a")], f"ranks 0 and 1 {SHARED}", True),
        ([able("a", "mpi"), able("b", "mpi")], ASKED, False),
        ([able("a", "mpi"), without_gpu("mpi")], ASKED, False),
        ([without_cupy("a", "mpi")] * 2, ASKED, False),
        ([without_gpu("mpi")], ASKED, False),
    ],
)
def test_what_the_ranks_conclude(reports, obstacle, surprising):
    assert decide(reports) == GpuTransport(obstacle, surprising)


# All of it, on these ranks


@pytest.fixture
def install(monkeypatch):
    """Put fakes in the place of CuPy's modules, or nothing where there are to be none."""

    def install(nccl_version):
        cuda = None
        if nccl_version is not None:
            cuda = SimpleNamespace(
                runtime=SimpleNamespace(getDeviceCount=lambda: 1),
                nccl=SimpleNamespace(available=True, get_version=lambda: nccl_version),
            )
        monkeypatch.setitem(sys.modules, "cupy", cuda and SimpleNamespace(cuda=cuda))
        monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)

    return install


def set_up(gpu=None, **environment):
    """The transport of a new group of all ranks, and the group."""
    group = sp.current_world().communicator.split(0)
    return set_up_transport(group, gpu, environment), group


def test_one_rank_lacks_cupy(install):
    """The last one; the others keep their GPU for copies to the host."""
    last = sp.rank() == sp.size() - 1
    install(None if last else 23007)
    transport, group = set_up(f"gpu {sp.rank()}")
    assert transport.obstacle.startswith(f"rank {sp.size() - 1}: CuPy cannot be imported")
    assert transport.surprising == (sp.size() > 1)
    assert group.nccl_transport is None
    assert (group.gpu is None) == last


def test_a_gpu_without_nccl(install):
    """Compiled programs can still copy through the host."""
    install(21703)
    transport, group = set_up(f"gpu {sp.rank()}")
    assert "NCCL 2.17.3 is too old" in transport.obstacle
    assert group.nccl_transport is None and isinstance(group.gpu, Gpu)


@pytest.mark.parametrize(
    ("code", "permission", "may_share"),
    [(23007, "1", True), (23007, "0", False), (23007, "", False), (22809, "1", False)],
)
def test_who_may_share_a_gpu(code, permission, may_share, install, monkeypatch):
    install(code)
    seen = []
    stop = GpuTransport("enough for this test", surprising=False)
    monkeypatch.setattr(
        "sciml_par.parallel.startup.nccl.decide", lambda reports: seen.extend(reports) or stop
    )
    set_up("the only one", NCCL_MULTI_RANK_GPU_ENABLE=permission)
    assert seen == [Report("auto", "the only one", "", may_share)] * sp.size()

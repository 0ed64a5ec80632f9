"""Whether the ranks use NCCL: what they conclude from what each has found out."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.parallel.startup.nccl import (
    GpuTransport,
    Report,
    decide,
    requested_transport,
    set_up_transport,
)
from sciml_par.parallel.transports.cupy_binding import (
    Gpu,
    MissingBindingError,
    Nccl,
    load_gpu,
    load_nccl,
)

NO_CUPY = "CuPy cannot be imported (no such file): pip install 'sciml-par[gpu]'"


def able(gpu, choice="auto", *, may_share=False):
    """A rank that could use NCCL."""
    return Report(choice, gpu, "", may_share)


def without_gpu(choice="auto"):
    return Report(choice, None, "no GPU")


def without_cupy(gpu, choice="auto"):
    return Report(choice, gpu, NO_CUPY)


# What the ranks conclude


@pytest.mark.parametrize("choice", ("auto", "nccl"))
@pytest.mark.parametrize("ranks", (2, 3))
def test_a_gpu_each(ranks, choice):
    assert decide([able(f"gpu {r}", choice) for r in range(ranks)]) == GpuTransport("", False)


@pytest.mark.parametrize("ranks", (1, 3))
def test_no_gpu_anywhere_surprises_nobody(ranks):
    transport = decide([without_gpu()] * ranks)
    assert transport.obstacle == ("rank 0: no GPU" if ranks == 1 else "ranks 0, 1 and 2: no GPU")
    assert not transport.surprising


def test_some_ranks_without_a_gpu():
    transport = decide([able("a"), without_gpu(), able("b"), without_gpu()])
    assert transport == GpuTransport("ranks 1 and 3: no GPU", surprising=True)


def test_cupy_is_missing_on_one_rank():
    transport = decide([able("a"), able("b"), without_cupy("c")])
    assert transport == GpuTransport(f"rank 2: {NO_CUPY}", surprising=True)


def test_ranks_with_different_obstacles():
    transport = decide([without_cupy("a"), without_gpu(), without_cupy("b"), able("c")])
    assert transport == GpuTransport(f"ranks 0 and 2: {NO_CUPY}; rank 1: no GPU", surprising=True)


@pytest.mark.parametrize(
    ("report", "obstacle"),
    [
        (able("a"), "one rank has nobody to exchange tensors with"),
        (without_cupy("a"), f"rank 0: {NO_CUPY}"),
        (without_gpu(), "rank 0: no GPU"),
    ],
)
def test_one_rank_misses_nothing(report, obstacle):
    assert decide([report]) == GpuTransport(obstacle, surprising=False)


@pytest.mark.parametrize(
    "reports",
    [
        [able("a", "mpi"), able("b", "mpi")],
        [able("a", "mpi"), without_gpu("mpi")],
        [without_cupy("a", "mpi"), without_cupy("a", "mpi")],
        [without_gpu("mpi")],
    ],
)
def test_a_wish_for_mpi_is_granted_without_a_word(reports):
    assert decide(reports) == GpuTransport("SCIML_PAR_TRANSPORT=mpi asks for MPI", surprising=False)


@pytest.mark.parametrize(
    ("reports", "reason"),
    [
        ([without_gpu("nccl")] * 2, "ranks 0 and 1: no GPU"),
        ([able("a", "nccl"), without_gpu("nccl")], "rank 1: no GPU"),
        ([able("a", "nccl"), without_cupy("b", "nccl")], f"rank 1: {NO_CUPY}"),
        ([able("a", "nccl"), able("a", "nccl")], "ranks 0 and 1 share a GPU"),
    ],
)
def test_a_wish_for_nccl_that_cannot_be(reports, reason):
    with pytest.raises(InputError) as error:
        decide(reports)
    says = f"SCIML_PAR_TRANSPORT=nccl: tensors cannot be carried by NCCL. {reason}"
    assert str(error.value).startswith(says)


@pytest.mark.parametrize("choices", (("auto", "mpi"), ("nccl", "nccl", "mpi"), ("auto", "nccl")))
def test_wishes_that_differ(choices):
    """Although each of them alone could be granted."""
    with pytest.raises(InputError, match=f"differs between the ranks: {', '.join(choices)}."):
        decide([able(f"gpu {r}", choice) for r, choice in enumerate(choices)])


def test_sharing_a_gpu_takes_a_new_nccl_and_permission():
    transport = decide([able("a"), able("b"), able("a"), able("a")])
    assert transport.surprising
    assert transport.obstacle == (
        "ranks 0, 2 and 3 share a GPU, which takes NCCL 2.30 and NCCL_MULTI_RANK_GPU_ENABLE=1"
    )


def test_sharing_needs_the_permission_of_all():
    given, not_given = able("a", may_share=True), able("a", may_share=False)
    assert decide([given, given]) == GpuTransport("", surprising=False)
    assert "ranks 0 and 1 share a GPU" in decide([given, not_given]).obstacle


# What a user asks for


@pytest.mark.parametrize(
    ("environment", "choice"),
    [
        ({}, "auto"),
        ({"SCIML_PAR_TRANSPORT": ""}, "auto"),
        ({"SCIML_PAR_TRANSPORT": "auto"}, "auto"),
        ({"SCIML_PAR_TRANSPORT": "mpi"}, "mpi"),
        ({"SCIML_PAR_TRANSPORT": "nccl"}, "nccl"),
    ],
)
def test_requested_transport(environment, choice):
    assert requested_transport(environment) == choice


@pytest.mark.parametrize("text", ("foo", "NCCL", "mpi ", "0"))
def test_an_unknown_transport(text):
    with pytest.raises(InputError, match=f"expected one of auto, mpi, nccl; got '{text}'"):
        requested_transport({"SCIML_PAR_TRANSPORT": text})


# What a rank finds


class FakeModules:
    """Stands for CuPy's modules: the library is not needed, nor is a GPU."""

    def __init__(self, monkeypatch):
        self._set = monkeypatch.setitem

    def install(self, **modules):
        cuda = SimpleNamespace(**modules)
        self._set(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
        self._set(sys.modules, "cupy.cuda", cuda)

    def remove(self):
        self._set(sys.modules, "cupy", None)
        self._set(sys.modules, "cupy.cuda", None)


@pytest.fixture
def fake_modules(monkeypatch):
    return FakeModules(monkeypatch)


def fake_runtime(count):
    def get_device_count():
        if isinstance(count, Exception):
            raise count
        return count

    return SimpleNamespace(getDeviceCount=get_device_count)


def fake_nccl(version, *, available=True):
    return SimpleNamespace(available=available, get_version=lambda: version)


@pytest.mark.parametrize("load", (load_gpu, load_nccl))
def test_cupy_is_not_installed(load, fake_modules):
    fake_modules.remove()
    with pytest.raises(MissingBindingError) as error:
        load()
    assert str(error.value).startswith("CuPy cannot be imported (")
    assert str(error.value).endswith("): pip install 'sciml-par[gpu]'")


def test_the_gpu_is_found(fake_modules):
    fake_modules.install(runtime=fake_runtime(1))
    assert isinstance(load_gpu(), Gpu)


@pytest.mark.parametrize(
    ("count", "says"),
    [(0, "CUDA finds no GPU"), (RuntimeError("no driver"), r"CUDA finds no GPU \(no driver\)")],
)
def test_cuda_finds_no_gpu(count, says, fake_modules):
    fake_modules.install(runtime=fake_runtime(count))
    with pytest.raises(MissingBindingError, match=f"^{says}$"):
        load_gpu()


@pytest.mark.parametrize(
    ("code", "version"), [(21800, (2, 18, 0)), (22304, (2, 23, 4)), (23007, (2, 30, 7))]
)
def test_nccl_is_found(code, version, fake_modules):
    fake_modules.install(nccl=fake_nccl(code))
    nccl = load_nccl()
    assert isinstance(nccl, Nccl)
    assert nccl.version == version


@pytest.mark.parametrize(("code", "version"), [(21703, "2.17.3"), (20403, "2.4.3")])
def test_nccl_is_too_old(code, version, fake_modules):
    fake_modules.install(nccl=fake_nccl(code))
    with pytest.raises(MissingBindingError, match=f"NCCL {version} is too old, 2.18 is the oldest"):
        load_nccl()


def test_cupy_finds_no_nccl(fake_modules):
    fake_modules.install(nccl=fake_nccl(0, available=False))
    with pytest.raises(MissingBindingError, match=r"no NCCL: pip install 'sciml-par\[gpu\]'"):
        load_nccl()


# All of it, on these ranks


def set_up(gpu=None, **environment):
    """The transport of a new group of all ranks, and the group."""
    group = sp.current_world().communicator.split(0)
    return set_up_transport(group, gpu, environment), group


def test_ranks_without_gpus_go_by_mpi():
    transport, group = set_up()
    assert transport.obstacle.endswith(": no GPU") and not transport.surprising
    assert (group.nccl_transport, group.gpu) == (None, None)


def test_one_rank_lacks_cupy(fake_modules):
    """The last one; the others keep their GPU for copies to the host."""
    last = sp.rank() == sp.size() - 1
    if last:
        fake_modules.remove()
    else:
        fake_modules.install(runtime=fake_runtime(1), nccl=fake_nccl(23007))
    transport, group = set_up(f"gpu {sp.rank()}")
    assert transport.obstacle.startswith(f"rank {sp.size() - 1}: CuPy cannot be imported")
    assert transport.surprising == (sp.size() > 1)
    assert group.nccl_transport is None
    assert (group.gpu is None) == last


def test_a_gpu_without_nccl(fake_modules):
    """Compiled programs can still copy through the host."""
    fake_modules.install(runtime=fake_runtime(1), nccl=fake_nccl(21703))
    transport, group = set_up(f"gpu {sp.rank()}")
    assert "NCCL 2.17.3 is too old" in transport.obstacle
    assert group.nccl_transport is None and isinstance(group.gpu, Gpu)


@pytest.mark.parametrize(
    ("code", "permission", "may_share"),
    [(23007, "1", True), (23007, "0", False), (23007, "", False), (22809, "1", False)],
)
def test_who_may_share_a_gpu(code, permission, may_share, fake_modules, monkeypatch):
    fake_modules.install(runtime=fake_runtime(1), nccl=fake_nccl(code))
    seen = []
    stop = GpuTransport("enough for this test", surprising=False)
    monkeypatch.setattr(
        "sciml_par.parallel.startup.nccl.decide", lambda reports: seen.extend(reports) or stop
    )
    set_up("the only one", NCCL_MULTI_RANK_GPU_ENABLE=permission)
    assert seen == [Report("auto", "the only one", "", may_share)] * sp.size()


def test_an_unknown_wish_of_one_rank_is_everyones_error():
    choice = "foo" if sp.rank() == sp.size() - 1 else "auto"
    with pytest.raises(InputError, match="expected one of auto, mpi, nccl; got 'foo'"):
        set_up(SCIML_PAR_TRANSPORT=choice)


@pytest.mark.skipif("sp.size() == 1", reason="one rank agrees with itself")
def test_another_wish_of_one_rank_is_everyones_error():
    choice = "mpi" if sp.rank() == sp.size() - 1 else "auto"
    with pytest.raises(InputError, match="differs between the ranks: auto, .*mpi."):
        set_up(SCIML_PAR_TRANSPORT=choice)

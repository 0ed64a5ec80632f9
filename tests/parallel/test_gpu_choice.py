"""One GPU for each rank: the visible GPUs on made-up hosts, and the choice of the ranks."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from sciml_par.errors import InputError
from sciml_par.parallel.startup import gpu_choice as device
from sciml_par.parallel.startup.gpu_choice import (
    VisibleGpu,
    choose_gpus,
    choose_in_tensorflow,
    pin,
    visible_gpus,
)

pytestmark = pytest.mark.ranks(most=1, reason="the hosts are made up")

UUIDS = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,GPU-1b5e2a6e-0000-4106-c12f-20bd9faed9f6"
MIGS = "MIG-8c1ab97a-1f5b-5a44-9b0e-2d1fb6a6b6ea,MIG-GPU-8932f937/2/0"
ADDRESSES = ("0000:01:00.0", "0000:41:00.0", "0000:c1:00.0")
INFORMATION = """\
Model: \t\t NVIDIA A100-SXM4-40GB
GPU UUID: \t GPU-????????-????-????-????-????????????
Video BIOS: \t 92.00.45.00.03
Bus Type: \t PCIe
Bus Location: \t {address}
Device Minor: \t {minor}
GPU Excluded:\t No
"""


class Host:
    """A made-up host: what NVIDIA's driver shows of it under `root`."""

    def __init__(self, root):
        self.root = root
        (root / "dev").mkdir()

    def add(self, address, minor):
        directory = self.root / "proc" / "driver" / "nvidia" / "gpus" / address
        directory.mkdir(parents=True)
        text = INFORMATION.format(address=address, minor=minor)
        (directory / "information").write_text(text)
        self.device(minor).touch()
        return directory / "information"

    def device(self, minor):
        return self.root / "dev" / f"nvidia{minor}"

    def shows(self, mask=None):
        environment = {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}
        return visible_gpus(environment, self.root)


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


@pytest.fixture
def three_gpus(host):
    """The driver's numbers of the GPUs do not follow their places on the bus."""
    for address, minor in zip(ADDRESSES, (2, 0, 1), strict=True):
        host.add(address, minor)
    return host


@pytest.fixture
def forbidden(monkeypatch):
    """Device files of this set cannot be opened, as a scheduler's control group has it.

    Permissions of files would not do: the tests may run as root.
    """
    paths = set()
    opened = os.open

    def refusing(path, *arguments, **options):
        if path in paths:
            raise PermissionError(1, "Operation not permitted", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refusing)
    return paths


def gpus(*names):
    """GPUs whose identity is given as "entry@identity", or is the entry."""
    parts = (name.partition("@") for name in names)
    return [VisibleGpu(entry, identity or entry) for entry, _, identity in parts]


def chosen(visible, *, share=False):
    return choose_gpus(visible, host="nid001", share=share)


# Visible GPUs


def test_a_host_without_the_driver(host):
    assert host.shows() == []
    assert host.shows("0,1") == gpus("0", "1")  # from the mask only


def test_without_a_mask_all_gpus_are_seen(three_gpus):
    expected = [VisibleGpu(str(i), address) for i, address in enumerate(ADDRESSES)]
    assert three_gpus.shows() == expected


def test_a_container_that_hides_the_drivers_list(host, forbidden):
    for minor in (10, 0, 2):
        host.device(minor).touch()
    for name in ("nvidiactl", "nvidia-uvm"):
        (host.root / "dev" / name).touch()
    forbidden.add(host.device(0))
    assert host.shows() == gpus("0@nvidia2", "1@nvidia10")
    assert host.shows("1") == gpus("1@nvidia10")


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ("", []),
        (" ", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("void", []),
        ("0", [("0", ADDRESSES[0])]),
        ("2,0", [("2", ADDRESSES[2]), ("0", ADDRESSES[0])]),
        (" 1 , 2 ", [("1", ADDRESSES[1]), ("2", ADDRESSES[2])]),
        # It ends at the first entry that is not a device.
        *((mask, [("1", ADDRESSES[1])]) for mask in ("1,-1,0", "1,,0", "1,no,0", "1, ,0")),
        ("7", [("7", "7")]),
        (UUIDS, [(entry, entry) for entry in UUIDS.split(",")]),
        (MIGS, [(entry, entry) for entry in MIGS.split(",")]),
    ],
)
def test_a_mask_is_respected(mask, expected, three_gpus):
    assert three_gpus.shows(mask) == [VisibleGpu(*each) for each in expected]


def test_gpus_that_the_scheduler_withholds_do_not_count(three_gpus, forbidden):
    """CUDA numbers what is left from 0."""
    forbidden.add(three_gpus.device(2))  # the first on the bus
    assert three_gpus.shows() == gpus(f"0@{ADDRESSES[1]}", f"1@{ADDRESSES[2]}")
    assert three_gpus.shows("1") == gpus(f"1@{ADDRESSES[2]}")
    three_gpus.device(1).unlink()  # as in some containers
    assert three_gpus.shows() == gpus(f"0@{ADDRESSES[1]}")
    forbidden.add(three_gpus.device(0))
    assert three_gpus.shows() == []


def test_a_device_that_is_busy_counts(host, monkeypatch):
    host.add(ADDRESSES[0], 0)

    def busy(*_, **__):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "open", busy)
    assert host.shows() == gpus(f"0@{ADDRESSES[0]}")


@pytest.mark.parametrize("text", ("", "Model: \t\t NVIDIA A100\n", None))
def test_a_driver_without_a_device_number_is_believed(text, host, forbidden):
    """Without the number of the device file nothing can be tried."""
    information = host.add(ADDRESSES[0], 0)
    forbidden.add(host.device(0))
    if text is None:
        information.unlink()
    else:
        information.write_text(text)
    assert host.shows() == gpus(f"0@{ADDRESSES[0]}")


# The choice of the ranks of a host


@pytest.mark.parametrize(
    ("views", "expected"),
    [
        ([], []),
        ([["4", "7"]], ["4"]),
        ([["4", "7"]] * 2, ["4", "7"]),
        ([["3"], ["1"], ["2"]], ["3", "1", "2"]),  # pinned by the scheduler
        ([["0@a", "1@b"], ["0@c", "1@d"]], ["0@a", "0@c"]),  # two GPUs a task, different ones
        ([["0", "1", "2"], ["1", "2", "0"], ["2", "0", "1"]], ["0", "1", "2"]),  # another order
        ([["0"], ["0", "1"]], ["0", "1"]),
        ([["0", "1"], [], ["0", "1"], []], ["0", None, "1", None]),  # some ranks on the CPU
        ([[], []], [None, None]),
    ],
)
def test_each_rank_takes_a_gpu_that_others_leave(views, expected):
    found = chosen([gpus(*view) for view in views])
    assert found == [name and gpus(name)[0] for name in expected]


@pytest.mark.parametrize(
    ("views", "counts", "crowd"),
    [
        ([gpus("4", "7")] * 3, "3 ranks run on host nid001, which shows them 2 GPU(s) (4, 7)", "4"),
        ([gpus("3")] * 2, "2 ranks run on host nid001, which shows them 1 GPU(s) (3)", "3"),
        ([gpus("5"), gpus("5"), gpus("6", "8"), []], "3 ranks run on host nid001, which", "5"),
        ([gpus("2", "2")] * 2, "2 ranks run on host nid001, which shows them 1 GPU(s) (2)", "2"),
    ],
)
def test_more_ranks_than_gpus(views, counts, crowd):
    with pytest.raises(InputError) as error:
        chosen(views)
    assert counts in str(error.value)
    assert f"2 of them would share GPU {crowd}." in str(error.value)
    for remedy in ("at most one rank per GPU", "SCIML_PAR_SHARE_GPUS=1", "CUDA_VISIBLE_DEVICES="):
        assert remedy in str(error.value)


def test_ranks_share_with_permission():
    both = gpus("0", "1")
    assert chosen([both] * 5, share=True) == [both[r % 2] for r in range(5)]
    assert chosen([both[:1]] * 2, share=True) == [both[0]] * 2


# The effect of a choice


@pytest.fixture
def pinned(monkeypatch):
    """What `pin` has made of these two variables, from what they are set to."""
    names = ("CUDA_VISIBLE_DEVICES", "TF_FORCE_GPU_ALLOW_GROWTH")

    def after(gpu, hide_others=True, **before):
        for name in names:
            monkeypatch.setenv(name, "")  # so that it is restored after the test
            monkeypatch.delenv(name)
        for name, value in before.items():
            monkeypatch.setenv(name, value)
        pin(gpu, hide_others=hide_others)
        return tuple(os.environ.get(name) for name in names)

    return after


@pytest.mark.parametrize(
    ("gpu", "hide", "before", "expected"),
    [
        ("3", True, {}, ("3", "true")),
        ("1", True, {"CUDA_VISIBLE_DEVICES": "0,1"}, ("1", "true")),
        (UUIDS.split(",")[1], True, {"CUDA_VISIBLE_DEVICES": UUIDS}, (UUIDS.split(",")[1], "true")),
        ("3", False, {}, (None, "true")),
        ("1", False, {"CUDA_VISIBLE_DEVICES": "0,1"}, ("0,1", "true")),
        ("0", True, {"TF_FORCE_GPU_ALLOW_GROWTH": "false"}, ("0", "false")),
        (None, True, {}, (None, None)),
        (None, True, {"CUDA_VISIBLE_DEVICES": "-1"}, ("-1", None)),
    ],
)
def test_pinning_sets_what_the_user_has_not(pinned, gpu, hide, before, expected):
    assert pinned(gpu and VisibleGpu(gpu, "x"), hide, **before) == expected


@pytest.mark.parametrize("started", (False, True))
def test_tensorflow_is_limited_unless_it_has_started(monkeypatch, started):
    chosen = []

    def set_visible_devices(devices, kind):
        if started:
            raise RuntimeError("Visible devices cannot be modified after being initialized")
        chosen.append((devices, kind))

    config = SimpleNamespace(
        list_physical_devices=lambda kind: [f"{kind}:{i}" for i in range(3)],
        set_visible_devices=set_visible_devices,
    )
    monkeypatch.setattr(device, "tf", SimpleNamespace(config=config))
    choose_in_tensorflow(2)
    assert chosen == ([] if started else [(["GPU:2"], "GPU")])

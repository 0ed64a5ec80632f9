"""One GPU for each rank, on made-up hosts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sciml_par.errors import InputError
from sciml_par.parallel.device import choose_gpu, gpus_of_this_host, pin_gpu

NOWHERE = Path("/nowhere")
UUIDS = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,GPU-1b5e2a6e-0000-4106-c12f-20bd9faed9f6"
MIGS = "MIG-GPU-8932f937/1/0,MIG-GPU-8932f937/2/0"


@pytest.fixture
def two_gpus(tmp_path):
    """A /proc with the entries that NVIDIA's driver makes."""
    for address in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / "driver" / "nvidia" / "gpus" / address).mkdir(parents=True)
    return tmp_path


@pytest.fixture
def mask(monkeypatch):
    """Sets CUDA_VISIBLE_DEVICES for the test; what pin_gpu sets is undone."""
    for variable in ("CUDA_VISIBLE_DEVICES", "TF_FORCE_GPU_ALLOW_GROWTH", "SCIML_PAR_SHARE_GPUS"):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    return lambda text: monkeypatch.setenv("CUDA_VISIBLE_DEVICES", text)


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("", []),
        ("-1", []),
        ("0", ["0"]),
        ("2,0", ["2", "0"]),
        (" 1 , 3 ", ["1", "3"]),
        (UUIDS, UUIDS.split(",")),
        (MIGS, MIGS.split(",")),
    ],
)
def test_a_mask_is_respected(text, gpus, two_gpus):
    assert gpus_of_this_host({"CUDA_VISIBLE_DEVICES": text}, two_gpus) == gpus


def test_cuda_reads_a_mask_up_to_the_first_entry_that_is_no_device(two_gpus):
    assert gpus_of_this_host({"CUDA_VISIBLE_DEVICES": "1,-1,0"}, two_gpus) == ["1"]


def test_without_a_mask_the_driver_is_asked(two_gpus):
    """Where the driver lists them: /proc/driver/nvidia/gpus."""
    assert gpus_of_this_host({}, two_gpus) == ["0", "1"]
    assert gpus_of_this_host({}, NOWHERE) == []


def test_each_rank_its_own():
    assert [choose_gpu(["4", "7"], r, 2, share=False) for r in range(2)] == ["4", "7"]
    assert choose_gpu(["4", "7"], 0, 1, share=False) == "4"
    assert choose_gpu([], 3, 8, share=False) is None


def test_more_ranks_than_gpus():
    with pytest.raises(InputError) as error:
        choose_gpu(["0", "1"], 0, 3, share=False)
    for part in ("3 ranks", "2 GPU(s) (0, 1)", "SCIML_PAR_SHARE_GPUS=1", "CUDA_VISIBLE_DEVICES="):
        assert part in str(error.value)


def test_ranks_may_share_where_they_are_told_to():
    chosen = [choose_gpu(["0", "1"], r, 5, share=True) for r in range(5)]
    assert chosen == ["0", "1", "0", "1", "0"]


def test_pinning(mask):
    mask(UUIDS)
    assert pin_gpu(1, [UUIDS, UUIDS]) == UUIDS.split(",")[1]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == UUIDS.split(",")[1]
    assert os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"


def test_pinning_leaves_alone_what_the_scheduler_has_pinned(mask):
    mask("3")
    assert pin_gpu(1, ["2", "3"]) == "3"


def test_pinning_is_not_taken_for_granted(mask):
    mask("3")
    with pytest.raises(InputError, match="2 ranks run on this host, which shows 1 GPU"):
        pin_gpu(1, ["3", "3"])


def test_pinning_shares_on_request(mask, monkeypatch):
    mask("3")
    monkeypatch.setenv("SCIML_PAR_SHARE_GPUS", "1")
    assert pin_gpu(1, ["3", "3"]) == "3"


def test_pinning_does_nothing_without_a_gpu(mask):
    mask("-1")
    assert pin_gpu(0, ["-1"]) is None
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "-1"
    assert "TF_FORCE_GPU_ALLOW_GROWTH" not in os.environ

"""benchmarks/gpu_check.py, as far as it goes without a GPU.

The script itself on this machine; its stages over a fake of CuPy, sound and faulty; a rehearsal
of what it does with TensorFlow, by MPI on the CPU; and how it starts and ends processes.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from launch import ROOT, launch

sys.path.append(str(ROOT / "benchmarks"))

from gpu.cases import TYPES
from gpu.job import Job, rows_of, start, wait
from gpu.machine import choose_arena, mpirun
from gpu.record import Budget
from gpu.report import FAILED, MACHINE, OK, SKIPPED, Row, exit_code
from gpu.session import Session
from gpu.stages import Stage, gpu_stages, visible
from gpu.worker import shared_by_file

from sciml_par.parallel.requests.element_type import ELEMENT_TYPES

SCRIPT = ROOT / "benchmarks" / "gpu_check.py"
FAKE = ROOT / "tests" / "integration" / "fake_gpu"
VALUES = "all collectives, addresses"
WAITING = "does the host wait? addresses"


# The script on a machine without a GPU


@pytest.mark.launches
@pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="CuPy is installed here")
def test_where_nothing_can_be_checked_it_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    ended = launch(None, SCRIPT, "--json", tmp_path / "deep" / "found.json", folder=tmp_path)
    assert ended.code == 1, ended
    assert ended.err == ""
    missing = ended.out.split("missing, so that nothing can be checked:\n")[1].split("\n\n")[0]
    parts = [line.split(":")[0].strip() for line in missing.splitlines()]
    assert parts == [p for p in ("CuPy", "TensorFlow", "MPI", "JAX") if p in parts]
    assert {"CuPy", "TensorFlow"} <= set(parts)
    assert "pip install 'sciml-par[gpu]'" in missing
    assert "Nothing could be checked." in ended.out
    found = json.loads((tmp_path / "deep" / "found.json").read_text())
    assert {row["stage"] for row in found["rows"]} == {MACHINE}
    assert {row["what"] for row in found["rows"] if row["result"] == OK} >= {"Python", "TensorFlow"}


# Its stages over a fake of CuPy, in which streams are threads


def session(folder: Path, *, patience: float = 60.0, rehearse: str | None = None) -> Session:
    return Session(folder, Budget(300.0), rehearse=rehearse, patience=patience)


def rows_over_fake(
    folder: Path, monkeypatch: Any, fault: str = "", *, ranks: int = 1, patience: float = 60.0
) -> dict[str, Row]:
    monkeypatch.setenv("PYTHONPATH", str(FAKE))
    monkeypatch.setenv("FAKE_NCCL_FAULT", fault)
    monkeypatch.setenv("FAKE_GPU_BUSY", "2")
    running = session(folder, patience=patience)
    task = "full" if ranks == 1 else "sharing"
    stage = Stage("stage", task, ranks, environment=[{}] * ranks)
    running.run_stage(stage, "cupy", 90.0)
    assert len({row.what for row in running.rows}) == len(running.rows)
    return {row.what: row for row in running.rows}


@pytest.mark.launches
def test_one_rank_over_the_fake_is_checked_and_measured(tmp_path, monkeypatch, capsys):
    rows = rows_over_fake(tmp_path, monkeypatch)
    assert {row.result for row in rows.values()} == {OK, SKIPPED}
    assert {row.detail for row in rows.values() if row.result == SKIPPED} == {
        "not enough free memory"
    }
    assert rows[VALUES].numbers["types"] == [n for n, e in ELEMENT_TYPES.items() if e.nccl_name]
    assert rows[WAITING].numbers["ahead"] == rows[WAITING].numbers["calls"] == 100
    measured = rows["allreduce of 4 MiB, addresses"].numbers
    seconds = 1e-6 * measured["stream_us"]
    assert measured["rate_gb_s"] == pytest.approx((4 << 20) / seconds / 1e9)
    assert 0 < measured["return_us"] <= measured["done_us"]
    assert VALUES in capsys.readouterr().out


@pytest.mark.launches
def test_two_ranks_over_the_fake_find_each_other_without_mpi(tmp_path, monkeypatch):
    rows = rows_over_fake(tmp_path, monkeypatch, ranks=2)
    assert {row.what: row.detail for row in rows.values() if row.result == FAILED} == {}
    assert rows[VALUES].numbers["types"] == [n for n, e in ELEMENT_TYPES.items() if e.nccl_name]
    measured = rows["allreduce of 16 KiB, addresses"].numbers
    assert measured["ranks"] == 2
    assert measured["rate_gb_s"] <= 1.001 * (16 << 10) / measured["stream_us"] / 1e3


@pytest.mark.launches
def test_of_two_ranks_a_crash_of_one_ends_the_other(tmp_path, monkeypatch):
    rows = rows_over_fake(tmp_path, monkeypatch, "crashes", ranks=2)
    assert [row.what for row in rows.values() if row.result == FAILED] == [VALUES]
    assert "rank 0: ended from outside, since another rank had failed" in rows[VALUES].detail
    assert "rank 1: ended with exit code -6" in rows[VALUES].detail
    assert rows["allreduce of 16 KiB, addresses"].result == OK


@pytest.mark.launches
@pytest.mark.parametrize(
    ("fault", "where", "said"),
    [
        ("drops", VALUES, "float16: 427 of 427 wrong: [0, 0] is nan"),
        ("waits", WAITING, "blocked for"),
        ("crashes", VALUES, "ended with exit code -6"),
        ("hangs", VALUES, "nothing had happened for 15 s"),
    ],
)
def test_a_fault_is_found_and_the_rest_goes_on(tmp_path, monkeypatch, fault, where, said):
    rows = rows_over_fake(tmp_path, monkeypatch, fault, patience=15.0)
    assert [row.what for row in rows.values() if row.result == FAILED] == [where]
    assert said in rows[where].detail
    assert rows["allreduce of 4 MiB, addresses"].result == OK
    if fault in ("crashes", "hangs"):
        assert "nccl.py" in rows[where].detail  # where it was
    assert exit_code(list(rows.values())) == 1


@pytest.mark.launches
@pytest.mark.skipif(mpirun() is None, reason="there is no mpirun")
@pytest.mark.parametrize("ranks", [1, 2])
def test_with_tensorflow_it_can_be_rehearsed(tmp_path, monkeypatch, ranks):
    for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        monkeypatch.setenv(name, "1")
    running = session(tmp_path, patience=200.0, rehearse="tensorflow")
    running.run_stage(Stage("rehearsal", "sharing", ranks), "tensorflow", 250.0)
    rows = {row.what: row for row in running.rows}
    failed = {row.what: row.detail for row in running.rows if row.result == FAILED}
    assert not failed
    for way in ("addresses", "eager", "graph", "compiled"):
        assert rows[f"all collectives, {way}"].numbers["types"] == list(TYPES)
        assert rows[f"allreduce of 16 KiB, {way}"].numbers["ranks"] == ranks
    assert rows["40 × (compute, allreduce), compiled"].result == OK
    assert rows["40 collectives of all kinds, compiled"].result == OK
    if ranks == 1:
        kinds = {
            way: rows[f"an error in a transfer, {way}"].numbers["kind"]
            for way in ("addresses", "compiled")
        }
        assert kinds == {"addresses": "RuntimeError", "compiled": "FailedPreconditionError"}


@pytest.mark.launches
def test_what_jax_needs_is_imported_without_tensorflow_and_mpi4py():
    program = (
        "import sys\n"
        "for name in ('tensorflow', 'keras', 'mpi4py'): sys.modules[name] = None\n"
        "from sciml_par.parallel import cupy_binding, nccl_communicator, request, xla_ffi\n"
        "from gpu import arena, checks, jax_arena, measure, session, worker\n"
        "xla_ffi.c_function(xla_ffi.one_tensor(print, with_stream=True), (0, 2))\n"
    )
    paths = f"{ROOT}:{ROOT / 'benchmarks'}"
    command = [sys.executable, "-c", program]
    subprocess.run(command, check=True, timeout=60, env={"PYTHONPATH": paths})


# What is started


def machine_rows(**found: dict[str, Any] | str) -> list[Row]:
    """Rows of what there is: numbers, or why not."""
    parts = {"CuPy": "not installed", "MPI": "none", "TensorFlow": "none", "JAX": "none", **found}
    return [
        Row(MACHINE, name, SKIPPED, x) if isinstance(x, str) else Row(MACHINE, name, OK, "", x)
        for name, x in parts.items()
    ]


CUPY: dict[str, Any] = {"gpus": 1, "nccl": [2, 32, 3]}
SEES, BLIND = {"gpus": 1}, {"gpus": 0}


@pytest.mark.parametrize(
    ("found", "arena", "missing"),
    [
        ({"CuPy": CUPY, "MPI": {"x": 1}, "TensorFlow": SEES}, "tensorflow", []),
        ({"CuPy": CUPY, "MPI": {"x": 1}, "TensorFlow": SEES, "JAX": SEES}, "tensorflow", []),
        ({"CuPy": CUPY, "TensorFlow": SEES, "JAX": SEES}, "jax", ["MPI"]),
        ({"CuPy": CUPY, "TensorFlow": BLIND, "JAX": SEES}, "jax", ["TensorFlow", "MPI"]),
        ({"CuPy": CUPY, "JAX": BLIND}, "cupy", ["TensorFlow", "MPI", "JAX"]),
        ({"MPI": {"x": 1}, "TensorFlow": SEES}, None, ["CuPy"]),
        ({"JAX": SEES}, None, ["CuPy", "TensorFlow", "MPI"]),
        ({}, None, ["CuPy", "TensorFlow", "MPI", "JAX"]),
    ],
)
def test_the_best_there_is_is_used_and_the_missing_named(found, arena, missing):
    chosen, lines = choose_arena(machine_rows(**found))
    assert chosen == arena
    assert [line.split(":")[0] for line in lines] == missing


def test_old_nccl_and_a_single_gpu_leave_stages_out(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    one, sharing, several = gpu_stages(machine_rows(CuPy={"gpus": 1, "nccl": [2, 28, 9]}), "jax")
    assert not one.obstacle
    assert "2.28.9" in sharing.obstacle
    assert several.obstacle == "there is one GPU only"


def test_each_rank_is_shown_its_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a, GPU-b,GPU-c")
    found = machine_rows(CuPy={"gpus": 3, "nccl": [2, 30, 7]})
    one, sharing, several = gpu_stages(found, "jax")
    assert [e["CUDA_VISIBLE_DEVICES"] for e in one.environment] == ["GPU-a"]
    assert [e["CUDA_VISIBLE_DEVICES"] for e in sharing.environment] == ["GPU-a"] * 2
    assert {e["NCCL_MULTI_RANK_GPU_ENABLE"] for e in sharing.environment} == {"1"}
    assert [e["CUDA_VISIBLE_DEVICES"] for e in several.environment] == ["GPU-a", "GPU-b", "GPU-c"]
    assert several.ranks == 3
    if mpirun():  # sciml_par shares them out itself
        *_, several = gpu_stages(found, "tensorflow")
        assert {e["CUDA_VISIBLE_DEVICES"] for e in several.environment} == {"GPU-a,GPU-b,GPU-c"}


@pytest.mark.parametrize(
    ("mask", "count", "names"),
    [(None, 2, ["0", "1"]), ("3", 1, ["3"]), ("3,5", 2, ["3", "5"]), ("3,-1,5", 1, ["3"])],
)
def test_the_visible_gpus_are_named_as_the_mask_names_them(mask, count, names):
    assert visible({} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}, count) == names


def test_ranks_without_mpi_meet_by_a_file(tmp_path):
    path, got = tmp_path / "id", []
    other = threading.Thread(target=lambda: got.append(shared_by_file(path, b"")))
    other.start()
    assert shared_by_file(path, b"unique") == b"unique"
    other.join(30)
    assert got == [b"unique"]


# Processes that hang or crash


def ended(tmp_path: Path, program: str, *, seconds: float = 30.0, patience: float = 30.0) -> Row:
    """The row of a process that did not end well."""
    out = tmp_path / "rows"
    process = start([sys.executable, "-c", program], tmp_path / "log", {})
    reason = wait([process], seconds, outs=[out], patience=patience)
    assert process.ended()
    return rows_of(Job("stage", "full", "cupy", str(out), 1.0), out, process, reason)[-1]


def is_alive(number: str) -> bool:
    try:
        return Path("/proc", number, "stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_a_process_that_hangs_is_ended_with_its_children(tmp_path):
    child = tmp_path / "child"
    hangs = (
        "import subprocess, sys, time\n"
        f"open({str(tmp_path / 'rows')!r}, 'w').write('{{\"begun\": \"this\"}}\\n')\n"
        "process = subprocess.Popen(['sleep', '1000'])\n"
        f"open({str(child)!r}, 'w').write(str(process.pid))\n"
        "time.sleep(1000)\n"
    )
    row = ended(tmp_path, hangs, patience=10.0)
    assert (row.what, row.result) == ("this", FAILED)
    assert "nothing had happened for 10 s" in row.detail
    deadline = time.monotonic() + 30.0  # the kernel may take its time to end it
    while is_alive(child.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(child.read_text())


def test_a_process_that_takes_too_long_or_fails_says_so(tmp_path):
    assert "the time was over" in ended(tmp_path, "import time; time.sleep(99)", seconds=0.5).detail
    row = ended(tmp_path, "raise SystemExit('no such thing')")
    assert row.detail == "ended with exit code 1: no such thing"
    assert row.what == "the process as a whole"

"""The command `sciml-par info`, run as a user runs it, and its page on machines not at hand."""

from __future__ import annotations

import json
import re
import socket
import tomllib
from pathlib import Path

import numpy as np
import pytest
from launch import ROOT, Ended, launch

from sciml_par.info.facts import gather_facts
from sciml_par.info.report import print_facts
from sciml_par.info.self_test import (
    CONTEXTS,
    addend,
    compare,
    in_context,
    planned,
    total,
    try_collective,
)
from sciml_par.parallel import current_world
from sciml_par.parallel.groups.world import GpuTransport

launches = pytest.mark.launches
PAGE = (ROOT / "docs" / "info.md").read_text(encoding="utf-8")
TITLES = ["Versions", "MPI", "Ranks", "GPUs", "Compiled functions", "Environment"]
RANK = """
import os
from sciml_par.parallel.startup.launcher_environment import launched_rank
rank = launched_rank(os.environ)
"""


def info(ranks: int | None, folder: Path, *options: str, change: str = "") -> Ended:
    """Run the command as installed, after `change`, Python that may use `rank`."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["sciml-par"].partition(":")
    program = folder / "program.py"
    program.write_text(f"{RANK}\n{change}\nfrom {module} import {function}\n{function}()\n")
    return launch(ranks, program, "info", *options, folder=folder, threads=1)


def words(out: str) -> str:
    return " ".join(out.split())


@launches
def test_the_page_and_the_json_are_as_documented(tmp_path: Path) -> None:
    options = ("-m", "sciml_par.info", "--json", "info.json")
    ended = launch(2, *options, folder=tmp_path, threads=1).succeeded()
    assert [line for line in ended.out.splitlines() if line in TITLES] == TITLES  # rank 0 prints
    assert [line for line in ended.out.splitlines() if len(line) > 80 or "\x1b" in line] == []
    assert ended.out.splitlines()[-1] == "All 3 tests that could be tried went right."
    found = json.loads((tmp_path / "info.json").read_text())
    assert found["right"] is True and len(found["ranks"]) == 2
    tried = {test["context"] for test in found["self_test"] if test["right"] and test["seconds"]}
    assert tried == set(CONTEXTS)
    keys = {*found, *found["ranks"][0], *found["self_test"][0], *found["ranks"][0]["nccl"]}
    assert [key for key in keys if f"`{key}`" not in PAGE] == []
    labels = {*re.findall(r"^  (\S.*?)(?:  |$)", ended.out, re.MULTILINE)}
    varying = {socket.gethostname(), *found["ranks"][0]["environment"]}
    shown = PAGE.partition("```text\n")[2].partition("```")[0]
    assert len(labels) > 15
    assert [label for label in labels - varying if f"\n  {label} " not in shown] == []


@launches
def test_one_rank_tests_nothing_and_replaces_a_file_on_request(tmp_path: Path) -> None:
    (tmp_path / "info.json").write_text("old")
    ended = info(None, tmp_path, "--json", "info.json", "--overwrite").succeeded()
    assert json.loads((tmp_path / "info.json").read_text())["right"] is True
    assert "mpirun -np 2 sciml-par info" in ended.out.splitlines()[-1]


@launches
@pytest.mark.all_after(1)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--json", "program.py"], "program.py already exists"),
        (["--json", "nowhere/info.json"], "cannot write the file nowhere/info.json"),
        (["--frobnicate"], "Unknown option: --frobnicate. --help lists the options."),
    ],
)
def test_a_wrong_option_is_reported_once_before_the_page(
    options: list[str], message: str, tmp_path: Path
) -> None:
    ended = info(2, tmp_path, *options)
    assert ended.code == 2 and ended.out == ""
    assert ended.err.count(f"sciml-par: error: {message}") == 1 and "Traceback" not in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"]
    assert RANK in (tmp_path / "program.py").read_text()


BROKEN = """
from sciml_par.info import self_test

def broken(x, *, right=self_test.allreduce, **options):
    import tensorflow as tf
    if tf.executing_eagerly() and {eager}:
        raise OSError("the cable is out")
    return right(x, **options) + (7.0 if rank == 2 else 0.0)

self_test.allreduce = broken
"""


@launches
def test_faults_are_reported_with_their_ranks_and_an_exit_code(tmp_path: Path) -> None:
    change = BROKEN.format(eager=True)
    ended = info(3, tmp_path, "--json", "info.json", change=change)
    assert ended.code == 1 and "Traceback" not in ended.err
    page = words(ended.out)
    assert "eager WRONG: rank 0 failed with OSError: the cable is out (ranks 1 and 2 " in page
    for context in CONTEXTS[1:]:  # Σ r² = 5 at the first place of the first call
        assert f"{context} WRONG: rank 2 got 12 where 5 is due, at place 0," in page
    assert page.endswith("3 of 3 tests went WRONG.")
    found = json.loads((tmp_path / "info.json").read_text())
    assert found["right"] is False
    wrong = [[*test["wrong"]] for test in found["self_test"] if test["tried"]]
    assert wrong == [["0", "1", "2"], ["2"], ["2"]]


@launches
@pytest.mark.all
def test_ranks_that_would_wait_for_ever_end_after_the_facts(tmp_path: Path) -> None:
    ended = info(2, tmp_path, change=BROKEN.format(eager="rank == 1"))
    assert ended.code != 0 and "did not ask for the same collective" in ended.err
    assert "\nEnvironment\n" in ended.out and "Self-test" not in ended.out


@launches
def test_what_the_user_has_set_and_a_missing_interface_are_reported(tmp_path: Path) -> None:
    change = """
os.environ["NCCL_DEBUG"] = "WARN" if rank == 1 else "INFO"
os.environ["SCIML_PAR_STALL_WARNING"] = ""
os.environ["SCIML_PAR_TRANSPORT"] = "mpi"
del os.environ["OMP_NUM_THREADS"]  # `init` sets it again
from sciml_par.parallel.execution import xla_ffi
xla_ffi.TESTED_VERSIONS = ((9, 9),)
"""
    page = words(info(3, tmp_path, "--json", "info.json", change=change).succeeded().out)
    assert (
        " Environment NCCL_DEBUG differs: INFO on ranks 0 and 2; WARN on rank 1 "
        "SCIML_PAR_STALL_WARNING set, and empty SCIML_PAR_TRANSPORT mpi Self-test: "
    ) in page
    assert "between GPUs nothing travels: no rank has a GPU" in page
    found = json.loads((tmp_path / "info.json").read_text())
    assert found["transport_obstacle"] == "no rank has a GPU"
    assert [rank["transport"] for rank in found["ranks"]] == 3 * ["MPI"]
    reason = "XLA's foreign-call interface has version (0, 2)"
    assert f"do not work with jit_compile=True: {reason}" in page
    assert f"jit_compile not tried: ranks 0, 1 and 2: {reason}" in page
    assert page.endswith("All 2 tests that could be tried went right.")


@launches
def test_processes_that_the_launcher_could_not_join_print_one_page(tmp_path: Path) -> None:
    # The variables of the launcher whose library is not in use here.
    change = """
import sys
from mpi4py import MPI
launcher = "PMI" if MPI.get_vendor()[0] == "Open MPI" else "OMPI_COMM_WORLD"
os.environ[f"{launcher}_SIZE"], os.environ[f"{launcher}_RANK"] = "4", sys.argv.pop()
"""
    first, second = (info(None, tmp_path, number, change=change) for number in "01")
    assert first.code == 0 and first.err.count("They are separate jobs") == 1
    assert "started 4 processes, and each is alone" in words(first.out)
    assert second.succeeded().out == ""


# --- the self-test, with collectives that are broken


@pytest.mark.parametrize("context", CONTEXTS)
def test_each_context_runs_as_named_and_finds_faults(context: str) -> None:
    import tensorflow as tf

    def fault(collective) -> str:
        placed = in_context(context, collective, "/CPU:0")
        return try_collective(placed, "/CPU:0", current_world().alone)[0].get(0, "")

    assert fault(tf.identity) == ""
    assert fault(lambda x: 2 * x).startswith("got 2 where 1 is due, at place 1, and is wrong at")
    eager_only = lambda x: tf.constant(x.numpy())  # noqa: E731
    not_for_xla = lambda x: tf.numpy_function(lambda a: a, [x], tf.float32)  # noqa: E731
    failed = [fault(each).startswith("failed with") for each in (eager_only, not_for_xla)]
    assert failed == [context != "eager", context == "jit_compile"]


def test_a_result_of_another_call_rank_place_or_operation_is_wrong() -> None:
    each = [addend(rank, 3) for rank in range(3)]
    due = total(3, 3)
    assert compare(np.sum(each, axis=0), due) == ""
    wrong = [*each, *(3 * x for x in each), due / 3, due[::-1], due[:2], total(3, 2), due * np.nan]
    assert all(compare(result, due) for result in wrong)


# --- the page on machines that are not at hand

GPUS = [{"entry": str(i), "identity": f"GPU-{i}{i}{i}{i}ffff-aaaa"} for i in range(2)]
NCCL, OLD = {"version": "2.30.7", "obstacle": ""}, {"version": "", "obstacle": "too old"}


@pytest.mark.parametrize(
    ("changes", "obstacle", "sentence"),
    [
        ({}, "", "node1 GPU 0, H100, GPU-0000ffff: rank 0 GPU 1, H100, GPU-1111ffff: rank 1"),
        ({}, "", "computes on the GPU on ranks 0 and 1 TensorFloat-32 off NCCL 2.30.7"),
        ({}, "", "between GPUs tensors travel by NCCL Compiled"),
        (
            {"transport": "MPI"},
            "TensorFlow finds no GPU on rank 1",
            "between GPUs differs: tensors travel by NCCL on rank 0; tensors travel by MPI on",
        ),
        ({"host_number": 1}, "", "in all 2 ranks on 2 hosts"),
        ({"threads": 9}, "", "1 to 9 threads each, on 2 cores: too many threads"),
        ({}, "", "openblas (numpy): 1 thread each mkl (scipy): 1 thread each GPUs"),
        ({"thread_pools": {"mkl (scipy)": 4}}, "", "mkl (scipy): 4 threads each: too many threads"),
        ({"gpu": GPUS[0]}, "", "GPU-0000ffff: ranks 0 and 1 GPU 1, GPU-1111ffff: no rank"),
        ({"mpi_library": "Other"}, "", "library differs: Some MPI on rank 0; Other on rank 1"),
        ({"thread_level": "SINGLE"}, "", "SINGLE on rank 1, not MULTIPLE"),
        ({"tensorflow_on_gpu": False}, "", "TensorFlow finds no GPU on rank 1"),
        ({"tensorflow_is_right": False}, "", "computes WRONG numbers on the GPU on rank 1: its"),
        ({"gpu": None, "visible": []}, "", "computes on a GPU not given to rank 1"),
        ({"tensor_float_32": True}, "", "TensorFloat-32 differs: off on rank 0; on on rank 1"),
        (
            {"nccl": {"version": "", "obstacle": "too old"}},
            "",
            "NCCL differs: 2.30.7 on rank 0; too old on rank 1",
        ),
    ],
)
def test_the_page_of_two_ranks_with_gpus(
    changes: dict, obstacle: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = {
        **gather_facts(current_world(), {})["ranks"][0],
        **{"host": "node1", "cores": (0, 1), "threads": 1, "mpi_library": "Some MPI"},
        **{"thread_pools": {"openblas (numpy)": 1, "mkl (scipy)": 1}},
        **{"visible": GPUS, "gpu": GPUS[0], "gpu_name": "H100", "tensorflow_on_gpu": True},
        **{"nccl": NCCL, "transport": "NCCL"},
    }
    second = {**first, "gpu": GPUS[1], **changes}
    facts = {"ranks": [first, second], "transport_obstacle": obstacle, "native_obstacle": ""}
    print_facts(facts)
    assert sentence in words(capsys.readouterr().out)
    ways = {(path, context): why for path, context, why in planned(facts)}
    assert ways["MPI, host memory", "jit_compile"] == ""
    assert ("MPI, GPU memory", "eager") in ways if obstacle else len(ways) == 6


BLIND = "TensorFlow finds no GPU on ranks 0 and 1"
SLOW = "tensors travel by MPI through host memory, which is slow: rank 1: none"


@pytest.mark.parametrize(
    ("agreed", "on_gpu", "obstacle", "used"),
    [
        ("", True, "", "tensors travel by NCCL"),
        ("", False, BLIND, f"nothing travels: {BLIND}"),
        ("rank 1: none", True, "rank 1: none", SLOW),
    ],
)
def test_the_transport_is_the_one_that_the_ranks_use(
    agreed: str,
    on_gpu: bool,
    obstacle: str,
    used: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = current_world()
    monkeypatch.setattr("sciml_par.info.facts.has_gpus", lambda: on_gpu)
    monkeypatch.setattr(world.communicator, "nccl_transport", None if agreed else object())
    monkeypatch.setattr(world, "transport", GpuTransport(agreed, surprising=False))
    on_rank = {"gpu": GPUS[0], "visible": GPUS, "nccl": NCCL}
    two = lambda found: 2 * [{**found, **on_rank}]  # noqa: E731
    monkeypatch.setattr(world.communicator, "allgather_object", two)
    facts = gather_facts(world, {})
    print_facts(facts)
    assert f" between GPUs {used} Compiled functions " in words(capsys.readouterr().out)
    assert facts["transport_obstacle"] == obstacle
    by_nccl = on_gpu and not agreed
    assert {rank["transport"] for rank in facts["ranks"]} == {"NCCL" if by_nccl else "MPI"}


def test_a_terminal_shows_what_is_good_and_what_is_bad_in_colour(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    facts = gather_facts(current_world(), {})
    bad = {**facts["ranks"][0], "thread_level": "SINGLE", "transport": "NCCL"}
    print_facts({**facts, "ranks": [bad], "transport_obstacle": ""})
    out = capsys.readouterr().out
    assert "\x1b[1;31mSINGLE on rank 0" in out and "\x1b[32mtensors travel by NCCL" in out

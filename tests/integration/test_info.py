"""The command `sciml-par info`, run as a user runs it, and where something is broken."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest
from info_page import sections_of
from launch import ROOT, Ended, launch

from sciml_par._text import rank_list
from sciml_par.info.self_test import CONTEXTS

pytestmark = pytest.mark.launches

PAGE = (ROOT / "docs" / "info.md").read_text(encoding="utf-8")
TITLES = ["Versions", "MPI", "Ranks", "GPUs", "Compiled functions", "Environment"]
PROGRAM = """
import os
import sys

from sciml_par.programs.launcher_environment import launched_rank

rank = launched_rank(os.environ)
{change}
from sciml_par.info.main import main

main(["info", *sys.argv[1:]])
"""
"""The command, on a machine that is a little different."""


def run_changed(ranks: int | None, change: str, folder: Path, *options: str) -> Ended:
    """Run the command after `change`, Python that may use `rank`."""
    program = folder / "program.py"
    program.write_text(PROGRAM.format(change=change))
    return launch(ranks, program, *options, folder=folder, threads=1)


def verdict_of(out: str) -> str:
    return out.splitlines()[-1]


# --- the command as it is


@pytest.mark.parametrize("ranks", (2, 3))
def test_every_context_is_tried_and_right_on_several_ranks(ranks: int, tmp_path: Path) -> None:
    options = ("-m", "sciml_par.info", "--json", "info.json")
    ended = launch(ranks, *options, folder=tmp_path, threads=1).succeeded()
    found = sections_of(ended.out)
    assert [*found][: len(TITLES)] == TITLES  # each once, since one rank prints
    assert f"in all {ranks} ranks on 1 host" in found["Ranks"]
    assert f"{rank_list(range(ranks))}: 1 thread each" in found["Ranks"]
    assert "OMP_NUM_THREADS 1" in found["Environment"]
    tests = found["Self-test"]
    for context in CONTEXTS:
        assert re.search(rf"{re.escape(context)} right [\d.]+ (µs|ms|s)\b", tests), tests
    assert "NCCL, GPU memory not tried: " in tests
    assert verdict_of(ended.out) == "All 3 tests that could be tried went right."
    check_width(ended.out)
    check_documentation(ended.out)
    check_json(json.loads((tmp_path / "info.json").read_text()), ranks=ranks)
    assert [path.name for path in tmp_path.iterdir()] == ["info.json"]


def check_width(out: str) -> None:
    """Nothing but words that cannot be broken is wider than a terminal, or coloured."""
    assert "\x1b" not in out
    assert [line for line in out.splitlines() if len(line) > 80 or line != line.rstrip()] == []


def check_documentation(out: str) -> None:
    """The page in the documentation has every label of this one but hosts and variables."""
    labels = re.findall(r"^  (\S.*?)(?:  |$)", out, re.MULTILINE)
    shown = PAGE.partition("```text\n")[2].partition("```")[0]
    assert len(labels) > 15
    ours = [e for e in labels if e != socket.gethostname() and not ("_" in e and e.isupper())]
    assert [each for each in ours if f"\n  {each} " not in shown] == []
    assert [title for title in TITLES if f"{title}\n" not in shown] == []


def check_json(found: dict, *, ranks: int) -> None:
    assert found["right"] is True
    assert found["transport_obstacle"]
    assert len(found["ranks"]) == ranks
    for rank in found["ranks"]:
        assert rank["versions"]["TensorFlow"].startswith("2.")
        assert rank["foreign_calls"]["version"] and not rank["foreign_calls"]["obstacle"]
        assert rank["threads"] == 1 and rank["launched"] in (None, ranks)
    right = {test["context"] for test in found["self_test"] if test["right"]}
    assert right == set(CONTEXTS)
    assert all(test["seconds"] > 0 for test in found["self_test"] if test["tried"])
    keys = {*found, *found["ranks"][0], *found["self_test"][0], *found["ranks"][0]["nccl"]}
    assert [key for key in keys if f"`{key}`" not in PAGE] == []


def test_one_rank_tests_nothing_says_how_to_and_overwrites_on_request(tmp_path: Path) -> None:
    (tmp_path / "info.json").write_text("old")
    options = ("-m", "sciml_par.info", "--json", "info.json", "--overwrite")
    ended = launch(None, *options, folder=tmp_path).succeeded()
    assert json.loads((tmp_path / "info.json").read_text())["right"] is True
    found = sections_of(ended.out)
    assert "in all 1 rank on 1 host" in found["Ranks"]
    assert "moves nothing" in found["Self-test"]
    assert "mpirun -np 2 sciml-par info" in verdict_of(ended.out)
    assert "right" not in ended.out
    versions = found["Versions"]
    for name in ("sciml_par", "Python", "TensorFlow", "Keras", "NumPy", "mpi4py"):
        assert re.search(rf"\b{name} \d+\.\d+", versions), versions
    assert re.search(r"CuPy (\d+\.|not installed)", versions)
    assert re.search(r"library \S.* standard \d\.\d thread level MULTIPLE", found["MPI"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("info", "--json", "kept.json"), "kept.json is there already and stays as it is"),
        (("info", "--json", "nowhere/info.json"), "cannot write the file nowhere/info.json"),
        (("information",), "invalid choice: 'information'"),
        ((), "the following arguments are required: COMMAND"),
        (("info", "--frobnicate"), "unrecognized arguments: --frobnicate"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_is_said_once_before_anything_is_printed(
    options: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    (tmp_path / "kept.json").write_text("kept")
    command = "from sciml_par.info.main import main; main()"
    ended = launch(2, "-c", command, *options, folder=tmp_path, threads=1)
    assert ended.code == 2
    assert ended.err.count(message) == 1 and ended.err.count("sciml-par: error:") == 1, ended.err
    assert "Traceback" not in ended.err and ended.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["kept.json"]
    assert (tmp_path / "kept.json").read_text() == "kept"


# --- the command where something is broken


def test_a_wrong_collective_is_reported_with_its_rank_and_a_code(tmp_path: Path) -> None:
    change = """
from sciml_par.info import self_test

def wrong(x, *, right=self_test.allreduce, **options):
    return right(x, **options) + (7.0 if rank == 2 else 0.0)

self_test.allreduce = wrong
"""
    ended = run_changed(3, change, tmp_path, "--json", "info.json")
    assert ended.code == 1
    tests = sections_of(ended.out)["Self-test"]
    for context in CONTEXTS:
        # Σ r² = 5 at the first place of the first call
        assert f"{context} WRONG: rank 2 got 12 where 5 is due, at place 0," in tests
    assert verdict_of(ended.out) == "3 of 3 tests went WRONG."
    assert "Traceback" not in ended.err
    found = json.loads((tmp_path / "info.json").read_text())
    assert found["right"] is False
    assert [[*test["wrong"]] for test in found["self_test"] if test["tried"]] == [["2"]] * 3


def test_a_collective_that_fails_everywhere_is_reported_and_the_others_are_tried(
    tmp_path: Path,
) -> None:
    change = """
from sciml_par.info import self_test

def failing(x, *, right=self_test.allreduce, **options):
    import tensorflow as tf
    if tf.executing_eagerly():
        raise OSError("the cable is out")
    return right(x, **options)

self_test.allreduce = failing
"""
    ended = run_changed(2, change, tmp_path)
    assert ended.code == 1
    tests = sections_of(ended.out)["Self-test"]
    assert "eager WRONG: rank 0 failed with OSError: the cable is out" in tests
    assert "(rank 1 went wrong, too)" in tests
    assert tests.count(" right ") == 2
    assert verdict_of(ended.out) == "1 of 3 tests went WRONG."


def test_ranks_that_would_wait_for_ever_end_behind_the_facts(tmp_path: Path) -> None:
    change = """
from sciml_par.info import self_test

def failing(x, *, right=self_test.allreduce, **options):
    if rank == 1:
        raise OSError("the cable is out")
    return right(x, **options)

self_test.allreduce = failing
"""
    ended = run_changed(2, change, tmp_path)
    assert ended.code != 0
    found = [*sections_of(ended.out)]  # mpirun may add lines of its own when a rank ends the job
    assert found[: len(TITLES)] == TITLES
    assert "Self-test" not in found
    assert "did not ask for the same collective" in ended.err


def test_compiled_functions_without_foreign_calls_are_not_tried(tmp_path: Path) -> None:
    change = """
from sciml_par.parallel.execution import xla_ffi

xla_ffi.TESTED_VERSIONS = ((9, 9),)
"""
    ended = run_changed(2, change, tmp_path).succeeded()
    found = sections_of(ended.out)
    reason = "XLA's foreign-call interface has version (0, 2)"
    assert f"do not work with jit_compile=True. {reason}" in found["Compiled functions"]
    assert f"jit_compile not tried: ranks 0 and 1: {reason}" in found["Self-test"]
    assert verdict_of(ended.out) == "All 2 tests that could be tried went right."


def test_a_missing_thread_level_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPI4PY_RC_THREAD_LEVEL", "serialized")
    ended = launch(2, "-m", "sciml_par.info", folder=tmp_path, threads=1)
    told = sections_of(ended.out)["MPI"]
    assert "SERIALIZED on ranks 0 and 1, not MULTIPLE: there is no watchdog" in told


def test_the_environment_is_that_of_the_user_and_differences_are_flagged(tmp_path: Path) -> None:
    change = """
os.environ["NCCL_DEBUG"] = "WARN" if rank == 1 else "INFO"
os.environ["SCIML_PAR_STALL_WARNING"] = ""
del os.environ["OMP_NUM_THREADS"]  # `init` sets it again
"""
    ended = run_changed(3, change, tmp_path).succeeded()
    assert sections_of(ended.out)["Environment"] == (
        "NCCL_DEBUG differs: INFO on ranks 0 and 2; WARN on rank 1 "
        "SCIML_PAR_STALL_WARNING set, and empty"
    )


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="the GPUs are there")
def test_gpus_that_only_the_mask_knows_are_shown_with_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    ended = launch(2, "-m", "sciml_par.info", folder=tmp_path, threads=1)
    assert ended.code == 0
    found = sections_of(ended.out)
    assert "CUDA_VISIBLE_DEVICES 0,1,2" in found["Environment"]  # not the one entry left
    assert "GPU 0: rank 0 GPU 1: rank 1 GPU 2: no rank" in found["GPUs"]
    assert "finds no GPU on ranks 0 and 1" in found["GPUs"]
    assert "which is slow. The obstacle to NCCL: ranks 0 and 1: " in found["GPUs"]


def test_processes_that_the_launcher_could_not_join_print_one_page(tmp_path: Path) -> None:
    # The variables of the launcher whose library is not in use here.
    variables = """
from mpi4py import MPI

launcher = "PMI" if MPI.get_vendor()[0] == "Open MPI" else "OMPI_COMM_WORLD"
os.environ[f"{launcher}_SIZE"], os.environ[f"{launcher}_RANK"] = "4", sys.argv.pop()
"""
    outs = [run_changed(None, variables, tmp_path, number).succeeded().out for number in "01"]
    assert "started 4 processes, and each is alone" in sections_of(outs[0])["Ranks"]
    assert outs[1] == ""


def test_nothing_happens_at_import(tmp_path: Path) -> None:
    heavy = ("tensorflow", "keras", "mpi4py.MPI", "cupy")
    code = f"import sys, sciml_par.info.main; print([m for m in {heavy} if m in sys.modules])"
    assert launch(None, "-c", code, folder=tmp_path).succeeded().out == "[]\n"

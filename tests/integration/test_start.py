"""How `init` brings the ranks to their GPUs and to NCCL, in programs that mpirun starts.

No GPU is needed: a mask is taken at its word where no driver tells better.
"""

from __future__ import annotations

import shutil

import pytest
from launch import Ended, launch

pytestmark = [
    pytest.mark.launches,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun on PATH"),
]

PROGRAM = """
import os, sys
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.update(pair.split("=", 1) for pair in sys.argv[1:])
if "ODD" in os.environ:
    name, value = os.environ["ODD"].split(":")
    if os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK")) == "1":
        os.environ[name] = value
sys.modules["cupy"] = None  # as if it were not installed

import sciml_par.parallel as sp

sp.init()
import tensorflow as tf

collectives = [sp.allreduce, tf.function(sp.allreduce)]
if not tf.config.list_physical_devices("GPU"):
    collectives.append(tf.function(sp.allreduce, jit_compile=True))
totals = {float(f(tf.constant(sp.rank() + 1.0), sp.Sum)) for f in collectives}
os.write(1, f"totals {totals} with GPU «{os.environ['CUDA_VISIBLE_DEVICES']}»\\n".encode())
"""


@pytest.fixture
def run(tmp_path):
    """Run the program on some ranks with additions to their environment.

    `odd`: "NAME:value" of rank 1 alone.
    """
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def ended(ranks, *, odd=None, **environment) -> Ended:
        if odd is not None:
            environment["ODD"] = odd
        additions = [f"{name}={value}" for name, value in environment.items()]
        return launch(ranks, program, *additions, folder=tmp_path, threads=1)

    return ended


def assert_worked(ended, total, masks):
    assert ended.code == 0, ended.err
    expected = [f"totals {{{total}}} with GPU «{mask}»" for mask in masks]
    assert sorted(ended.out.splitlines()) == sorted(expected)


def assert_one_error(ended, *parts):
    """Check that all ranks fail with one report."""
    assert ended.code != 0
    assert "totals" not in ended.out
    assert ended.err.count("Traceback") == ended.err.count("InputError: ") == 1, ended.err
    for part in parts:
        assert ended.err.count(part) == 1, ended.err


def warnings(ended):
    return [line for line in ended.err.splitlines() if line.startswith("sciml_par:")]


def test_without_cupy_tensors_go_by_mpi_and_one_line_says_so(run):
    ended = run(2, CUDA_VISIBLE_DEVICES="0,1")
    assert_worked(ended, 3.0, "01")
    (warning,) = warnings(ended)
    assert "tensors in GPU memory will be carried by MPI" in warning
    assert "ranks 0 and 1: CuPy cannot be imported" in warning
    assert "pip install 'sciml-par[gpu]'" in warning


def test_a_gpu_on_one_rank_only(run):
    ended = run(2, odd="CUDA_VISIBLE_DEVICES:3")
    assert_worked(ended, 3.0, ["", "3"])
    (warning,) = warnings(ended)
    assert "rank 0: no GPU; rank 1: CuPy cannot be imported" in warning


@pytest.mark.all
def test_ranks_share_a_gpu_on_request(run):
    ended = run(3, CUDA_VISIBLE_DEVICES="5", SCIML_PAR_SHARE_GPUS="1")
    assert_worked(ended, 6.0, "555")


@pytest.mark.all_after(2)
@pytest.mark.parametrize(
    ("ranks", "gpus", "transport"),
    [
        (2, "", "auto"),
        (None, "4,5", ""),  # nobody to exchange tensors with
        (2, "0,1", "mpi"),
        (1, "4,5", ""),
        (2, "", "mpi"),
    ],
)
def test_there_is_nothing_to_warn_about(run, ranks, gpus, transport):
    ended = run(ranks, CUDA_VISIBLE_DEVICES=gpus, SCIML_PAR_TRANSPORT=transport)
    masks = gpus.split(",")[: ranks or 1] if gpus else ["", ""]
    assert_worked(ended, 3.0 if ranks == 2 else 1.0, masks)
    assert warnings(ended) == []


UNKNOWN = "SCIML_PAR_TRANSPORT: expected one of auto, mpi, nccl; got 'foo'"


@pytest.mark.all_after(4)
@pytest.mark.parametrize(
    ("ranks", "settings", "parts"),
    [
        (
            3,
            {"CUDA_VISIBLE_DEVICES": "0,1"},
            ("3 ranks run on host", "which shows them 2 GPU(s) (0, 1)"),
        ),
        (
            2,
            {"CUDA_VISIBLE_DEVICES": "0,1", "SCIML_PAR_TRANSPORT": "nccl"},
            ("ranks 0 and 1: CuPy cannot be imported", "sciml-par[gpu]"),
        ),
        (2, {"odd": "SCIML_PAR_TRANSPORT:foo"}, (UNKNOWN,)),
        (
            3,
            {"odd": "SCIML_PAR_TRANSPORT:mpi"},
            ("SCIML_PAR_TRANSPORT differs between the ranks: auto, mpi, auto.",),
        ),
        (2, {"SCIML_PAR_TRANSPORT": "foo"}, (UNKNOWN,)),
        (
            3,
            {"SCIML_PAR_TRANSPORT": "nccl"},
            (
                "SCIML_PAR_TRANSPORT=nccl: tensors cannot be carried by NCCL",
                "ranks 0, 1 and 2: no GPU",
            ),
        ),
    ],
)
def test_what_cannot_be_is_one_error(run, ranks, settings, parts):
    assert_one_error(run(ranks, **settings), *parts)


STARTED_HERE = """
import os, sys
import mpi4py

mpi4py.rc.initialize = False
if sys.argv[1] == "loaded":
    from mpi4py import MPI
import sciml_par.parallel as sp

sp.init()
os.write(1, f"{sp.allreduce(sp.rank() + 1.0, sp.Sum).numpy()}\\n".encode())
"""


@pytest.mark.all_after(1)
@pytest.mark.parametrize("when", ("loaded", "later"))
def test_init_starts_mpi_where_mpi4py_was_asked_not_to(tmp_path, when):
    program = tmp_path / "started_here.py"
    program.write_text(STARTED_HERE)
    ended = launch(2, program, when, folder=tmp_path, threads=1).succeeded()
    assert ended.out.split() == ["3.0"] * 2


STARTER = """
import os, subprocess, sys
import sciml_par

sciml_par.init()
if "child" in sys.argv:
    print("a child is one of", sciml_par.size())
elif sciml_par.rank() == 1:
    child = [sys.executable, __file__, "child"]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI_", "PRTE_"))}
    ended = [subprocess.run(child, **how).returncode for how in ({}, {"env": clean})]
    # A shell hands the launcher's connection on, which the child would share with the rank.
    print(*ended, os.waitstatus_to_exitcode(os.system(" ".join(child))))
"""


def test_a_program_that_a_rank_starts_is_no_rank(tmp_path):
    program = tmp_path / "starter.py"
    program.write_text(STARTER)
    ended = launch(2, program, folder=tmp_path, threads=1)
    assert ended.code == 0, ended.err
    assert sorted(ended.out.splitlines()) == ["1 0 1", "a child is one of 1"]
    errors = [line for line in ended.err.splitlines() if "InputError: " in line]
    assert len(errors) == 2, ended.err
    for error in errors:
        assert "which rank 1 has started" in error and "subprocess.run(command, env=" in error

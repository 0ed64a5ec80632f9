"""The programs that compare numbers of ranks, run as a user runs them, and what launches them."""

from __future__ import annotations

import json
import os
import runpy
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launch import ROOT, launch

from sciml_par.errors import InputError
from sciml_par.programs import scaling_study
from sciml_par.programs.scaling_study import remark_on_cores

PI, RESNET, DIGITS = (
    ROOT / "scripts" / f"{name}.py" for name in ("pi", "resnet34_throughput", "digits")
)


def read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def row_of(table: str, ranks: int) -> list[str]:
    """Return the cells of the row for `ranks` ranks, by their column headings."""
    (row,) = [line.split() for line in table.splitlines() if line.split()[:1] == [str(ranks)]]
    return row


@pytest.mark.launches
def test_pi_is_the_same_on_any_number_of_ranks_and_the_parent_compares_them(tmp_path: Path) -> None:
    samples = 140_001  # two chunks and a rest
    options = ("--samples", str(samples), "--seed", "7", "--output", "kept")
    # More than 10 s for three whole starts of TensorFlow: the program launches its ranks itself.
    ended = launch(None, PI, "--ranks", "2,1", *options, folder=tmp_path).succeeded()
    folder = tmp_path / "kept"
    results = read(folder / "results.json")
    assert [run["ranks"] for run in results["runs"]] == [1, 2]
    expected = 0
    for chunk, size in enumerate((65_536, 65_536, samples - 2 * 65_536)):
        points = np.random.default_rng([7, chunk]).random((2, size))
        expected += int(np.sum(np.sum(points**2, axis=0) < 1.0))
    assert [run["hits"] for run in results["runs"]] == [expected, expected]
    assert results["arguments"]["seed"] == 7 and results["versions"]["mpi4py"]
    assert read(folder / "ranks-2.json") == results["runs"][1]
    check_pi_table(ended.out, results["runs"], 4.0 * expected / samples)
    assert ended.out.count("results in kept\n") == 1


def check_pi_table(out: str, runs: list[dict[str, Any]], pi: float) -> None:
    one, two = runs
    speed_up = one["seconds"] / two["seconds"]
    assert row_of(out, 1)[3:6] == ["1.00", "1.00", f"{pi:.8f}"]
    assert row_of(out, 2)[3:6] == [f"{speed_up:.2f}", f"{speed_up / 2:.2f}", f"{pi:.8f}"]
    assert abs(pi - np.pi) < 5 * float(row_of(out, 2)[7])
    crowded = [run for run in runs if run["ranks"] > run["cores"]]
    assert out.count("More ranks than cores") == (1 if crowded else 0)


def test_resnet34_is_the_network_of_the_paper() -> None:
    model = runpy.run_path(str(RESNET))["resnet34"](32)
    # As torchvision's network has it, which follows the same paper.
    assert sum(np.prod(variable.shape) for variable in model.trainable_variables) == 21_797_672


SMALL_RESNET = """
import runpy, sys
del sys.argv[0]  # as if it had been started itself
script = runpy.run_path(sys.argv[0])
script["resnet34"].__globals__["STAGES"] = ((64, 1), (8, 1))
script["programs"].run(script["main"])
"""


@pytest.mark.long
@pytest.mark.launches
def test_resnet34_measures_blocks_of_images_on_two_ranks(tmp_path: Path) -> None:
    """With fewer and smaller layers: to trace all of them takes a rank half a minute."""
    (tmp_path / "small.py").write_text(SMALL_RESNET)
    sizes = ("--image-size", "32", "--batch", "1", "--batches", "1", "--blocks", "2")
    ended = launch(2, "small.py", RESNET, *sizes, "--warm-up", "1", folder=tmp_path).succeeded()
    (run,) = read(tmp_path / "runs" / "resnet34_throughput" / "results.json")["runs"]
    assert f"{run['parameters']:,} parameters" in ended.out
    rates = run["images_per_second"]
    assert run["ranks"] == 2 and len(rates) == 2 and min(rates) > 0
    mean, deviation = np.mean(rates), np.std(rates, ddof=1)
    assert row_of(ended.out, 2)[1:4] == [f"{mean:.2f}", "±", f"{deviation:.2f}"]
    assert row_of(ended.out, 2)[5] == "1.00"


@pytest.mark.long
@pytest.mark.launches
def test_two_ranks_learn_to_read_digits(tmp_path: Path) -> None:
    ended = launch(2, DIGITS, "--epochs", "8", folder=tmp_path).succeeded()
    folder = tmp_path / "runs" / "digits"
    assert {path.name for path in folder.iterdir()} == {
        "results.json",
        "accuracy.png",
        "accuracy.pdf",
    }
    (run,) = read(folder / "results.json")["runs"]
    assert run["ranks"] == 2
    assert run["test_accuracy"] > 0.95
    # The mean of the ranks' accuracies on equal parts of the test is that of the whole.
    assert run["accuracies"][-1] == pytest.approx(run["test_accuracy"], abs=1e-6)
    assert len(run["accuracies"]) == len(run["training_accuracies"]) == 8
    assert run["training_accuracies"][0] < run["training_accuracies"][-1]
    assert row_of(ended.out, 2)[1:3] == ["64", "0.04"]
    assert f"{100 * run['test_accuracy']:.2f} %" in ended.out


def test_a_file_of_mnist_is_read_and_another_is_refused(tmp_path: Path) -> None:
    load = runpy.run_path(str(DIGITS))["load"]
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (5, 28, 28), np.uint8)
    images[0, 0, 0] = 255
    digits = np.arange(5, dtype=np.uint8)
    file = tmp_path / "mnist.npz"
    np.savez(file, x_train=images, y_train=digits, x_test=images[:2], y_test=digits[:2])
    (x, y), (x_test, y_test) = load(file)
    assert x.shape == (5, 28, 28, 1) and x_test.shape == (2, 28, 28, 1)
    np.testing.assert_allclose(x[..., 0], images / 255.0, rtol=1e-6)
    assert y.tolist() == [0, 1, 2, 3, 4] and y_test.tolist() == [0, 1]
    np.savez(file, x_train=images)
    for bad in (file, tmp_path / "missing.npz", Path(__file__)):
        with pytest.raises(InputError, match="--mnist: expected"):
            load(bad)


def test_the_digits_are_dealt_out_without_overlap() -> None:
    (x, y), (x_test, y_test) = runpy.run_path(str(DIGITS))["load"](None)
    assert x.shape == (1437, 8, 8, 1) and x_test.shape == (360, 8, 8, 1)
    assert x.min() == 0.0 and x.max() == 1.0
    assert set(y) == set(y_test) == set(range(10))


@pytest.mark.launches
def test_ranks_are_launched_once_not_from_ranks(tmp_path: Path) -> None:
    ended = launch(2, PI, "--ranks", "2", folder=tmp_path)
    assert ended.code == 2
    assert ended.err.count("--ranks starts mpirun") == 1
    assert list(tmp_path.iterdir()) == []


LAUNCH = """
import sys
from sciml_par.programs.scaling_study import launch
launch(2, [sys.argv[1]], threads=1, seconds=float(sys.argv[2]), program="study")
print("not reached")
"""


@pytest.mark.launches
@pytest.mark.parametrize(
    ("program", "seconds", "code", "message"),
    [
        ("import sys; print('its error', file=sys.stderr); sys.exit(3)", 60.0, 3, "exit code 3"),
        ("import time; time.sleep(600)", 1.0, 124, "was ended after 1 s"),
    ],
    ids=["fails", "hangs"],
)
def test_a_launched_program_that_fails_ends_the_study_with_its_exit_code(
    program: str, seconds: float, code: int, message: str, tmp_path: Path
) -> None:
    (tmp_path / "study.py").write_text(LAUNCH)
    (tmp_path / "child.py").write_text(program)
    ended = launch(None, "study.py", "child.py", str(seconds), folder=tmp_path)
    assert ended.code == code
    assert (
        f"study: error: the run on 2 ranks {'failed, ' if code == 3 else ''}{message}" in ended.err
    )
    assert "Traceback" not in ended.err
    assert ("its error" in ended.err) is (code == 3)
    # The launcher itself may say more.
    assert ended.out.startswith("study: 2 ranks …\n") and "not reached" not in ended.out


@pytest.mark.launches
def test_ranks_end_with_the_program_that_launched_them(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(
        "import os, pathlib, time\n"
        "pathlib.Path(str(os.getpid())).with_suffix('.pid').touch()\n"
        "time.sleep(600)\n"
    )
    (tmp_path / "study.py").write_text(
        "import os, pathlib, signal, threading, time\n"
        "def end():\n"
        "    while len(list(pathlib.Path().glob('*.pid'))) < 2:\n"
        "        time.sleep(0.01)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "threading.Thread(target=end, daemon=True).start()\n" + LAUNCH
    )
    ended = launch(None, "study.py", "child.py", "600", folder=tmp_path)
    assert ended.code == 128 + signal.SIGTERM
    ranks = [int(file.stem) for file in tmp_path.glob("*.pid")]
    assert len(ranks) == 2
    for number in ranks:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)


def test_without_mpirun_the_message_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="none on PATH. Install one"):
        scaling_study.launch(2, ["program.py"], threads=1, seconds=1.0, program="study")


def test_ranks_share_cores_only_where_there_are_too_few() -> None:
    def record(ranks: int, threads: int = 1) -> dict[str, int]:
        return {"ranks": ranks, "threads": threads, "cores": 2}

    assert remark_on_cores([record(1), record(2)]) == ""
    assert remark_on_cores([record(4)]).startswith("More ranks than cores: 4 ranks shared 2")
    several = remark_on_cores([record(2), record(4), record(8), record(16)])
    assert "4, 8 and 16 ranks" in several
    assert "1 and 2 ranks" not in several
    assert remark_on_cores([record(2, threads=2)])

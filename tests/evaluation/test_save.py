"""Files: PNG and PDF, whole or not at all, and no trace in Matplotlib's global state."""

import subprocess
import sys
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread
from seen import check_texts

from sciml_par.errors import InputError, OutputError
from sciml_par.evaluation import LossCurve, plot_errors, plot_losses, plot_predictions, save_figure


@pytest.fixture
def figure():
    return plot_losses([LossCurve("rank 0", np.arange(9), np.logspace(0, -3, 9))])


def test_a_png_of_200_dots_an_inch_and_a_pdf_of_one_page(figure, tmp_path):
    png, pdf = save_figure(figure, tmp_path / "new" / "folder", "loss")
    assert (png.name, pdf.name) == ("loss.png", "loss.pdf")
    assert sorted(png.parent.iterdir()) == [pdf, png]
    height, width = imread(png).shape[:2]
    assert width == 700 and height == pytest.approx(200 * figure.get_figheight(), abs=1)
    data = pdf.read_bytes()
    assert data.startswith(b"%PDF") and b"/Count 1 " in data
    # TrueType programs (Type 42); Type 3 fonts, the default, are refused by many journals.
    assert b"/FontFile2" in data and b"/Type3" not in data


def losses(count, **others):
    step = np.arange(0, 1000, 10)
    return [LossCurve(f"rank {i}", step, np.exp(-step / 100.0 - i), **others) for i in range(count)]


@pytest.mark.parametrize("ranks", [1, 20])
def test_no_text_is_cut_off_or_hidden(data_parallel, wild_ensemble, seeds, poisson, plane, ranks):
    figures = [
        *(plot_predictions(make(ranks)) for make in (data_parallel, wild_ensemble, seeds, poisson)),
        plot_predictions(plane(ranks, 2)),
        plot_predictions([replace(c, u_exact=c.u + i) for i, c in enumerate(plane(ranks, 2))]),
        *(plot_errors(make(ranks), title="errors") for make in (data_parallel, seeds, plane)),
        plot_losses(losses(ranks, best_step=900), title="losses"),
        plot_losses(losses(1, terms={f"term {i}": np.ones(100) for i in range(ranks)})),
    ]
    for figure in figures:
        check_texts(figure)


def test_equal_figures_give_equal_files(tmp_path):
    curve = LossCurve("rank 0", [0, 1], [1.0, 0.1])
    first, second = (save_figure(plot_losses([curve]), tmp_path, name) for name in "ab")
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]


def test_a_later_figure_replaces_an_earlier_one(figure, tmp_path):
    save_figure(figure, tmp_path, "loss")
    (tmp_path / "loss.png").write_bytes(b"old")
    png, _ = save_figure(figure, tmp_path, "loss")
    assert png.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a"])
def test_names_that_are_no_file_name_are_refused(figure, tmp_path, name):
    with pytest.raises(InputError, match="file name without folder"):
        save_figure(figure, tmp_path, name)


def test_a_folder_that_cannot_be_made_is_an_output_error(figure, tmp_path):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(OutputError, match="cannot write loss.png"):
        save_figure(figure, tmp_path / "file", "loss")
    assert (tmp_path / "file").read_text() == "kept"


def test_global_settings_stay_as_they_were(poisson, plane, tmp_path):
    before = dict(matplotlib.rcParams)
    for curves in (poisson(2), plane(1)):
        plot_predictions(curves)
    save_figure(plot_errors(poisson(2)), tmp_path, "b")
    assert dict(matplotlib.rcParams) == before


PROGRAM = """
import sys
import sciml_par.evaluation as evaluation
assert "matplotlib" not in sys.modules, "importing the package imports matplotlib"
evaluation.relative_l2_error([1.0], [2.0])
assert "matplotlib" not in sys.modules, "a norm imports matplotlib"
curve = evaluation.Prediction("a", [0.0, 1.0], [0.0, 1.0], [0.0, 1.1])
evaluation.save_figure(evaluation.plot_predictions([curve]), sys.argv[1], "a")
assert "matplotlib.pyplot" not in sys.modules, "drawing imports pyplot"
assert "tensorflow" not in sys.modules, "drawing imports tensorflow"
"""


def test_nothing_heavy_is_imported_and_no_window_library(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr

"""The figure of accuracies: what it shows, and what it refuses."""

import numpy as np
import pytest

from sciml_par.errors import InputError
from sciml_par.evaluation import AccuracyCurve, plot_accuracies, save_figure


def test_a_line_a_run_over_epochs_from_1_and_a_thin_one_for_the_training_data(tmp_path):
    curves = [
        AccuracyCurve("1 rank", [0.5, 0.9, 0.99], [0.4, 0.8, 1.0]),
        AccuracyCurve("2 ranks", [0.3, 0.8]),
    ]
    figure = plot_accuracies(curves, title="digits")
    (axes,) = figure.axes
    test, training, short = axes.lines
    np.testing.assert_array_equal(test.get_xdata(), [1, 2, 3])
    np.testing.assert_array_equal(test.get_ydata(), [0.5, 0.9, 0.99])
    np.testing.assert_array_equal(training.get_ydata(), [0.4, 0.8, 1.0])
    np.testing.assert_array_equal(short.get_xdata(), [1, 2])
    assert training.get_color() == test.get_color() != short.get_color()
    assert training.get_linewidth() < test.get_linewidth()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "1 rank",
        "2 ranks",
        "training data",
    ]
    low, high = axes.get_ylim()
    assert low < 0.3 and high > 1.0
    assert axes.get_xlabel() == "epoch" and axes.get_ylabel() == "accuracy"
    png, _ = save_figure(figure, tmp_path, "accuracy")
    assert png.stat().st_size > 1000


def test_one_epoch_is_seen_and_a_perfect_accuracy_has_room():
    figure = plot_accuracies([AccuracyCurve("1 rank", [1.0])])
    (line,) = figure.axes[0].lines
    assert line.get_marker() == "o"
    low, high = figure.axes[0].get_ylim()
    assert low < 1.0 < high


@pytest.mark.parametrize(
    ("accuracy", "training", "message"),
    [
        ([], None, "shares from 0 to 1"),
        ([0.5, 1.5], None, "shares from 0 to 1"),
        ([0.5, float("nan")], None, "shares from 0 to 1"),
        ([[0.5]], None, "shares from 0 to 1"),
        ([0.5, 0.6], [0.5], "the same epochs"),
        ([0.5], [50.0], "training_accuracy: expected shares"),
    ],
)
def test_what_is_no_accuracy_is_refused(accuracy, training, message):
    with pytest.raises(InputError, match=message):
        AccuracyCurve("run", accuracy, training)


@pytest.mark.parametrize("curves", [[], [[0.5, 0.6]]])
def test_a_figure_needs_curves(curves):
    with pytest.raises(InputError, match="AccuracyCurve"):
        plot_accuracies(curves)

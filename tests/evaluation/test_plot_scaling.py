"""The figures of parallel scaling."""

import numpy as np
import pytest
from seen import line, names

from sciml_par.errors import InputError
from sciml_par.evaluation import ScalingCurve, plot_scaling, save_figure

RANKS, FAR = np.array([1, 2, 4]), 2 ** np.arange(10)


def test_kinds_differ_in_marks_and_one_label_has_one_colour():
    curves = [
        ScalingCurve("64 × 3", RANKS, efficiency=[1.0, 0.95, 0.9]),
        ScalingCurve("64 × 3", FAR, efficiency=1.0 / (1.0 + 0.05 * np.log2(FAR)), kind="modelled"),
        ScalingCurve("ResNet", [1, 512], efficiency=[1.0, 0.9], kind="published"),
    ]
    figure = plot_scaling(curves, title="two cores")
    (axes,) = figure.axes
    measured, modelled = line(axes, "_64 × 3, measured"), line(axes, "_64 × 3, modelled")
    published = line(axes, "_ResNet, published")
    np.testing.assert_array_equal(measured.get_xdata(), RANKS)
    np.testing.assert_array_equal(measured.get_ydata(), [1.0, 0.95, 0.9])
    np.testing.assert_array_equal(modelled.get_xdata(), FAR)
    assert measured.get_color() == modelled.get_color() != published.get_color()
    assert len({one.get_marker() for one in (measured, modelled, published)}) == 3
    assert len({str(one._dash_pattern) for one in (measured, modelled, published)}) == 3
    assert names(figure) == ["64 × 3", "ResNet", "measured", "modelled", "published", "ideal"]
    assert axes.get_xscale() == "log" and axes.get_xlim()[1] > 512
    assert axes.get_ylim()[0] == 0.0 and axes.get_ylim()[1] > 1.0
    figure.canvas.draw()
    assert {"1", "4", "256"} <= {label.get_text() for label in axes.get_xticklabels()}
    assert figure.get_suptitle() == "two cores" and figure.get_figwidth() == 3.5


def test_weak_and_strong_scaling_and_times_take_panels_of_their_own(tmp_path):
    curves = [
        ScalingCurve("a", RANKS, time=[0.1, 0.12, 0.13], scaling="weak"),
        ScalingCurve("a", RANKS, time=[0.1, 0.06, 0.04], scaling="strong"),
        ScalingCurve("a", RANKS, efficiency=[1.0, 0.8, 0.7], scaling="weak"),
        ScalingCurve("a", FAR, time=0.1 / FAR + 0.01, scaling="strong", kind="modelled"),
    ]
    figure = plot_scaling(curves)
    assert [(axes.get_title(), axes.get_ylabel()) for axes in figure.axes] == [
        ("weak scaling", "parallel efficiency"),
        ("strong scaling", "seconds a step"),
        ("weak scaling", "seconds a step"),
    ]
    assert len({axes.get_xlim() for axes in figure.axes}) == 1
    _, strong, weak = figure.axes
    np.testing.assert_allclose(line(strong, "ideal").get_ydata(), [0.1, 0.1 / 512])
    np.testing.assert_allclose(line(weak, "ideal").get_ydata(), 0.1)
    assert strong.get_yscale() == "log"
    png, _ = save_figure(figure, tmp_path, "scaling")
    assert png.stat().st_size > 1000


def test_an_efficiency_above_one_is_seen():
    (axes,) = plot_scaling([ScalingCurve("a", [1, 2], efficiency=[1.0, 1.3])]).axes
    assert axes.get_ylim()[1] > 1.3


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "either efficiency or time"),
        ({"efficiency": [1.0, 0.9], "time": [1.0, 0.9]}, "either efficiency or time"),
        ({"efficiency": [1.0]}, "expected 2 numbers"),
        ({"time": [1.0, 0.0]}, "positive"),
        ({"time": [1.0, float("nan")]}, "positive"),
        ({"time": [1.0, 1.0], "kind": "guessed"}, "'measured', 'modelled' or 'published'"),
        ({"time": [1.0, 1.0], "scaling": "both"}, "'weak', 'strong' or None"),
        ({"time": [1.0, 1.0], "ranks": [2, 1]}, "increasing"),
        ({"time": [1.0, 1.0], "ranks": [0, 1]}, "increasing"),
    ],
)
def test_what_is_no_scaling_curve_is_refused(fields, message):
    with pytest.raises(InputError, match=message):
        ScalingCurve("a", **{"ranks": [1, 2], **fields})


@pytest.mark.parametrize("curves", [[], [1.0]])
def test_a_figure_needs_curves(curves):
    with pytest.raises(InputError, match="plot_scaling: expected one ScalingCurve"):
        plot_scaling(curves)

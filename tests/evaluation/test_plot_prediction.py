"""The figure of predictions: what is drawn, where, and that extrapolation does not ruin it."""

import numpy as np
import pytest
from matplotlib.collections import FillBetweenPolyCollection, LineCollection
from matplotlib.patches import Rectangle

from sciml_par.errors import InputError
from sciml_par.evaluation import Prediction, Shard, plot_predictions

X = np.linspace(-1.0, 1.0, 101)


def names(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def line(axes, label):
    return next(one for one in axes.get_lines() if one.get_label() == label)


def shades(axes):
    boxes = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    return sorted((box.get_x(), box.get_x() + box.get_width()) for box in boxes)


def ticks(axes):
    found = [one for one in axes.collections if isinstance(one, LineCollection)]
    return [np.array([path[0, 0] for path in one.get_segments()]) for one in found]


@pytest.mark.parametrize("ranks", [2, 4])
def test_one_network_of_several_shards(data_parallel, ranks):
    curves = data_parallel(ranks)
    figure = plot_predictions(curves, title="two sines")
    (axes,) = figure.axes
    assert figure.get_suptitle() == "two sines"
    parts = [f"rank {i}" for i in range(ranks)]
    assert names(figure) == ["exact solution", "prediction", *parts, "training points"]
    np.testing.assert_array_equal(line(axes, "prediction").get_ydata(), curves[0].u[:, 0])
    np.testing.assert_array_equal(
        line(axes, "_exact solution").get_ydata(), curves[0].u_exact[:, 0]
    )
    assert np.allclose(shades(axes), [(s.corners[0][0], s.corners[1][0]) for s in curves[0].shards])
    for drawn, shard in zip(ticks(axes), curves[0].shards, strict=True):
        np.testing.assert_allclose(drawn, shard.training_points[:, 0])
    assert axes.get_xlabel() == "$x$" and axes.get_ylabel() == "$u(x)$"
    assert figure.get_figwidth() == 3.5


def test_shards_differ_in_colour_and_ticks_match_the_shading(data_parallel):
    (axes,) = plot_predictions(data_parallel(4)).axes
    shading = [patch.get_facecolor()[:3] for patch in axes.patches]
    marks = [tuple(one.get_color()[0][:3]) for one in axes.collections]
    assert len(set(shading)) == 4 and shading == marks


def test_sub_domains_without_points_keep_their_colours():
    halves = [Shard("a", sub_domain=(-1.0, 0.0)), Shard("b", sub_domain=(0.0, 1.0))]
    curves = [Prediction(half.label, X, X, X, (half,)) for half in halves]
    (axes,) = plot_predictions(curves).axes
    assert len({patch.get_facecolor() for patch in axes.patches}) == 2


def test_ticks_of_overlapping_members_take_rows_of_their_own():
    points = [np.array([-0.5, 0.5]), np.array([-0.4, 0.4]), np.array([0.6, 0.9])]
    curves = [Prediction(f"a{i}", X, X, X, (Shard("s", p),)) for i, p in enumerate(points)]
    (axes,) = plot_predictions(curves).axes
    heights = [one.get_segments()[0][0, 1] for one in axes.collections]
    assert heights[0] == heights[2] < heights[1]


def test_ticks_stay_below_the_data():
    shard = Shard("s", np.array([0.0]))
    (axes,) = plot_predictions([Prediction("a", X, X, X, (shard,))]).axes
    (marks,) = [one for one in axes.collections if isinstance(one, LineCollection)]
    top = max(path[:, 1].max() for path in marks.get_segments())
    low, high = axes.get_ylim()
    assert low + top * (high - low) < -1.0


def test_extrapolation_does_not_stretch_the_axis(wild_ensemble):
    curves = wild_ensemble(2)
    assert max(np.abs(curve.u).max() for curve in curves) > 9e5
    (axes,) = plot_predictions(curves).axes
    low, high = axes.get_ylim()
    exact = curves[0].u_exact
    span = exact.max() - exact.min()
    assert exact.min() - 0.3 * span < low < exact.min()
    assert exact.max() < high < exact.max() + 0.2 * span


def test_a_bad_prediction_inside_its_sub_domain_is_seen():
    shard = Shard("a", sub_domain=(-1.0, 1.0))
    (axes,) = plot_predictions([Prediction("a", X, 1.5 * X, X, (shard,))]).axes
    assert axes.get_ylim()[0] < -1.5 and axes.get_ylim()[1] > 1.5


def test_a_prediction_off_the_scale_is_named():
    figure = plot_predictions([Prediction("a", X, X + 1e9, X)])
    assert "a (off scale)" in names(figure)
    assert figure.axes[0].get_ylim()[1] < 4.0


def test_values_that_are_not_finite_are_named_and_limits_stay_finite():
    figure = plot_predictions([Prediction("a", X, np.where(X > 0.0, np.nan, X), X)])
    assert "a (not finite)" in names(figure)
    assert np.allclose(figure.axes[0].get_ylim(), (-1.16, 1.16))


@pytest.mark.parametrize(("ranks", "panels"), [(1, 1), (2, 2), (5, 5), (8, 8)])
def test_different_equations_take_a_panel_each(poisson, ranks, panels):
    figure = plot_predictions(poisson(ranks))
    assert len(figure.axes) == panels
    assert figure.get_figwidth() == (3.5 if ranks == 1 else 7.2)
    if ranks > 1:
        assert [axes.get_title() for axes in figure.axes] == [f"k = {k + 1}" for k in range(ranks)]
        assert names(figure) == ["exact solution", "prediction", "training points"]
        assert len({axes.get_ylim() for axes in figure.axes}) == 1
    assert max(axes.get_subplotspec().get_geometry()[1] for axes in figure.axes) <= 4


def test_panels_of_very_different_range_keep_their_own():
    curves = [Prediction(f"a{s}", X, s * X, s * X) for s in (1.0, 100.0)]
    small, large = plot_predictions(curves).axes
    assert small.get_ylim()[1] < 2.0 and large.get_ylim()[1] > 100.0


@pytest.mark.parametrize(
    ("ranks", "mean"), [(1, False), (2, False), (3, False), (4, True), (8, True)]
)
def test_one_equation_shares_a_panel_with_the_mean_from_four_members(seeds, ranks, mean):
    curves = seeds(ranks)
    figure = plot_predictions(curves)
    (axes,) = figure.axes
    assert ("mean" in names(figure)) is mean
    looks = {
        (
            line(axes, c.label).get_color(),
            line(axes, c.label)._dash_pattern[1] and tuple(line(axes, c.label)._dash_pattern[1]),
        )
        for c in curves
    }
    assert len(looks) == ranks
    if mean:
        values = np.stack([curve.u[:, 0] for curve in curves])
        np.testing.assert_allclose(line(axes, "mean").get_ydata(), values.mean(axis=0))
        band = next(c for c in axes.collections if isinstance(c, FillBetweenPolyCollection))
        corners = band.get_paths()[0].vertices
        at_start = np.unique(corners[corners[:, 0] == -1.0, 1])
        spread = values[:, 0].std(ddof=1)
        np.testing.assert_allclose(
            [at_start.min(), at_start.max()], values[:, 0].mean() + np.array([-spread, spread])
        )


def test_members_of_different_regions_have_no_mean(wild_ensemble):
    figure = plot_predictions(wild_ensemble(4))
    assert len(figure.axes) == 1 and "mean" not in names(figure)


def test_panels_can_be_chosen(poisson, seeds):
    assert len(plot_predictions(poisson(3), panels="shared").axes) == 1
    assert len(plot_predictions(seeds(3), panels="separate").axes) == 3
    with pytest.raises(InputError, match="'auto', 'shared' or 'separate'"):
        plot_predictions(seeds(3), panels="both")


def test_members_with_other_points_of_one_solution_share_a_panel():
    z = np.linspace(-1.0, 0.9, 57)
    curves = [Prediction("a", X, X, np.sin(X)), Prediction("b", z, z, np.sin(z))]
    assert len(plot_predictions(curves).axes) == 1
    curves[1] = Prediction("b", z, z, np.cos(z))
    assert len(plot_predictions(curves).axes) == 2


def test_a_missing_exact_solution_is_left_out():
    figure = plot_predictions([Prediction("a", X, X)])
    assert names(figure) == ["a"] and len(figure.axes[0].get_lines()) == 1


def test_points_are_drawn_in_order_of_x():
    order = np.random.default_rng(0).permutation(X.size)
    (axes,) = plot_predictions([Prediction("a", X[order], X[order] ** 2)]).axes
    np.testing.assert_array_equal(line(axes, "a").get_xdata(), X)
    np.testing.assert_array_equal(line(axes, "a").get_ydata(), X**2)


def test_a_row_a_component():
    u = np.stack([X, 10.0 * X], axis=1)
    figure = plot_predictions([Prediction("a", X, u, u), Prediction("b", X, u, u)])
    assert [axes.get_ylabel() for axes in figure.axes] == ["$u_{1}(x)$", "$u_{2}(x)$"]
    assert figure.axes[1].get_ylim()[1] > 10.0
    assert len(plot_predictions([Prediction("a", X, u, u)] * 2, panels="separate").axes) == 4


def test_too_many_panels_are_counted():
    curves = [Prediction(f"k = {k}", X, X**k, X**k) for k in range(1, 20)]
    figure = plot_predictions(curves, title="powers")
    assert len(figure.axes) == 16 and figure.get_suptitle() == "powers (16 of 19 shown)"


def test_a_long_legend_is_cut_and_counted(seeds):
    shown = names(plot_predictions(seeds(40)))
    assert len(shown) == 25 and shown[-1] == "and 19 more" and "mean" in shown


@pytest.mark.parametrize("curves", [[], (), "abc", 3, [1], Prediction("a", X, X)])
def test_what_is_no_list_of_predictions_is_refused(curves):
    with pytest.raises(InputError, match="plot_predictions: expected"):
        plot_predictions(curves)


def test_dimensions_that_cannot_be_drawn_are_refused():
    with pytest.raises(InputError, match="d = 3.*Hold all"):
        plot_predictions([Prediction("a", np.ones((4, 3)), np.ones(4))])
    mixed = [Prediction("a", X, X), Prediction("b", np.ones((4, 2)), np.ones(4))]
    with pytest.raises(InputError, match="one \\(d, m\\)"):
        plot_predictions(mixed)

"""The figure of predictions: what is drawn, where, and that extrapolation does not ruin it."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import FillBetweenPolyCollection, LineCollection
from matplotlib.patches import Rectangle

from sciml_par.errors import InputError
from sciml_par.evaluation import Prediction, Shard, plot_errors, plot_predictions

X = np.linspace(-1.0, 1.0, 101)


def names(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def line(axes, label):
    return next(one for one in axes.get_lines() if one.get_label() == label)


def band(axes):
    return next(one for one in axes.collections if isinstance(one, FillBetweenPolyCollection))


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


@pytest.mark.parametrize(("second", "rows"), [((-0.4, 0.4), 3), ((0.5, 0.6), 1)])
def test_ticks_of_members_share_a_row_if_they_do_not_overlap(second, rows):
    points = [(-0.5, 0.5), second, (0.6, 0.9)]
    curves = [
        Prediction(f"a{i}", X, X, X, (Shard("s", np.array(p)),)) for i, p in enumerate(points)
    ]
    (axes,) = plot_predictions(curves).axes
    assert len({one.get_segments()[0][0, 1] for one in axes.collections}) == rows


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


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_few_members_of_one_equation_share_a_panel(seeds, ranks):
    curves = seeds(ranks)
    (axes,) = plot_predictions(curves).axes
    looks = {
        (line(axes, c.label).get_color(), str(line(axes, c.label)._dash_pattern)) for c in curves
    }
    assert len(looks) == ranks


@pytest.mark.parametrize(("ranks", "shown"), [(4, 4), (8, 8), (16, 8), (64, 8)])
def test_from_four_members_on_there_are_mean_and_band_above_a_few_members(seeds, ranks, shown):
    curves = [replace(c, u=c.u_exact + 0.4 * i / ranks) for i, c in enumerate(seeds(ranks))]
    figure = plot_predictions(curves)
    upper, lower = figure.axes
    members = f"{ranks} members" if shown == ranks else f"{shown} of {ranks} members"
    assert names(figure) == [
        "mean",
        "± 2 deviations ($2\\sigma$)",
        "|mean − exact|",
        "exact solution",
        members,
    ]
    values = np.stack([curve.u[:, 0] for curve in curves])
    mean, width = values.mean(axis=0), 2.0 * values.std(axis=0, ddof=1)
    np.testing.assert_allclose(line(upper, "mean").get_ydata(), mean)
    corners = band(upper).get_paths()[0].vertices
    at_start = corners[corners[:, 0] == -1.0, 1]
    np.testing.assert_allclose(
        [at_start.min(), at_start.max()], [mean[0] - width[0], mean[0] + width[0]]
    )
    drawn = [one for one in upper.get_lines() if one.get_label().startswith("rank")]
    assert len(drawn) == shown
    assert all(one.get_zorder() < band(upper).get_zorder() for one in drawn)
    np.testing.assert_allclose(line(lower, "two deviations").get_ydata(), width)
    error = np.abs(mean - curves[0].exact[:, 0])
    np.testing.assert_allclose(line(lower, "|mean − exact|").get_ydata(), error)
    assert lower.get_yscale() == "log" and lower.get_xlim() == upper.get_xlim()


def test_the_share_of_points_at_which_the_deviation_covers_the_error_is_said():
    """Two thirds of the points have an error of 0, the others one of 1; the deviation is small."""
    offsets = (-0.1, -0.05, 0.05, 0.1)
    x = np.arange(30.0)
    curves = [Prediction(f"a{o}", x, x + o + np.where(x < 20, 0.0, 1.0), x) for o in offsets]
    lower = plot_predictions(curves).axes[1]
    assert lower.get_title(loc="right") == "error $\\leq 2\\sigma$ at 67%"
    without = [Prediction(curve.label, x, curve.u) for curve in curves]
    figure = plot_predictions(without)
    assert figure.axes[1].get_title(loc="right") == ""
    assert not any("exact" in name for name in names(figure))


def test_members_that_are_not_sound_are_named_and_not_in_the_mean(seeds):
    curves = seeds(5)
    bad = Prediction("bad", X, X + 2.0, curves[0].u_exact, sound=False)
    lost = Prediction("lost", X, np.full_like(X, np.nan), curves[0].u_exact, sound=False)
    figure = plot_predictions([*curves, bad, lost])
    assert names(figure)[-3:] == ["5 members", "bad", "lost (not finite)"]
    mean = np.mean([curve.u[:, 0] for curve in curves], axis=0)
    np.testing.assert_allclose(line(figure.axes[0], "mean").get_ydata(), mean)


def test_components_of_an_ensemble_take_two_rows_each():
    u = np.stack([X, np.exp(X), X**2], axis=1)
    curves = [
        Prediction(f"a{i}", X, u + 0.1 * i, u, coordinates=("t",), fields=("u", "v", "energy"))
        for i in range(4)
    ]
    figure = plot_predictions(curves)
    assert [axes.get_ylabel() for axes in figure.axes[::2]] == [
        "$u(t)$",
        "$v(t)$",
        "$\\text{energy}(t)$",
    ]
    assert [axes.get_xlabel() for axes in figure.axes] == [""] * 5 + ["$t$"]


def test_points_outside_the_domain_are_gaps():
    inside = np.abs(X) > 0.5
    u = np.where(inside, X, 1e9)
    curve = Prediction("a", X, u, X + 1.0, inside=inside)
    figure = plot_predictions([curve])
    drawn = line(figure.axes[0], "a").get_ydata()
    np.testing.assert_array_equal(drawn[inside], X[inside])
    assert np.isnan(drawn[~inside]).all() and names(figure) == ["exact solution", "a"]
    assert curve.relative_l2_error == pytest.approx(
        np.sqrt(inside.sum()) / np.linalg.norm((X + 1.0)[inside])
    )


@pytest.mark.parametrize("inside", [np.ones(3, bool), np.zeros(101, bool), np.ones(101)])
def test_a_mask_that_is_none_is_refused(inside):
    with pytest.raises(InputError, match="inside: expected an array of 101 bool"):
        Prediction("a", X, X, inside=inside)


@pytest.mark.parametrize("names", [("x", "y"), "x", ("a$b",), ("$",), ("_x",), (1,)])
def test_names_that_are_none_are_refused(names):
    with pytest.raises(InputError, match="coordinates: expected"):
        Prediction("a", X, X, coordinates=names)


@pytest.mark.parametrize("name", ["κ", "T_wall", "$\\theta$", "a{b}\\c%#&^~_", "{", "mass flow"])
def test_every_name_can_be_drawn(name):
    figure = plot_predictions([Prediction("a", X, X, coordinates=(name,), fields=(name,))])
    figure.canvas.draw()
    assert figure.axes[0].get_xlabel() != "$x$"


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


def test_a_long_legend_is_cut_and_counted(wild_ensemble):
    shown = names(plot_predictions(wild_ensemble(40)))
    assert len(shown) == 25 and shown[-1] == "and 19 more"


LONG = "rank 3, member 2: advection–diffusion–reaction with a long name, κ = 0.01"


def test_a_single_dollar_in_a_label_is_no_mathematics():
    figure = plot_predictions([Prediction("cost in $, " + 20 * "long ", X, X)], title="in $")
    figure.canvas.draw()
    assert names(figure)[0].startswith("cost in $, long") and names(figure)[0].endswith("…")


def test_a_long_title_is_not_broken_within_mathematics():
    title = 4 * "a long title - with $u'' - f = 0$ and - $\\frac{1}{2}$, "
    figure = plot_predictions([Prediction("a", X, X)], title=title)
    figure.canvas.draw()
    box = figure._suptitle.get_window_extent(figure.canvas.get_renderer())
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
    lines = figure.get_suptitle().split("\n")
    assert len(lines) == 3 and all(line.count("$") % 2 == 0 for line in lines)


@pytest.mark.parametrize("panels", ["separate", "shared"])
def test_long_names_stay_in_their_places(panels):
    curves = [
        Prediction(f"{i}, {LONG}", X, X**i, X**i, (Shard(LONG, sub_domain=(-1.0, 0.1 * i)),))
        for i in range(1, 9)
    ]
    figure = plot_predictions(curves, title=LONG + LONG, panels=panels)
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    texts = [figure._suptitle, *(axes.title for axes in figure.axes)]
    texts += [text for legend in figure.legends for text in legend.get_texts()]
    boxes = [text.get_window_extent(renderer) for text in texts if text.get_text()]
    assert len(boxes) > 8
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes)
    panels_of = [axes.get_window_extent(renderer) for axes in figure.axes]
    assert not any(box.overlaps(panel) for box in boxes for panel in panels_of)


@pytest.mark.parametrize("curves", [[], (), "abc", 3, [1], Prediction("a", X, X)])
def test_what_is_no_list_of_predictions_is_refused(curves):
    with pytest.raises(InputError, match="plot_predictions: expected"):
        plot_predictions(curves)


def test_over_three_coordinates_predicted_stand_over_exact_values():
    x = np.random.default_rng(0).random((50, 3))
    u = np.stack([x.sum(axis=1), x.prod(axis=1)], axis=1)
    figure = plot_predictions([Prediction(f"rank {i}", x, u + i, u) for i in range(12)])
    assert len(figure.axes) == 2 and figure.get_suptitle() == "8 of 12 shown"
    for k, axes in enumerate(figure.axes):
        drawn = line(axes, "rank 11")
        np.testing.assert_array_equal(drawn.get_xdata(), u[:, k])
        np.testing.assert_array_equal(drawn.get_ydata(), u[:, k] + 11)
        diagonal = line(axes, "_exact solution")
        np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
        assert axes.get_xlabel() == f"$u_{{{k + 1}}}^*$"
    with pytest.raises(InputError, match="plot_errors: .*d = 3"):
        plot_errors([Prediction("a", x, u, u)])


def test_dimensions_that_cannot_be_drawn_are_refused():
    with pytest.raises(InputError, match="d = 3.*Hold all"):
        plot_predictions([Prediction("a", np.ones((4, 3)), np.ones(4))])
    mixed = [Prediction("a", X, X), Prediction("b", np.ones((4, 2)), np.ones(4))]
    with pytest.raises(InputError, match="one \\(d, m\\)"):
        plot_predictions(mixed)

"""The figure of predictions: what is drawn, where, and that extrapolation does not ruin it."""

from dataclasses import replace

import numpy as np
import pytest
from seen import band, check_texts, line, lines, names, thin, ticks, values

from sciml_par.errors import InputError
from sciml_par.evaluation import Prediction, Shard, plot_errors, plot_predictions

X = np.linspace(-1.0, 1.0, 101)


@pytest.mark.parametrize("ranks", [2, 4])
def test_one_network_of_several_shards(data_parallel, ranks):
    curves = data_parallel(ranks)
    figure = plot_predictions(curves, title="two sines")
    (axes,) = figure.axes
    assert figure.get_suptitle() == "two sines" and figure.get_figwidth() == 3.5
    parts = [f"rank {i}" for i in range(ranks)]
    assert names(figure) == ["exact solution", "prediction", *parts, "training points"]
    np.testing.assert_array_equal(values(axes, "prediction"), curves[0].u[:, 0])
    np.testing.assert_array_equal(values(axes, "exact solution"), curves[0].u_exact[:, 0])
    for box, shard, drawn in zip(axes.patches, curves[0].shards, ticks(axes), strict=True):
        np.testing.assert_allclose(
            [box.get_x(), box.get_x() + box.get_width()], np.ravel(shard.corners)
        )
        np.testing.assert_allclose(drawn, shard.training_points[:, 0])
    assert axes.get_xlabel() == "$x$" and axes.get_ylabel() == "$u(x)$"
    shading = [patch.get_facecolor()[:3] for patch in axes.patches]
    assert len(set(shading)) == ranks
    assert shading == [tuple(one.get_color()[0][:3]) for one in axes.collections]


def test_shards_without_sub_domains_are_named_by_their_ticks():
    shards = tuple(Shard(f"rank {i}", [0.1 * i, 0.5]) for i in range(2))
    figure = plot_predictions([Prediction("a", X, X, shards=shards)])
    assert names(figure) == ["a", "rank 0", "rank 1", "training points"]
    figure = plot_errors([Prediction("a", X, X, X, shards=shards)])
    assert names(figure) == ["a", "rank 0", "rank 1"] and not figure.axes[0].patches


@pytest.mark.parametrize(("second", "rows"), [((-0.4, 0.4), 3), ((0.5, 0.6), 1)])
def test_ticks_of_members_share_a_row_if_they_do_not_overlap(second, rows):
    points = [(-0.5, 0.5), second, (0.6, 0.9)]
    curves = [Prediction(f"a{p}", X, X, X, (Shard("s", np.array(p)),)) for p in points]
    (axes,) = plot_predictions(curves).axes
    assert len({one.get_segments()[0][0, 1] for one in axes.collections}) == rows


def test_ticks_stay_below_the_data():
    (axes,) = plot_predictions([Prediction("a", X, X, X, (Shard("s", np.array([0.0])),))]).axes
    top = max(path[:, 1].max() for one in axes.collections for path in one.get_segments())
    low, high = axes.get_ylim()
    assert low + top * (high - low) < -1.0


def test_extrapolation_does_not_stretch_the_axis(wild_ensemble):
    curves = wild_ensemble(2)
    assert max(np.abs(curve.u).max() for curve in curves) > 9e5
    low, high = plot_predictions(curves).axes[0].get_ylim()
    exact = curves[0].u_exact
    span = exact.max() - exact.min()
    assert exact.min() - 0.3 * span < low < exact.min()
    assert exact.max() < high < exact.max() + 0.2 * span


@pytest.mark.parametrize(
    ("u", "name", "limits"),
    [
        (1.5 * X, "a", (-1.5, 1.5)),
        (X + 1e9, "a (off scale)", (-1.0, 1.0)),
        (np.where(X > 0.0, np.nan, X), "a (not finite)", (-1.0, 1.0)),
    ],
)
def test_a_bad_prediction_is_seen_or_named(u, name, limits):
    figure = plot_predictions([Prediction("a", X, u, X, (Shard("a", sub_domain=(-1.0, 1.0)),))])
    low, high = figure.axes[0].get_ylim()
    assert names(figure) == ["exact solution", name]
    assert -2.0 < low <= limits[0] and limits[1] <= high < 4.0


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
    small, large = plot_predictions([Prediction("a", X, s * X, s * X) for s in (1, 100)]).axes
    assert small.get_ylim()[1] < 2.0 and large.get_ylim()[1] > 100.0


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_few_members_of_one_equation_share_a_panel(seeds, ranks):
    (axes,) = plot_predictions(seeds(ranks)).axes
    drawn = [line(axes, f"rank {i}") for i in range(ranks)]
    assert len({(one.get_color(), str(one._dash_pattern)) for one in drawn}) == ranks


@pytest.mark.parametrize(("ranks", "shown"), [(4, 4), (64, 8)])
def test_from_four_members_on_there_are_mean_and_band_above_a_few_members(seeds, ranks, shown):
    curves = [replace(c, u=c.u_exact + 0.4 * i / ranks) for i, c in enumerate(seeds(ranks))]
    figure = plot_predictions(curves)
    upper, lower = figure.axes
    members = f"{ranks} members" if shown == ranks else f"{shown} of {ranks} members"
    found = ["mean", "± 2 deviations ($2\\sigma$)", "exact solution", members, "|mean − exact|"]
    assert names(figure) == found
    u = np.stack([curve.u[:, 0] for curve in curves])
    mean, width = u.mean(axis=0), 2.0 * u.std(axis=0, ddof=1)
    np.testing.assert_allclose(values(upper, "mean"), mean)
    np.testing.assert_allclose(band(upper), [mean[0] - width[0], mean[0] + width[0]])
    assert len(thin(upper)) == shown
    assert all(one.get_zorder() < line(upper, "mean").get_zorder() for one in thin(upper))
    np.testing.assert_allclose(values(lower, "_two deviations"), width)
    error = np.abs(mean - curves[0].exact[:, 0])
    np.testing.assert_allclose(values(lower, "|mean − exact|"), error)
    assert lower.get_yscale() == "log" and lower.get_xlim() == upper.get_xlim()
    assert lower.get_ylabel() == "$2\\sigma$, error"


def test_the_share_of_points_at_which_the_deviation_covers_the_error_is_said():
    """Two thirds of the points have an error of 0, the others one of 1; the deviation is small."""
    offsets = (-0.1, -0.05, 0.05, 0.1)
    x = np.arange(30.0)
    curves = [Prediction(f"a{o}", x, x + o + np.where(x < 20, 0.0, 1.0), x) for o in offsets]
    lower = plot_predictions(curves).axes[1]
    assert lower.get_title(loc="right") == "error ≤ 2σ at 67%"
    figure = plot_predictions([Prediction(curve.label, x, curve.u) for curve in curves])
    assert figure.axes[1].get_title(loc="right") == ""
    assert not any("exact" in name for name in names(figure))


def test_members_that_are_not_sound_are_named_and_not_in_the_mean(seeds):
    curves = seeds(5)
    bad = Prediction("bad", X, X + 2.0, curves[0].u_exact, sound=False)
    lost = Prediction("lost", X, np.full_like(X, np.nan), curves[0].u_exact, sound=False)
    figure = plot_predictions([*curves, bad, lost])
    assert names(figure)[3:6] == ["5 members", "bad", "lost (not finite)"]
    mean = np.mean([curve.u[:, 0] for curve in curves], axis=0)
    np.testing.assert_allclose(values(figure.axes[0], "mean"), mean)


@pytest.mark.parametrize("members", [1, 2, 5])
@pytest.mark.parametrize("known", [True, False])
def test_the_estimated_error_stands_below_next_to_the_true_one(members, known):
    curves = [
        Prediction(
            f"a{i}",
            X,
            X + 1e-3 * (1 + i),
            X if known else None,
            estimated_error=-2e-3 * (1 + i + 0 * X),
        )
        for i in range(members)
    ]
    figure = plot_predictions(curves)
    upper, lower = figure.axes
    assert lower.get_yscale() == "log" and lower.get_xlim() == upper.get_xlim()
    if members < 4:
        np.testing.assert_allclose(values(lower, "|estimated error|"), 2e-3)
        assert ("|true error|" in names(figure)) == known
        if known:
            np.testing.assert_allclose(values(lower, "|true error|"), 1e-3)
        assert len(lines(lower)) == members * (1 + known)
    else:
        np.testing.assert_allclose(values(lower, "largest |estimate|"), 2e-3 * members)
    low, high = lower.get_ylim()
    assert 1e-5 < low < 2e-3 < high < 1.0


def test_members_in_separate_panels_have_their_estimated_errors():
    u = np.stack([X, X**2], axis=1)
    curves = [Prediction("a", X, k * u, k * u, estimated_error=k * 1e-3 + 0 * u) for k in (1, 2)]
    figure = plot_predictions(curves)
    assert len(figure.axes) == 8
    drawn = [values(a, "|estimated error|")[0] for a in figure.axes if a.get_yscale() == "log"]
    np.testing.assert_allclose(drawn, [1e-3, 1e-3, 2e-3, 2e-3])
    of_errors = {axes.get_ylim() for axes in figure.axes if axes.get_yscale() == "log"}
    assert len(of_errors) == 1, "the members have one scale of errors"
    check_texts(figure)


def test_components_take_a_row_each_and_those_of_a_mean_two():
    u = np.stack([X, 10 * X, X**2], axis=1)
    named = {"coordinates": ("t",), "fields": ("u", "v_2", "energy")}
    curves = [Prediction(f"a{i}", X, u + 0.1 * i, u, **named) for i in range(4)]
    labels = ["$u(t)$", "$v_{2}(t)$", "$\\text{energy}(t)$"]
    figure = plot_predictions(curves)
    assert [axes.get_ylabel() for axes in figure.axes[::2]] == labels
    assert [axes.get_xlabel() for axes in figure.axes] == [""] * 5 + ["$t$"]
    figure = plot_predictions(curves[:2])
    assert [axes.get_ylabel() for axes in figure.axes] == labels
    assert figure.axes[1].get_ylim()[1] > 10.0
    other = replace(curves[1], u_exact=u + 1.0)
    assert len(plot_predictions([curves[0], other]).axes) == 6


def test_points_outside_the_domain_are_gaps():
    inside = np.abs(X) > 0.5
    curve = Prediction("a", X, np.where(inside, X, 1e9), X + 1.0, inside=inside)
    figure = plot_predictions([curve])
    drawn = values(figure.axes[0], "a")
    np.testing.assert_array_equal(drawn[inside], X[inside])
    assert np.isnan(drawn[~inside]).all() and names(figure) == ["exact solution", "a"]
    norm = np.linalg.norm((X + 1.0)[inside])
    assert curve.relative_l2_error == pytest.approx(np.sqrt(inside.sum()) / norm)


@pytest.mark.parametrize("name", ["κ", "T_wall", "$\\theta$", "a{b}\\c%#&^~_", "{", "mass flow"])
def test_every_name_can_be_drawn(name):
    figure = plot_predictions([Prediction("a", X, X, coordinates=(name,), fields=(name,))])
    figure.canvas.draw()
    assert figure.axes[0].get_xlabel() != "$x$"


def test_members_of_different_regions_have_no_mean(wild_ensemble):
    figure = plot_predictions(wild_ensemble(4))
    assert len(figure.axes) == 1 and "mean" not in names(figure)


def test_a_missing_exact_solution_is_left_out_and_points_are_drawn_in_order_of_x():
    order = np.random.default_rng(0).permutation(X.size)
    figure = plot_predictions([Prediction("a", X[order], X[order] ** 2)])
    (drawn,) = figure.axes[0].get_lines()
    assert names(figure) == ["a"]
    np.testing.assert_array_equal(drawn.get_xydata(), np.stack([X, X**2], axis=1))


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
    check_texts(figure)
    assert names(figure)[0].startswith("cost in $, long") and names(figure)[0].endswith("…")


def test_a_long_title_is_not_broken_within_mathematics():
    title = 4 * "a long title - with $u'' - f = 0$ and - $\\frac{1}{2}$, "
    figure = plot_predictions([Prediction("a", X, X)], title=title)
    check_texts(figure)
    lines = figure.get_suptitle().split("\n")
    assert len(lines) == 3 and all(line.count("$") % 2 == 0 for line in lines)


@pytest.mark.parametrize("shared", [False, True])
def test_long_names_stay_in_their_places(shared):
    curves = [
        Prediction(
            f"{i}, {LONG}",
            X,
            X**i,
            X if shared else X**i,
            (Shard(LONG, sub_domain=(-1.0, 0.1 * i)),),
        )
        for i in range(1, 9)
    ]
    figure = plot_predictions(curves, title=LONG + LONG)
    assert len(figure.axes) == (1 if shared else 8)
    check_texts(figure)


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
        drawn = line(axes, "_rank 11")
        np.testing.assert_array_equal(drawn.get_xydata(), np.stack([u[:, k], u[:, k] + 11], 1))
        diagonal = line(axes, "exact solution")
        np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
        assert axes.get_xlabel() == f"$u_{{{k + 1}}}^*$"
    assert names(figure)[0] == "exact solution" and names(figure)[-1] == "rank 11"


def in_three_dimensions(known=True, estimated=True, names=("x", "y", "t")):
    x = np.random.default_rng(0).random((50, 3))
    u = np.stack([x.sum(axis=1), x.prod(axis=1)], axis=1)
    e = 0.1 * x[:, :2]
    exact, estimate = u + e if known else None, 0.9 * e if estimated else None
    return Prediction("a", x, u, exact, coordinates=names, estimated_error=estimate)


def test_over_three_coordinates_the_estimated_error_stands_over_the_true_one():
    curve = in_three_dimensions()
    figure = plot_predictions([curve])
    check_texts(figure)
    assert len(figure.axes) == 4 and names(figure) == [
        "exact solution",
        "a",
        "estimated = true error",
    ]
    for k, axes in enumerate(figure.axes[1::2]):
        true, estimated = line(axes, "_a").get_xydata().T
        np.testing.assert_allclose(estimated, 0.9 * true)
        assert true.max() == pytest.approx(np.abs(curve.u_exact - curve.u)[:, k].max())
        assert axes.get_xlabel() == "|true error|"
        assert axes.get_ylabel() == f"|estimated error| of $u_{{{k + 1}}}$"
        assert axes.get_xscale() == axes.get_yscale() == "log"


@pytest.mark.parametrize("time", [True, False])
def test_without_an_exact_solution_it_stands_over_the_time_or_the_values(time):
    curve = in_three_dimensions(known=False, names=("x", "y", "t" if time else "z"))
    figure = plot_predictions([curve])
    assert len(figure.axes) == 2 and names(figure) == ["a"]
    for k, axes in enumerate(figure.axes):
        drawn = line(axes, "_a").get_xydata()
        across = curve.x[:, 2] if time else curve.u[:, k]
        np.testing.assert_allclose(drawn[:, 0], across)
        assert axes.get_xlabel() == ("$t$" if time else f"$u_{{{k + 1}}}$")


def test_members_without_an_estimate_stand_over_exact_values_only():
    curves = [in_three_dimensions(), in_three_dimensions(estimated=False)]
    figure = plot_predictions(curves)
    assert [len(lines(axes)) for axes in figure.axes] == [3, 2, 3, 2]


def test_dimensions_that_cannot_be_drawn_are_refused():
    three, ones = np.ones((4, 3)), np.ones(4)
    with pytest.raises(InputError, match="plot_errors: .*d = 3"):
        plot_errors([Prediction("a", three, ones, ones)])
    with pytest.raises(InputError, match="d = 3.*Hold all"):
        plot_predictions([Prediction("a", three, ones)])
    mixed = [Prediction("a", X, X), Prediction("b", np.ones((4, 2)), ones)]
    with pytest.raises(InputError, match="one \\(d, m\\)"):
        plot_predictions(mixed)


@pytest.mark.parametrize("inside", [np.ones(3, bool), np.zeros(101, bool), np.ones(101)])
def test_a_wrong_mask_is_refused(inside):
    with pytest.raises(InputError, match="inside: expected an array of 101 bool"):
        Prediction("a", X, X, inside=inside)


@pytest.mark.parametrize("names", [("x", "y"), "x", ("a$b",), ("$",), ("_x",), (1,)])
def test_wrong_names_of_coordinates_are_refused(names):
    with pytest.raises(InputError, match="coordinates: expected"):
        Prediction("a", X, X, coordinates=names)

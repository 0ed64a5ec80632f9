"""Log-scale figures: pointwise errors and losses."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.image import imread
from seen import band, line, names, thin

from sciml_par.errors import InputError
from sciml_par.evaluation import LossCurve, Prediction, Shard, plot_errors, plot_losses, save_figure

X = np.linspace(-1.0, 1.0, 101)
LEFT = Shard("a", sub_domain=(-1.0, -0.01))


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_errors_draw_a_line_a_member_on_a_log_scale(seeds, ranks):
    curves = seeds(ranks + 1)[1:]
    figure = plot_errors(curves)
    (axes,) = figure.axes
    assert axes.get_yscale() == "log" and axes.get_ylabel() == "$|u - u^*|$"
    assert names(figure) == [curve.label for curve in curves]
    for index, drawn in enumerate(axes.get_lines()):
        np.testing.assert_allclose(drawn.get_ydata(), 0.1 * (index + 1))
        assert axes.get_ylim()[0] < 0.1 * (index + 1) < axes.get_ylim()[1]


def test_the_regions_of_the_shards_are_shaded(data_parallel, wild_ensemble):
    figure = plot_errors(data_parallel(4))
    assert names(figure) == ["prediction", *(f"rank {i}" for i in range(4))]
    assert len(figure.axes[0].patches) == 4
    figure = plot_errors(wild_ensemble(2))
    assert names(figure) == ["rank 0", "rank 1", "sub-domain"]
    assert len(figure.axes[0].patches) == 2


def test_zeros_and_dips_lie_at_the_edge_and_do_not_stretch_the_axis():
    error = np.full_like(X, 1e-2)
    error[[0, 50, 100]] = 0.0, 1e-17, 1e-15
    (axes,) = plot_errors([Prediction("a", X, X + error, X)]).axes
    low, high = axes.get_ylim()
    assert 1e-6 < low < 1e-4 and 1e-2 < high < 1.0
    drawn = axes.get_lines()[0].get_ydata()
    assert drawn.min() >= low and np.all(np.isfinite(drawn))


@pytest.mark.parametrize(
    ("curves", "low", "high"),
    [
        # A small error next to a large one stays on the axis.
        (
            [
                Prediction("a", X, X + 1.0, X),
                Prediction("b", 0 * X + 1.0, 1.0 + 1e-12 + 0 * X, 1.0 + 0 * X),
            ],
            1e-12,
            1.0,
        ),
        # Extrapolation does not squeeze the errors.
        ([Prediction("a", X, np.where(X < 0, X + 1e-3, 1e30), X, (LEFT,))], 1e-3, 1e-2),
    ],
)
def test_small_errors_stay_on_the_axis(curves, low, high):
    limits = plot_errors(curves).axes[0].get_ylim()
    assert limits[0] < low and high <= limits[1] < 1e2


@pytest.mark.filterwarnings("error")
def test_no_error_anywhere_is_a_line_at_the_edge():
    figure = plot_errors([Prediction("a", X, X, X)])
    figure.canvas.draw()
    (axes,) = figure.axes
    assert axes.get_ylim()[0] < axes.get_lines()[0].get_ydata()[0] <= 1e-16


def test_members_without_an_exact_solution_are_named():
    figure = plot_errors([Prediction("a", X, X), Prediction("b", X, X + 1.0, X)])
    assert names(figure) == ["b", "a (no exact solution)"]
    with pytest.raises(InputError, match="plot_errors: no prediction has an exact solution"):
        plot_errors([Prediction("a", X, X)])


def test_errors_take_a_row_a_component():
    u = np.stack([X, X], axis=1)
    figure = plot_errors([Prediction("a", X, u + np.array([1.0, 1e-6]), u)])
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "$|u_{1} - u_{1}^*|$",
        "$|u_{2} - u_{2}^*|$",
    ]
    assert figure.axes[1].get_ylim()[1] < 1e-5


def test_of_many_members_the_errors_are_their_median_and_range(seeds):
    curves = [*seeds(41)[1:], replace(seeds(3)[2], label="bad", sound=False)]
    figure = plot_errors(curves)
    (axes,) = figure.axes
    assert names(figure) == ["median", "10% to 90%", "8 of 40 members", "bad"]
    errors = 0.1 * np.arange(1, 41)
    np.testing.assert_allclose(line(axes, "median").get_ydata(), np.median(errors))
    np.testing.assert_allclose(band(axes), np.quantile(errors, [0.1, 0.9]))
    assert len(thin(axes)) == 8 and all(one.get_zorder() < 2.2 for one in thin(axes))
    np.testing.assert_allclose(line(axes, "bad").get_ydata(), 0.2)


def test_many_members_of_different_regions_keep_their_lines(wild_ensemble):
    figure = plot_errors(wild_ensemble(12))
    assert "median" not in names(figure) and "rank 11" in names(figure)


def test_points_outside_the_domain_are_gaps_and_no_errors():
    inside = np.abs(X) > 0.5
    u = np.where(inside, X + 1e-3, 1e9)
    figure = plot_errors([Prediction("a", X, u, X, inside=inside)])
    (axes,) = figure.axes
    assert names(figure) == ["a"] and axes.get_ylim()[1] < 1.0
    np.testing.assert_array_equal(np.isnan(axes.get_lines()[0].get_ydata()), ~inside)


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_losses_draw_a_line_a_member(ranks):
    step, loss = np.linspace(0, 20_000, 30), np.logspace(4, -6, 30)
    figure = plot_losses([LossCurve(f"rank {i}", step, loss / (i + 1)) for i in range(ranks)])
    (axes,) = figure.axes
    assert axes.get_yscale() == "log"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "loss")
    assert names(figure) == [f"rank {i}" for i in range(ranks)]
    assert len({(one.get_color(), str(one._dash_pattern)) for one in axes.get_lines()}) == ranks
    for index, drawn in enumerate(axes.get_lines()):
        np.testing.assert_array_equal(drawn.get_ydata(), loss / (index + 1))
    assert axes.get_ylim()[0] < 1e-6 / ranks and axes.get_ylim()[1] > 1e4
    figure.canvas.draw()
    assert "20,000" in [label.get_text() for label in axes.get_xticklabels()]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("loss", "name"),
    [
        ([1.0, np.nan, 0.1], "a (not finite)"),
        ([1.0, np.inf, 0.1], "a (not finite)"),
        ([1.0, -1.0, 0.1], "a (negative)"),
        ([1.0, 0.0, 0.1], "a"),
        ([0.0, 0.0, 0.0], "a"),
        ([np.nan, np.nan, np.nan], "a (not finite)"),
    ],
)
def test_losses_that_a_log_axis_cannot_show_are_named(loss, name):
    figure = plot_losses([LossCurve("a", [0, 1, 2], loss)])
    figure.canvas.draw()
    assert names(figure) == [name]
    low, high = figure.axes[0].get_ylim()
    assert 0.0 < low < high < np.inf


def test_one_recorded_loss_is_seen():
    (axes,) = plot_losses([LossCurve("a", [5], [0.3])]).axes
    assert axes.get_lines()[0].get_marker() == "o"
    assert axes.get_xlim()[0] < 5 < axes.get_xlim()[1]


def test_the_terms_of_one_loss_are_drawn_below_the_total():
    terms = {f"term {k}": np.full(30, 10.0**-k) for k in range(8)}
    total = sum(terms.values())
    figure = plot_losses([LossCurve("total", np.arange(30), total, terms)])
    (axes,) = figure.axes
    assert names(figure) == ["total", *terms]
    np.testing.assert_array_equal(line(axes, "total").get_ydata(), total)
    for name, values in terms.items():
        np.testing.assert_array_equal(line(axes, name).get_ydata(), values)
    looks = {(one.get_color(), str(one._dash_pattern)) for one in axes.get_lines()}
    assert len(looks) == 9
    assert all(
        line(axes, name).get_linewidth() < line(axes, "total").get_linewidth() for name in terms
    )
    assert axes.get_ylim()[0] < 1e-7


def test_the_best_step_is_marked():
    step, loss = np.arange(0, 101, 10), np.logspace(0, -3, 11)
    curve = LossCurve("a", step, loss, best_step=90)
    for each, place in (
        (curve, (90, loss[9])),
        (replace(curve, best_step=87, best_loss=1e-5), (87, 1e-5)),
    ):
        figure = plot_losses([each])
        (axes,) = figure.axes
        assert names(figure) == ["a", f"best, step {place[0]}"]
        (best,) = (one for one in axes.get_lines() if one.get_marker() == "*")
        assert (best.get_xdata(), best.get_ydata()) == place
        assert axes.get_ylim()[0] < place[1]


def test_of_many_losses_the_median_and_the_range_are_drawn():
    step = np.arange(3)
    losses = [LossCurve(f"rank {i}", step, [1.0 + i, 0.1, 0.01]) for i in range(12)]
    losses.append(LossCurve("bad", step, [1.0, np.nan, 1.0]))
    figure = plot_losses(losses)
    (axes,) = figure.axes
    assert names(figure) == ["median", "least to greatest", "8 of 12 members", "bad (not finite)"]
    np.testing.assert_allclose(line(axes, "median").get_ydata(), [6.5, 0.1, 0.01])
    np.testing.assert_allclose(band(axes, at=0.0), [1.0, 12.0])
    different = [LossCurve(f"rank {i}", step + i, [1.0, 0.1, 0.01]) for i in range(12)]
    assert "median" not in names(plot_losses(different))


def test_of_many_records_every_spike_is_seen_and_the_file_stays_small(tmp_path):
    step = np.arange(20_000)
    loss = np.logspace(0, -4, step.size) * (1.0 + 0.1 * np.sin(step))
    loss[[1234, 17777]] = 1e3, 1e-7
    png, pdf = save_figure(plot_losses([LossCurve("a", step, loss)]), tmp_path, "loss")
    assert pdf.stat().st_size < 100_000
    red, _, blue, _ = np.moveaxis(imread(png), -1, 0)
    assert np.argwhere(blue > red + 0.4)[:, 0].min() < 0.1 * len(red)


@pytest.mark.parametrize("terms", [{"a": [1.0]}, {"b": [[1.0, 2.0]]}, {"b": ["x", 1]}])
def test_terms_that_do_not_belong_to_the_steps_are_refused(terms):
    with pytest.raises(InputError, match="LossCurve 'a', .*: expected"):
        LossCurve("a", [0, 1], [1.0, 0.5], terms=terms)


@pytest.mark.parametrize("losses", [[], None, [1.0], LossCurve("a", [0], [1])])
def test_what_is_no_list_of_losses_is_refused(losses):
    with pytest.raises(InputError, match="plot_losses: expected"):
        plot_losses(losses)

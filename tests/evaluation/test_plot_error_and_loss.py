"""Log-scale figures: pointwise errors and losses."""

import numpy as np
import pytest

from sciml_par.errors import InputError
from sciml_par.evaluation import LossCurve, Prediction, Shard, plot_errors, plot_losses

X = np.linspace(-1.0, 1.0, 101)


def names(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_errors_draw_a_line_a_member_on_a_log_scale(seeds, ranks):
    curves = seeds(ranks + 1)[1:]
    figure = plot_errors(curves)
    (axes,) = figure.axes
    assert axes.get_yscale() == "log" and axes.get_ylabel() == "$|u(x) - u^*(x)|$"
    assert names(figure) == [curve.label for curve in curves]
    for index, drawn in enumerate(axes.get_lines()):
        np.testing.assert_allclose(drawn.get_ydata(), 0.1 * (index + 1))
        assert axes.get_ylim()[0] < 0.1 * (index + 1) < axes.get_ylim()[1]


def test_the_regions_of_the_shards_are_shaded(data_parallel, wild_ensemble):
    figure = plot_errors(data_parallel(4))
    assert names(figure) == ["prediction", *(f"rank {i}" for i in range(4))]
    assert len(figure.axes[0].patches) == 4
    figure = plot_errors(wild_ensemble(2))
    assert names(figure) == ["sub-domain", "rank 0", "rank 1"]
    assert len(figure.axes[0].patches) == 2


def test_zeros_and_dips_lie_at_the_edge_and_do_not_stretch_the_axis():
    error = np.full_like(X, 1e-2)
    error[[0, 50, 100]] = 0.0, 1e-17, 1e-15
    (axes,) = plot_errors([Prediction("a", X, X + error, X)]).axes
    low, high = axes.get_ylim()
    assert 1e-6 < low < 1e-4 and 1e-2 < high < 1.0
    drawn = axes.get_lines()[0].get_ydata()
    assert drawn.min() >= low and np.all(np.isfinite(drawn))


def test_a_small_error_beside_a_large_one_stays_on_the_axis():
    curves = [
        Prediction("a", X, X + 1.0, X),
        Prediction("b", 0 * X + 1.0, 1.0 + 1e-12 + 0 * X, 1.0 + 0 * X),
    ]
    low, high = plot_errors(curves).axes[0].get_ylim()
    assert low < 1e-12 and high > 1.0


def test_extrapolation_does_not_squeeze_the_errors():
    u = np.where(X < 0.0, X + 1e-3, 1e30)
    curve = Prediction("a", X, u, X, (Shard("a", sub_domain=(-1.0, -0.01)),))
    low, high = plot_errors([curve]).axes[0].get_ylim()
    assert low < 1e-3 and high < 1e2


@pytest.mark.filterwarnings("error")
def test_no_error_anywhere_is_a_line_at_the_edge():
    figure = plot_errors([Prediction("a", X, X, X)])
    figure.canvas.draw()
    (axes,) = figure.axes
    assert axes.get_ylim()[0] < axes.get_lines()[0].get_ydata()[0] <= 1e-16


def test_members_without_an_exact_solution_are_named():
    figure = plot_errors([Prediction("a", X, X), Prediction("b", X, X + 1.0, X)])
    assert names(figure) == ["a (no exact solution)", "b"]
    with pytest.raises(InputError, match="plot_errors: no prediction has an exact solution"):
        plot_errors([Prediction("a", X, X)])


def test_errors_take_a_row_a_component():
    u = np.stack([X, X], axis=1)
    figure = plot_errors([Prediction("a", X, u + np.array([1.0, 1e-6]), u)])
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "$|u_{1}(x) - u_{1}^*(x)|$",
        "$|u_{2}(x) - u_{2}^*(x)|$",
    ]
    assert figure.axes[1].get_ylim()[1] < 1e-5


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


@pytest.mark.parametrize("losses", [[], None, [1.0], LossCurve("a", [0], [1])])
def test_what_is_no_list_of_losses_is_refused(losses):
    with pytest.raises(InputError, match="plot_losses: expected"):
        plot_losses(losses)

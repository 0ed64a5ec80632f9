"""Figures over two coordinates: prediction, exact solution and error as colours."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import TriMesh
from matplotlib.colors import LogNorm
from seen import check_texts, mesh
from seen import planes as panels

from sciml_par.errors import InputError
from sciml_par.evaluation import Prediction, Shard, plot_errors, plot_predictions


def unlike(curves):
    """Return members of different problems, which have no mean."""
    return [
        replace(curve, u=curve.u + i, u_exact=curve.u_exact + i) for i, curve in enumerate(curves)
    ]


@pytest.mark.parametrize(
    ("ranks", "rows", "title"), [(1, 1, ""), (2, 2, ""), (8, 4, "4 of 8 shown")]
)
def test_a_row_a_member_and_at_most_four(plane, ranks, rows, title):
    curves = unlike(plane(ranks))
    figure = plot_predictions(curves)
    found = panels(figure)
    assert len(found) == 3 * rows and figure.get_suptitle() == title
    for row in range(rows):
        prediction, exact, error = found[3 * row : 3 * row + 3]
        assert prediction.get_title() == f"rank {row}: $u$"
        np.testing.assert_allclose(mesh(prediction).get_array(), curves[row].u[:, 0])
        np.testing.assert_allclose(mesh(exact).get_array(), curves[row].u_exact[:, 0])
        np.testing.assert_allclose(mesh(error).get_array(), 0.01 * (row + 1))
        assert isinstance(mesh(error).norm, LogNorm)
        assert mesh(prediction).norm.vmax == mesh(exact).norm.vmax


def test_components_take_rows_of_their_own(plane):
    figure = plot_predictions(unlike(plane(8, components=2)), title="flow")
    assert figure.get_suptitle() == "flow (2 of 8 shown)"
    assert [axes.get_title() for axes in panels(figure)[::3]] == [
        f"rank {i}: $u_{{{c}}}$" for i in range(2) for c in (1, 2)
    ]


def test_without_an_exact_solution_there_is_only_the_prediction(plane):
    curve = plane(1)[0]
    figure = plot_predictions([Prediction("a", curve.x, curve.u)])
    assert len(panels(figure)) == 1
    with pytest.raises(InputError, match="exact solution"):
        plot_errors([Prediction("a", curve.x, curve.u)])


def test_errors_of_members_share_their_colours(plane):
    figure = plot_errors(plane(9))
    found = panels(figure)
    assert len(found) == 8 and figure.get_suptitle() == "8 of 9 shown"
    assert len({(mesh(axes).norm.vmin, mesh(axes).norm.vmax) for axes in found}) == 1


def test_the_errors_of_the_components_of_one_member_share_a_row_and_their_colours(plane):
    found = panels(plot_errors(plane(1, components=3)))
    assert [axes.get_title() for axes in found] == [f"rank 0: $u_{{{k}}}$" for k in (1, 2, 3)]
    assert len({axes.get_subplotspec().rowspan.start for axes in found}) == 1
    assert len({id(mesh(axes).norm) for axes in found}) == 1


@pytest.mark.parametrize("components", [1, 3])
def test_many_members_are_their_mean_its_error_and_its_deviation(plane, components):
    curves = plane(8, components=components)
    curves.append(replace(curves[0], label="bad", u=curves[0].u + 1e3, sound=False))
    figure = plot_predictions(curves)
    found = panels(figure)
    assert len(found) == 4 * components
    values = np.stack([curve.u for curve in curves[:8]])
    for k in range(components):
        mean, exact, error, width = found[4 * k : 4 * k + 4]
        assert mean.get_title().startswith("mean of 8: $u")
        assert width.get_title().split() == ["2σ:", "error", "≤", "2σ", "at", "100%"]
        np.testing.assert_allclose(mesh(mean).get_array(), values[..., k].mean(axis=0))
        np.testing.assert_allclose(mesh(exact).get_array(), curves[0].exact[:, k])
        np.testing.assert_allclose(mesh(error).get_array(), 0.045)
        np.testing.assert_allclose(mesh(width).get_array(), 2 * np.std(values[:, 0, k], ddof=1))
        # One scale, so that one sees where the deviation covers the error.
        assert mesh(error).norm is mesh(width).norm
        assert mesh(mean).norm is mesh(exact).norm


def test_many_members_without_an_exact_solution_show_mean_members_and_deviation(plane):
    curves = [Prediction(c.label, c.x, c.u) for c in plane(8)]
    titles = [axes.get_title() for axes in panels(plot_predictions(curves))]
    assert titles == ["mean of 8: $u$", "rank 0: $u$", "rank 7: $u$", "2 deviations: $2\\sigma$"]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("members", [1, 5])
def test_the_estimated_error_is_next_to_the_true_one_on_one_scale(plane, members, known):
    curves = [
        replace(c, u_exact=c.u_exact if known else None, estimated_error=-0.02 * (1 + i) + 0 * c.u)
        for i, c in enumerate(plane(members))
    ]
    figure = plot_predictions(curves)
    *_, before, last = panels(figure)
    assert last.get_title().replace("\n", " ") == (
        "|estimated error|" if members == 1 else "largest |estimate|"
    )
    np.testing.assert_allclose(mesh(last).get_array(), 0.02 * members)
    assert (mesh(before).norm is mesh(last).norm) == (known or members > 1)
    check_texts(figure)


def test_axes_are_equal_where_both_coordinates_are_lengths_of_like_extent(plane):
    def aspect(scale, coordinates=()):
        curve = plane(1)[0]
        x = curve.x * [1.0, scale]
        curve = Prediction("a", x, curve.u, curve.exact, coordinates=coordinates)
        aspects = set()
        for plot in (plot_predictions, plot_errors):
            figure = plot([curve])
            aspects |= {axes.get_aspect() for axes in panels(figure)}
        return aspects

    assert aspect(1.0) == aspect(3.0) == aspect(0.3) == {1.0}
    assert aspect(50.0) == aspect(0.01) == {"auto"}
    assert aspect(1.0, ("x", "t")) == aspect(1.0, ("Time", "x")) == {"auto"}


def test_equal_axes_fill_their_figure(plane):
    """The panels of a wide and of a high domain take most of the figure's height."""
    for scale in (0.3, 1.0, 3.0):
        curve = plane(1)[0]
        figure = plot_predictions([Prediction("a", curve.x * [1.0, scale], curve.u, curve.exact)])
        figure.canvas.draw()
        panel = panels(figure)[0].get_window_extent()
        assert panel.height / panel.width == pytest.approx(scale, rel=0.01)
        assert panel.height > figure.bbox.height - 1.0 * figure.dpi


def test_nothing_is_drawn_outside_the_domain(plane):
    curve = plane(1)[0]
    inside = ~np.all(curve.x > 0.4, axis=1)
    u = np.where(inside[:, None], curve.u, 1e9)
    figure = plot_predictions([Prediction("a", curve.x, u, curve.exact, inside=inside)])
    for axes in panels(figure):
        triangles = mesh(axes)._triangulation
        kept = triangles.triangles[~triangles.mask]
        assert inside[kept].all() and set(np.flatnonzero(inside)) >= set(kept.ravel())
        assert len(kept) > 50
    first = panels(figure)[0]
    assert first.get_title() == "a: $u$" and mesh(first).norm.vmax < 2.0


def test_the_users_names_stand_at_axes_and_panels(plane):
    curve = plane(1, components=2)[0]
    named = replace(curve, coordinates=("r", "z"), fields=("T_wall", "pressure"))
    figure = plot_predictions([named])
    found = panels(figure)
    assert found[3].get_xlabel() == "$r$" and found[0].get_ylabel() == "$z$"
    assert found[0].get_title() == "rank 0: $T_{\\text{wall}}$"
    assert found[4].get_title() == "exact: $\\text{pressure}^*$"
    figure.canvas.draw()


def test_training_points_leave_the_field_to_be_seen(plane):
    curve = plane(1)[0]
    for count in (10, 2000):
        points = np.random.default_rng(0).random((count, 2))
        shard = Shard("all", points, ((0.0, 0.0), (1.0, 1.0)))
        figure = plot_predictions([replace(curve, shards=(shard,))])
        first, *others = panels(figure)
        (marks,) = [one for one in first.collections if not isinstance(one, TriMesh)]
        # Square points of area, on a panel of about 2 by 2 inches.
        assert marks.get_sizes()[0] * count < 0.1 * (2 * 72) ** 2
        assert all(len(axes.collections) == 1 for axes in others)
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["training points"]


def test_zero_errors_and_missing_values_can_be_drawn(plane):
    curve = plane(1)[0]
    u = curve.u_exact.copy()
    u[3] = np.nan
    figure = plot_predictions([Prediction("a", curve.x, u, curve.u_exact)])
    figure.canvas.draw()
    first = panels(figure)[0]
    assert first.get_title() == "a (not finite): $u$"
    assert mesh(first)._triangulation.mask.sum() > 0


def test_sub_domains_are_outlined_and_points_marked(plane):
    curve = plane(1)[0]
    shards = (
        Shard("rank 0", np.array([[0.1, 0.2]]), ((0.0, 0.0), (0.5, 1.0))),
        Shard("rank 1", np.array([[0.7, 0.2], [0.9, 0.3]]), ((0.5, 0.0), (1.0, 1.0))),
    )
    figure = plot_predictions([Prediction("a", curve.x, curve.u, curve.u_exact, shards)])
    axes = panels(figure)[0]
    assert [box.get_bbox().bounds for box in axes.patches] == [(0, 0, 0.5, 1), (0.5, 0, 0.5, 1)]
    marks = [one for one in axes.collections if not isinstance(one, TriMesh)]
    assert [len(one.get_offsets()) for one in marks] == [1, 2]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "rank 0",
        "rank 1",
        "training points",
    ]


@pytest.mark.parametrize("x", [np.eye(2), np.repeat(np.arange(5.0)[:, None], 2, axis=1)])
def test_points_that_span_no_plane_are_refused(x):
    with pytest.raises(InputError, match="not all on one line"):
        plot_predictions([Prediction("a", x, x[:, 0])])

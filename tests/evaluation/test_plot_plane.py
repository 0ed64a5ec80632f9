"""Figures over two coordinates: prediction, exact solution and error as colours."""

import numpy as np
import pytest
from matplotlib.collections import TriMesh
from matplotlib.colors import LogNorm

from sciml_par.errors import InputError
from sciml_par.evaluation import Prediction, Shard, plot_errors, plot_predictions


def panels(figure):
    return [axes for axes in figure.axes if axes.get_subplotspec() and has_mesh(axes)]


def has_mesh(axes):
    return any(isinstance(one, TriMesh) for one in axes.collections)


def mesh(axes):
    return next(one for one in axes.collections if isinstance(one, TriMesh))


@pytest.mark.parametrize(
    ("ranks", "rows", "title"), [(1, 1, ""), (2, 2, ""), (8, 4, "4 of 8 shown")]
)
def test_a_row_a_member_and_at_most_four(plane, ranks, rows, title):
    curves = plane(ranks)
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
    figure = plot_predictions(plane(8, components=2), title="flow")
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
    figure = plot_errors(plane(8))
    found = panels(figure)
    assert len(found) == 4 and figure.get_suptitle() == "4 of 8 shown"
    assert len({(mesh(axes).norm.vmin, mesh(axes).norm.vmax) for axes in found}) == 1


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
    assert [text.get_text() for text in legend.get_texts()] == ["rank 0", "rank 1"]


@pytest.mark.parametrize("x", [np.eye(2), np.repeat(np.arange(5.0)[:, None], 2, axis=1)])
def test_points_that_span_no_plane_are_refused(x):
    with pytest.raises(InputError, match="not all on one line"):
        plot_predictions([Prediction("a", x, x[:, 0])])

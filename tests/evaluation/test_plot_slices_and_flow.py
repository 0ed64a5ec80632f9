"""Figures of fields over space and time, of vector fields, and of bodies."""

import numpy as np
import pytest

from sciml_par.errors import InputError
from sciml_par.evaluation import Prediction, plot_body, plot_flow, plot_slices, plot_times


def grid(nx=21, nt=11):
    x, t = np.meshgrid(np.linspace(-1, 1, nx), np.linspace(0, 2, nt), indexing="ij")
    return np.stack([x.ravel(), t.ravel()], axis=1)


def travelling(shift=0.0, *, exact=True, order=None, **others):
    x = grid() if order is None else grid()[order]
    u = np.sin(np.pi * (x[:, :1] - x[:, 1:]))
    return Prediction(
        "prediction", x, u + shift, u_exact=u if exact else None, coordinates=("x", "t"), **others
    )


def lines_of(axes, label):
    return [line for line in axes.lines if line.get_label() == label]


@pytest.mark.parametrize("order", [None, np.random.default_rng(0).permutation(21 * 11)])
def test_slices_show_the_field_at_four_times(order):
    figure = plot_slices([travelling(0.25, order=order)])
    slices = [axes for axes in figure.axes if lines_of(axes, "prediction")]
    assert len(slices) == 4
    for axes, t in zip(slices, (0.4, 1.0, 1.6, 2.0), strict=True):
        (line,), (exact,) = lines_of(axes, "prediction"), lines_of(axes, "exact solution")
        assert f"{t:.3g}" in axes.get_title()
        wanted = np.sin(np.pi * (np.linspace(-1, 1, 21) - t))
        np.testing.assert_allclose(line.get_ydata(), wanted + 0.25, atol=1e-12)
        np.testing.assert_allclose(exact.get_ydata(), wanted, atol=1e-12)


def test_slices_of_an_ensemble_are_those_of_its_mean():
    members = [travelling(shift) for shift in (-0.3, -0.1, 0.1, 0.3)]
    axes = next(a for a in plot_slices(members).axes if lines_of(a, "mean of 4"))
    (line,), (exact,) = lines_of(axes, "mean of 4"), lines_of(axes, "exact solution")
    np.testing.assert_allclose(line.get_ydata(), exact.get_ydata(), atol=1e-12)
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    deviation = np.std([-0.3, -0.1, 0.1, 0.3], ddof=1)
    assert band.max() == pytest.approx(line.get_ydata().max() + 2 * deviation, abs=1e-6)


def test_slices_without_an_exact_solution_have_no_dashed_line():
    figure = plot_slices([travelling(exact=False)])
    assert not any(lines_of(axes, "exact solution") for axes in figure.axes)


def test_slices_need_a_grid_over_space_and_time():
    scattered = travelling(order=np.arange(200))
    in_space = Prediction("prediction", grid(), grid()[:, :1])
    for wrong in (scattered, in_space):
        with pytest.raises(InputError, match="grid"):
            plot_slices([wrong])


def flow(shift=0.0, fields=("u", "v", "p"), **others):
    x = grid()
    values = np.stack([x[:, 1] + shift, -x[:, 0], x[:, 0] ** 2], axis=1)
    return Prediction("prediction", x, values, fields=fields, **others)


def test_flow_shows_speed_and_direction():
    exact = flow().u
    figure = plot_flow([flow(0.1, u_exact=exact)])
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert len(panels) == 3
    speed = panels[0].collections[0].get_array()
    np.testing.assert_allclose(speed, np.hypot(exact[:, 0] + 0.1, exact[:, 1]), atol=1e-12)
    assert len(panels[0].collections) > 1 and len(panels[2].collections) == 1
    error = panels[2].collections[0].get_array()
    np.testing.assert_allclose(error, 0.1, atol=1e-12)
    assert len([axes for axes in plot_flow([flow()]).axes if axes.get_title()]) == 1


@pytest.mark.parametrize("fields", [("u", "v", "p"), ("p", "u_x", "u_y")])
def test_a_vector_is_known_by_its_names(fields):
    drawn = plot_flow([flow(fields=fields)]).axes[0].collections[0].get_array()
    values = flow().u[:, [k for k, name in enumerate(fields) if name != "p"]]
    np.testing.assert_allclose(drawn, np.linalg.norm(values, axis=1))


@pytest.mark.parametrize("others", [{"fields": ("a", "b", "c")}, {"coordinates": ("x", "t")}])
def test_what_is_no_vector_in_the_plane_is_refused(others):
    with pytest.raises(InputError, match="named as one of"):
        plot_flow([flow(**others)])


def body(fields=("u", "v", "w", "p"), *, exact=True, **others):
    line = np.linspace(-1, 1, 6)
    x = np.stack(np.meshgrid(line, line, line, indexing="ij"), axis=-1).reshape(-1, 3)
    u = np.hstack([2 * x, x[:, :1]])
    known = u + [1e-3, 0, 0, 1e-2] if exact else None
    return Prediction("prediction", x, u, u_exact=known, fields=fields, **others)


def panels_of(figure):
    return [axes for axes in figure.axes if axes.name == "3d"]


def test_a_body_is_cut_open_and_its_vector_has_a_length():
    of_vector, error, of_pressure, _ = panels_of(plot_body([body()]))
    (dots,), (errors,) = of_vector.collections, error.collections
    x, y, z = (np.asarray(each) for each in dots._offsets3d)
    assert len(x) == 6**3 * 3 / 4 and not np.any((x > 0) & (y < 0))
    np.testing.assert_allclose(np.sort(dots.get_array()), np.sort(2 * np.sqrt(x**2 + y**2 + z**2)))
    np.testing.assert_allclose(errors.get_array(), 1e-3)
    assert "|(u, v, w)|" in of_vector.get_title() and "p" in of_pressure.get_title()


def test_a_body_without_an_exact_solution_has_no_errors():
    assert len(panels_of(plot_body([body(exact=False)]))) == 2
    assert len(panels_of(plot_body([body(("a", "b", "c", "d"), exact=False)]))) == 4
    mixed = [body(("a", "b", "c", "d")), body(("a", "b", "c", "d"), exact=False)]
    assert panels_of(plot_body(mixed))


def test_a_body_has_three_coordinates_of_space():
    for wrong in (flow(), body(coordinates=("x", "y", "t"))):
        with pytest.raises(InputError, match="three coordinates of space"):
            plot_body([wrong])


def over_time(*, coordinates=("x", "y", "t"), exact=True):
    line, times = np.linspace(0, 1, 5), np.linspace(0, 2, 7)
    x = np.stack(np.meshgrid(line, line, times, indexing="ij"), axis=-1).reshape(-1, 3)
    u = (x[:, 0] + x[:, 2])[:, None]
    inside = np.linalg.norm(x[:, :2] - 0.5, axis=1) > 0.1
    known = u + 0.01 if exact else None
    return Prediction(
        "prediction", x, u, u_exact=known, inside=inside, coordinates=coordinates, fields=("u",)
    )


def test_a_field_over_a_plane_and_time_is_drawn_at_four_times():
    figure = plot_times([over_time()])
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles[0] == "$u$, $t = 0$" and titles[3] == "$u$, $t = 2$" and len(titles) == 8
    values, errors = (figure.axes[i].collections[0].get_array() for i in (1, 5))
    np.testing.assert_allclose(np.ptp(values), 1.0)
    np.testing.assert_allclose(np.median(np.asarray(errors)), 0.01)
    assert len(plot_times([over_time(exact=False)]).axes) == 4 + 1
    with pytest.raises(InputError, match="third is named"):
        plot_times([over_time(coordinates=("x", "y", "z"))])

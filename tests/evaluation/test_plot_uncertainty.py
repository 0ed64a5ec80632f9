"""The figures of bands, intervals, profiles, and of where to measure next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from seen import band, line, mesh, names, values

from sciml_par.errors import InputError
from sciml_par.evaluation import (
    Observed,
    Prediction,
    plot_bands,
    plot_corner,
    plot_next_observation,
    plot_profiles,
)
from sciml_par.results.uncertainty import Uncertainty

HALF, SIGMA = 0.2, 0.1
COVARIANCE = np.array([[0.04, 0.01], [0.01, 0.09]])


def solution(x: Any) -> np.ndarray:
    return np.sin(np.asarray(x, float)).sum(axis=1, keepdims=True)


def uncertain(d: int = 1, *, coordinates: tuple[str, ...] = (), **changes: Any) -> Uncertainty:
    axes = np.meshgrid(*[np.linspace(0, 1, 11)] * d, indexing="ij")
    x = np.stack([each.ravel() for each in axes], axis=1)
    places = np.random.default_rng(0).uniform(size=(8, d))
    deviations = np.sqrt(np.diag(COVARIANCE))
    center = np.array([1.0, 2.0])

    def after(z: Any, noise: float) -> np.ndarray:
        share = 1 - 0.5 * np.exp(-20 * ((np.asarray(z) - 0.5) ** 2).sum(axis=1))
        return share[:, None, None] * deviations

    given: dict[str, Any] = {
        "method": "linearized",
        "level": 0.95,
        "names": ("D", "c[0]"),
        "values": center,
        "deviations": deviations,
        "covariance": COVARIANCE,
        "bounds": center[:, None] + 1.96 * deviations[:, None] * np.array([-1, 1]),
        "numerical": np.full(2, np.nan),
        "reach": 1.96,
        "true": np.array([1.1, np.nan]),
        "prediction": Prediction(
            "prediction", x, solution(x), solution(x) + 0.01, coordinates=coordinates
        ),
        "observations": (Observed("data", places, solution(places) + 0.05, np.full(8, SIGMA)),),
        "_bands": lambda z: (solution(z) - HALF, solution(z) + HALF),
        "_after": after,
    }
    return Uncertainty(**{**given, **changes})


def test_a_band_with_observations_and_their_differences() -> None:
    above, below = plot_bands(uncertain(), title="a title").axes
    np.testing.assert_allclose(band(above, 0.0), [-HALF, HALF], atol=1e-12)
    np.testing.assert_allclose(band(below, 1.0), [-HALF, HALF], atol=1e-12)
    np.testing.assert_allclose(values(below, "exact solution"), 0.01)
    ((points, _, _),) = below.containers
    np.testing.assert_allclose(points.get_ydata(), 0.05)
    shown = names(above.figure)
    assert shown == ["prediction", "95 % band", "exact solution", "observations ± σ"]


def test_in_space_and_time_each_observation_is_in_one_slice() -> None:
    figure = plot_bands(uncertain(2, coordinates=("x", "t")))
    assert len(figure.axes) == 8
    below = figure.axes[4:]
    seen = [each[0].get_ydata() for axes in below for each in axes.containers]
    np.testing.assert_allclose(np.concatenate(seen), 0.05)
    assert len(np.concatenate(seen)) == 8
    assert len({axes.get_ylim() for axes in below}) == 1
    assert figure.axes[0].get_title().startswith("$t = ")
    # A slice without observations adds no name to the legend.
    of_data = [name for name in names(figure) if name.startswith("observations")]
    assert of_data == ["observations of times nearby ± σ"]
    # Moved along the solution, an observation has the same distance from the line.
    for axes in figure.axes[:4]:
        for points, _, _ in axes.containers:
            there = np.interp(points.get_xdata(), *line(axes, "prediction").get_data())
            np.testing.assert_allclose(points.get_ydata() - there, 0.05, atol=1e-3)


def test_in_a_plane_half_of_the_width_is_a_map() -> None:
    figure = plot_bands(uncertain(2))
    _, half = (axes for axes in figure.axes if mesh(axes))
    np.testing.assert_allclose(mesh(half).get_array(), HALF)
    assert "half of the 95 % band" in half.get_title().replace("\n", " ")


def test_ellipses_hold_their_share_of_normal_draws() -> None:
    draws = np.random.default_rng(1).multivariate_normal([1.0, 2.0], COVARIANCE, 4000)
    figure = plot_corner(uncertain(method="randomized", draws=draws))
    density, pair, _ = figure.axes
    assert density.get_title() == "$D$ = 1.00\n0.61 to 1.39"
    assert {"true value", "4000 draws", "95 % interval"} <= set(names(figure))
    for share in (0.68, 0.95):
        from matplotlib.path import Path

        outline = Path(np.column_stack(line(pair, f"{100 * share:.0f} % ellipse").get_data()))
        assert outline.contains_points(draws).mean() == pytest.approx(share, abs=0.02)


def test_draws_lie_under_the_ellipses_of_the_linearization() -> None:
    linear = uncertain()
    draws = np.random.default_rng(1).normal([1.0, 2.0], 0.1, (20, 2))
    randomized = replace(
        linear, method="randomized", draws=draws, covariance=np.eye(2), linearized=linear
    )
    ellipses = [
        line(plot_corner(each).axes[1], "95 % ellipse").get_xydata()
        for each in (linear, randomized)
    ]
    np.testing.assert_array_equal(*ellipses)


def test_profiles_over_the_parabola() -> None:
    x = np.linspace(0.4, 1.6, 13)
    profiles = {"D": (x, ((x - 1) / 0.2) ** 2), "c[0]": (x + 1, ((x - 1) / 0.3) ** 2)}
    linear = uncertain()
    figure = plot_profiles(replace(linear, method="profile", profiles=profiles, linearized=linear))
    for axes, (at, rise) in zip(figure.axes, profiles.values(), strict=True):
        parabola = np.interp(at, *line(axes, "linearized").get_data())
        np.testing.assert_allclose(parabola, rise, atol=0.05)
        assert set(values(axes, "95 %")) == {1.96**2}
    with pytest.raises(InputError, match="method='profile'"):
        plot_profiles(linear)


@pytest.mark.parametrize("d", [1, 2])
def test_where_to_measure_next(d: int) -> None:
    figure = plot_next_observation(uncertain(d))
    if d == 1:
        (axes,) = figure.axes
        np.testing.assert_allclose(values(axes, "$D$").min(), 0.5, atol=0.01)
        assert "present observations" in names(figure)
    else:
        maps = [axes for axes in figure.axes if mesh(axes)]
        assert len(maps) == 2
        stars = maps[0].collections[-1].get_offsets()
        np.testing.assert_allclose(stars, [[0.5, 0.5]])
    with pytest.raises(InputError, match="there are no observations"):
        plot_next_observation(uncertain(d, observations=()))
    with pytest.raises(InputError, match="noise"):
        plot_next_observation(uncertain(d), noise=-1.0)


def test_of_very_many_points_a_coarse_grid_is_tried() -> None:
    side = np.linspace(0, 1, 101)
    x = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    inside = ~(x > 0.5).all(axis=1)
    many = Prediction("prediction", x, solution(x), inside=inside)
    first = plot_next_observation(uncertain(2, prediction=many)).axes[0]
    drawn = mesh(first)
    assert 2_000 < len(drawn.get_array()) <= 2_500
    triangles = drawn._triangulation
    corners = triangles.triangles[~triangles.mask].ravel()
    notch = (triangles.x[corners] > 0.52) & (triangles.y[corners] > 0.52)
    assert corners.size and not notch.any()
    np.testing.assert_allclose(first.collections[-1].get_offsets(), [[0.5, 0.5]], atol=0.02)


def test_what_cannot_be_drawn_is_told() -> None:
    with pytest.raises(InputError, match="not known: no noise"):
        plot_bands(uncertain(reason="no noise"))
    with pytest.raises(InputError, match="one or two coordinates"):
        plot_bands(uncertain(3))
    with pytest.raises(InputError, match="call it on rank 0"):
        plot_bands(uncertain(prediction=None))
    with pytest.raises(InputError, match="do not determine"):
        plot_corner(uncertain(deviations=np.array([np.inf, 1.0])))
    with pytest.raises(InputError, match="result.uncertainty"):
        plot_corner("no uncertainty")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="expected x of shape"):
        Observed("data", np.zeros((3, 1)), np.zeros(3), np.ones(2))

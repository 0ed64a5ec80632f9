"""The figure of windows over a field, and of the error in each of them."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import LogNorm
from seen import check_texts, mesh

from sciml_par.errors import InputError
from sciml_par.evaluation import Prediction, plot_windows


def field() -> Prediction:
    axis = np.linspace(0.0, 1.0, 9)
    x = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    return Prediction("a", x, x.prod(axis=1))


def parts(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Corners of count × count equal parts of the unit square."""
    places = np.arange(count) / count
    low = np.stack(np.meshgrid(places, places), axis=-1).reshape(-1, 2)
    return low, low + 1.0 / count


def boxes(axes) -> PolyCollection:
    (found,) = (one for one in axes.collections if isinstance(one, PolyCollection))
    return found


def test_each_window_has_its_outline_and_the_colour_of_its_error() -> None:
    low, high = parts(2)
    error = np.array([1e-3, 1e-9, np.nan, 1e-2])
    figure = plot_windows(field(), low, high, error, title="a title")
    over, errors = figure.axes[:2]
    check_texts(figure)
    np.testing.assert_allclose(mesh(over).get_array(), field().u[:, 0])
    assert over.get_title() == "windows over the field: $u$"
    # The part without a window is left out, and a tiny error takes the least colour.
    np.testing.assert_allclose(boxes(errors).get_array(), [1e-3, 1e-6, 1e-2])
    assert isinstance(boxes(errors).norm, LogNorm)
    for axes in (over, errors):
        corners = [path.vertices[:4] for path in boxes(axes).get_paths()]
        np.testing.assert_allclose([each.min(axis=0) for each in corners], low[[0, 1, 3]])
        np.testing.assert_allclose([each.max(axis=0) for each in corners], high[[0, 1, 3]])


def test_around_a_much_smaller_window_there_is_a_closer_panel() -> None:
    low, high = parts(2)
    low, high = np.vstack([low, [[0.5, 0.25]]]), np.vstack([high, [[0.52, 0.27]]])
    figure = plot_windows(field(), low, high, np.full(5, 0.1))
    *_, closer = (axes for axes in figure.axes if axes.get_title())
    assert closer.get_title().split() == ["error,", "near", "the", "smallest", "window"]
    np.testing.assert_allclose(closer.get_xlim(), [0.35, 0.67])
    np.testing.assert_allclose(closer.get_ylim(), [0.1, 0.42])


def test_what_is_no_window_is_refused() -> None:
    low, high = parts(2)
    with pytest.raises(InputError, match="corners of the shape"):
        plot_windows(field(), low, high, np.ones(3))
    with pytest.raises(InputError, match="known in no window"):
        plot_windows(field(), low, high, np.full(4, np.nan))

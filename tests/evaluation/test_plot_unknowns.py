"""The figure of unknown coefficients."""

from __future__ import annotations

import numpy as np
import pytest

from sciml_par.errors import InputError
from sciml_par.evaluation import UnknownCurve, plot_unknowns

STEP = np.arange(0, 50, 10)


def curve(name: str = "D", label: str = "found", **changes: object) -> UnknownCurve:
    given = {"step": STEP, "value": np.linspace(1.0, 2.0, 5), "true": 1.9, **changes}
    return UnknownCurve(name, label, **given)  # type: ignore[arg-type]


def test_each_coefficient_has_a_panel_with_its_true_value() -> None:
    curves = [curve(name, label) for name in ("a", "b", "c") for label in ("rank 0", "rank 1")]
    figure = plot_unknowns(curves, title="three")
    assert [axes.get_ylabel() for axes in figure.axes] == ["a", "b", "c"]
    for axes in figure.axes:
        lines = {line.get_label(): line for line in axes.lines}
        assert set(lines) == {"true value", "rank 0", "rank 1"}
        assert set(lines["true value"].get_ydata()) == {1.9}
        np.testing.assert_array_equal(lines["rank 1"].get_ydata(), curves[0].value)
        low, high = axes.get_ylim()
        assert low < 1.0 < 2.0 < high
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["rank 0", "rank 1", "true value"]


def test_what_is_not_known_has_no_line() -> None:
    (axes,) = plot_unknowns([curve(true=None)]).axes
    assert [line.get_label() for line in axes.lines] == ["found"]


def test_decades_are_on_a_log_scale() -> None:
    (axes,) = plot_unknowns([curve(value=np.logspace(0, -4, 5), true=1e-4)]).axes
    assert axes.get_yscale() == "log"
    (axes,) = plot_unknowns([curve(value=np.logspace(0, -4, 5), true=-1.0)]).axes
    assert axes.get_yscale() == "linear"


def test_of_many_coefficients_the_first_are_drawn() -> None:
    figure = plot_unknowns([curve(f"c[{i}]") for i in range(12)])
    assert [axes.get_ylabel() for axes in figure.axes] == [f"c[{i}]" for i in range(8)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"value": np.ones(4)}, "numbers in one axis"),
        ({"step": STEP[::-1]}, "never decrease"),
        ({"step": np.array([]), "value": np.array([])}, "numbers in one axis"),
    ],
)
def test_mistakes(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        curve(**changes)
    with pytest.raises(InputError, match="expected one UnknownCurve or more"):
        plot_unknowns([])

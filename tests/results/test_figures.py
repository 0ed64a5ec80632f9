"""Which figures a run draws, and what they say of its members."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_by_hand import contribution, diverged, ended, ensemble, make_member, one_model, wave

from sciml_par.problems import Box, Interval
from sciml_par.results import ErrorEstimate, Result
from sciml_par.results.member import in_the_mean
from sciml_par.results.stored import figures

pytestmark = pytest.mark.ranks(most=1, reason="drawn by one rank from members made by hand")


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The figures that would have been written, by name."""
    found: dict[str, Any] = {}
    monkeypatch.setattr(
        figures, "save_figure", lambda figure, _, name: found.update({name: figure})
    )
    return found


def draw(result: Result, title: str | None = None) -> None:
    figures.write_figures(result.members, Path("unused"), mode=result.mode, title=title)


def texts_of(figure: Any) -> list[str]:
    """All texts, those that are broken into lines as one line."""
    found = figure.findobj(match=lambda artist: hasattr(artist, "get_text"))
    return [text.get_text().replace("\n", " ") for text in found]


def test_the_title_and_the_problems_reach_the_figures(drawn: dict[str, Any]) -> None:
    draw(ensemble(), title="A title")
    assert set(drawn) == {"loss", "prediction", "error"}
    for figure in drawn.values():
        assert "A title" in texts_of(figure)
        assert any("rank 1, member 3: poisson, k = 4" in text for text in texts_of(figure))


def test_a_notebook_shows_the_text_and_the_prediction() -> None:
    result = ensemble()
    page = result._repr_html_()
    assert page.startswith("<pre ") and 'src="data:image/png;base64,iVBOR' in page
    domain = Box([0.0] * 3, [1.0] * 3)
    unknown = wave(0, domain, known=False, points=8)
    assert "<img" not in ensemble(make_member(0, domain=domain, prediction=unknown))._repr_html_()


@pytest.mark.parametrize("dimension", [2, 3])
def test_figures_without_an_exact_solution(drawn: dict[str, Any], dimension: int) -> None:
    """No error to draw; and in three dimensions, the body instead of a prediction."""
    domain = Box([0.0] * dimension, [1.0] * dimension)
    unknown = wave(0, domain, known=False, points=2**dimension)
    draw(ensemble(make_member(0, domain=domain, prediction=unknown)))
    assert set(drawn) == {"loss", "prediction" if dimension == 2 else "body"}


def test_in_three_dimensions_predicted_stand_over_exact_values(drawn: dict[str, Any]) -> None:
    domain = Box([0.0] * 3, [1.0] * 3)
    draw(ensemble(make_member(0, domain=domain, prediction=wave(0, domain, points=8))))
    assert set(drawn) == {"loss", "prediction", "body"}


def test_members_that_did_not_simply_finish_are_marked_and_not_in_the_mean(
    drawn: dict[str, Any],
) -> None:
    members = make_member(0), ended(1), diverged(2)
    labels = figures.labels_of(members, mode="ensemble")
    assert [label.partition("poisson")[2] for label in labels] == [
        ", k = 1",
        ", k = 2 (ended at step 7)",
        ", k = 3 (diverged)",
    ]
    assert in_the_mean(members) == [True, False, False]
    draw(ensemble(*members))
    for figure in drawn.values():
        assert any("(ended at step 7)" in text for text in texts_of(figure))


def test_labels_say_no_more_than_is_needed() -> None:
    alone = [make_member(number, rank=number, problem="same") for number in range(2)]
    assert figures.labels_of(alone, mode="ensemble") == ["rank 0", "rank 1"]
    two = [make_member(number, problem="same") for number in range(2)]
    assert figures.labels_of(two, mode="ensemble") == ["rank 0, member 0", "rank 0, member 1"]
    assert figures.labels_of(one_model().members, mode="data") == ["prediction"]


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_the_estimated_error_is_in_the_figure_of_the_prediction(
    drawn: dict[str, Any], dimension: int
) -> None:
    domain = Box([0.0] * dimension, [1.0] * dimension)
    prediction = wave(0, domain)
    e = prediction.exact - prediction.u
    size = np.array([0.01])
    known = ErrorEstimate(0.01, size, 50.0, values=e)
    bound = ErrorEstimate(0.1, 10 * size, 1.0, values=e, at_rounding=True)
    unknown = ErrorEstimate.not_known(1, "it is not")
    elsewhere = ErrorEstimate(0.01, size, 50.0, values=e[1:])
    sizes = {}
    for error in (known, bound, unknown, elsewhere, None):
        member = make_member(0, domain=domain, prediction=prediction, error=error)
        estimate = figures.drawn_prediction(member, "a", sound=True).estimated_error
        draw(ensemble(member))
        shown = any("|estimated error|" in text for text in texts_of(drawn["prediction"]))
        assert shown == (estimate is not None) == (error in (known, bound))
        sizes[error] = 0.0 if estimate is None else np.abs(estimate).max()
    assert sizes[known] == pytest.approx(0.01) and sizes[bound] == pytest.approx(0.1)


def test_an_estimated_error_alone_has_a_figure_in_three_dimensions(drawn: dict[str, Any]) -> None:
    domain = Box([0.0] * 3, [1.0] * 3)
    prediction = wave(0, domain, known=False, points=27)
    error = ErrorEstimate(0.01, np.array([0.01]), 50.0, values=0.01 + 0 * prediction.u)
    draw(ensemble(make_member(0, domain=domain, prediction=prediction, error=error)))
    assert set(drawn) == {"loss", "prediction", "body"}
    assert "|estimated error|" in texts_of(drawn["prediction"])


def test_a_single_record_has_no_figure_of_the_loss(drawn: dict[str, Any]) -> None:
    """As that of `solve`, which takes no steps."""
    once = {
        "losses": [0.5],
        "loss_steps": np.array([0]),
        "term_losses": np.ones((1, 2)),
        "steps": 0,
    }
    draw(one_model(**once))
    assert set(drawn) == {"prediction", "error"}
    draw(ensemble(make_member(0, **once), make_member(1)))
    assert "loss" in drawn


def test_the_shards_of_one_model_are_those_of_its_ranks() -> None:
    parts = Interval(-1, 1).split(3)
    member = make_member(0, contributions=[contribution(r, part) for r, part in enumerate(parts)])
    shards = figures.drawn_prediction(member, "prediction", sound=True).shards
    assert [shard.label for shard in shards] == ["rank 0", "rank 1", "rank 2"]
    for shard, part in zip(shards, parts, strict=True):
        np.testing.assert_array_equal(shard.training_points, part.grid(9))
        np.testing.assert_array_equal(shard.corners, (part.lower, part.upper))

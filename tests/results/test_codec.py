"""Records are read as they were written, by the types of their fields."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest

from sciml_par.results.stored.codec import arrays_of, from_json, read, to_json, with_arrays

pytestmark = pytest.mark.ranks(most=1, reason="local")


class Step(NamedTuple):
    number: int
    size: float = 1.0


@dataclass(frozen=True)
class Run:
    name: str
    best_loss: float
    loss: float = 0.0
    box: tuple[tuple[float, ...], tuple[int, ...]] | None = None
    steps: tuple[Step, ...] = ()
    by_name: Mapping[str, Step] = field(default_factory=dict)
    inner: Run | None = None


@dataclass(frozen=True, eq=False)
class Curve:
    label: str
    x: np.ndarray
    y: np.ndarray


def test_a_record_is_what_it_was() -> None:
    inner = Run("b", 0.5, box=((0.5, 1.0), (2,)), steps=(Step(1), Step(2, 3.0)))
    run = Run("a", math.inf, loss=math.nan, by_name={"first": Step(7)}, inner=inner)
    text = json.dumps(to_json(run), allow_nan=False)
    found = from_json(Run | None, json.loads(text))
    assert math.isnan(found.loss) and found.best_loss == math.inf
    assert found.inner == inner and found.by_name == run.by_name and found.box is None


def test_what_older_entries_lack_has_its_default() -> None:
    assert read(Run, {"name": "a", "best_loss": 1.0, "unknown": 3}) == Run("a", 1.0)
    with pytest.raises(KeyError, match="best_loss"):
        read(Run, {"name": "a"})


def test_entries_may_have_other_names_and_another_order() -> None:
    names = {Run: "loss called=name first=inner.name", Curve: "both=x,label"}
    run = Run("a", 1.0, inner=Run("b", 2.0))
    assert list(to_json(run, names).items()) == [("loss", 0.0), ("called", "a"), ("first", "b")]
    curve = Curve("c", np.array([1.0, np.nan]), np.zeros(2, np.float32))
    assert to_json({"curve": curve}, names) == {"curve": {"both": [[1.0, None], "c"]}}


def test_arrays_are_apart() -> None:
    curve = Curve("c", np.arange(3.0), np.zeros(2, np.float32))
    arrays = arrays_of(curve, "{}_of_7")
    assert list(arrays) == ["x_of_7", "y_of_7"]
    found = with_arrays(Curve, {"label": "c"}, arrays, "{}_of_7")
    assert found.label == "c" and found.x is curve.x and found.y is curve.y

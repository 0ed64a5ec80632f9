"""The page on limits lists the missing features; a feature that is added must leave the list."""

from __future__ import annotations

import inspect

import keras
import pytest
from launch import ROOT

from sciml_par import networks, problems, train, training
from sciml_par.errors import InputError

SECTION = (ROOT / "docs" / "limits.md").read_text().partition("## Missing features\n")[2]
SECTION = " ".join(SECTION.partition("\n## ")[0].split())  # a sentence, however its lines break


def classes(package: object, base: type) -> set[str]:
    """Return the public classes of a package that derive from `base`, without `base`."""
    found = {name: getattr(package, name) for name in dir(package)}
    found = {name: value for name, value in found.items() if inspect.isclass(value)}
    return {name for name, value in found.items() if issubclass(value, base) and value != base}


def test_domains_and_conditions() -> None:
    assert "intervals, boxes and balls" in SECTION and "ellipses and polygons" in SECTION
    assert classes(problems, problems.Domain) == {
        "Ball",
        "Box",
        "Ellipse",
        "Extruded",
        "Interval",
        "Mesh",
        "PointCloud",
        "Polygon",
        "Time",
    }
    kinds = classes(problems, problems.Condition)
    assert kinds and sorted(name for name in kinds if name not in SECTION) == []


def test_networks_and_optimizers() -> None:
    for layer in (keras.layers.Dropout(0.1), keras.layers.BatchNormalization()):
        assert f"`{type(layer).__name__}`" in SECTION
        with pytest.raises(InputError, match=type(layer).__name__):
            networks.make_network(keras.Sequential([layer, keras.layers.Dense(1)]))
    updates = classes(training, training.FirstOrder)
    assert updates == {"Adam", "AdamW", "SGD", "RMSprop"}
    assert "Adam, AdamW, SGD and RMSprop" in SECTION
    steps = {n for n in dir(training) if hasattr(getattr(training, n), "step")}
    residuals = {"LeastSquares", "LevenbergMarquardt", "SPRING"}
    assert steps == updates | residuals | {"FirstOrder", "LBFGS", "SSBroyden"}
    assert "quasi-Newton methods LBFGS and SSBroyden" in SECTION
    assert "Gauss–Newton methods LevenbergMarquardt, SPRING and LeastSquares" in SECTION


def test_unknowns_are_coefficients_and_functions() -> None:
    assert "functions of coordinates or of the solution" in SECTION
    assert "Functions have no history, and an ansatz cannot depend on unknowns" in SECTION
    unknowns = {"Unknown", "UnknownFunction"}
    assert {name for name in dir(problems) if name.startswith("Unknown")} == unknowns
    for unknown in (1.0, problems.UnknownFunction(1.0)):
        with pytest.raises(InputError, match="ansatz cannot depend on unknowns"):
            problems.Problem(
                problems.Interval(0, 1),
                lambda u, x, *, k: u(x),
                ansatz=lambda n, x, *, k: n(x),
                unknowns={"k": unknown},
            )


def test_train_draws_no_points() -> None:
    arguments = inspect.signature(train).parameters
    assert "steps" in arguments
    assert [name for name in arguments if "batch" in name or "resample" in name] == []

"""What the README says the package does not do yet: who adds it has to change that section."""

from __future__ import annotations

import inspect

import pytest
from launch import ROOT

from sciml_par import networks, problems, train, training

SECTION = (ROOT / "README.md").read_text().partition("## What it does not do yet\n")[2]
SECTION = SECTION.partition("\n## ")[0]


def classes(package: object, base: type) -> set[str]:
    """The public classes of a package that derive from `base`, itself left out."""
    found = {name: getattr(package, name) for name in dir(package)}
    found = {name: value for name, value in found.items() if inspect.isclass(value)}
    return {name for name, value in found.items() if issubclass(value, base) and value != base}


def test_domains_and_conditions() -> None:
    assert "axis-parallel boxes" in SECTION
    with_boundary = {n for n in dir(problems) if hasattr(getattr(problems, n), "boundary")}
    assert with_boundary == {"Box", "Interval"}
    assert classes(problems, problems.Condition) == {"Dirichlet", "Neumann", "Robin"}
    assert "Dirichlet, Neumann and Robin conditions on the boundary" in SECTION


def test_networks_and_optimizers() -> None:
    made = {n for n in dir(networks) if hasattr(getattr(networks, n), "trainable_variables")}
    assert made == {"MLP"} and "the `MLP`" in SECTION
    updates = {n for n in dir(training) if hasattr(getattr(training, n), "update")}
    assert updates == {"Adam"} and "Adam with a constant learning rate" in SECTION
    assert training.Adam.__dataclass_fields__["learning_rate"].type in (float, "float")


@pytest.mark.parametrize(
    "words",
    [
        ("batch", "resample", "weights"),
        ("unknowns",),
    ],
)
def test_train_has_no_argument_for_it(words: tuple[str, ...]) -> None:
    arguments = inspect.signature(train).parameters
    assert "steps" in arguments and SECTION
    assert [name for name in arguments if any(word in name for word in words)] == []

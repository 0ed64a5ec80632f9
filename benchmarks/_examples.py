"""The programs of examples/ and the problems of the catalogue, by name."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sciml_par.problems import catalogue_entries

sys.path.append(str(Path(__file__).parents[1] / "examples"))

from _programs import FOLDER, NAMES, equation_of, example, problem_named  # noqa: E402

__all__ = ["ALL", "NAMES", "equation_named", "example", "goal_of", "problem_named", "training_of"]

ALL = (*catalogue_entries(), *NAMES)
_GOALS = dict.fromkeys(
    ("l-shape", "allen-cahn", "reaction-diffusion", "kdv", "schroedinger", "kovasznay", "cavity"),
    1e-2,
)
_EVALUATED = {1: 401, 2: 101**2}
"""About how many points the error is measured at, by the dimension; as scripts/solve.py does."""


def goal_of(name: str) -> float:
    """Return the relative L2 error that the settings of a problem are to reach."""
    known = catalogue_entries().get(name)
    return known.goal if known is not None else _GOALS.get(name, 1e-4)


def equation_named(name: str) -> str:
    """Return the equation of a problem in one line."""
    return equation_of(name) if name in NAMES else catalogue_entries()[name].equation


def settings_of(name: str) -> dict[str, Any]:
    """Return what tells whether the settings of a problem have changed, as JSON."""
    if name not in NAMES:
        return asdict(catalogue_entries()[name].suggestion)
    text = (FOLDER / f"{name.replace('-', '_')}.py").read_bytes()
    return {"program": hashlib.sha256(text).hexdigest()}


def training_of(name: str) -> dict[str, Any]:
    """Return the settings of a problem as arguments of `train`; call it after `init`."""
    if name in NAMES:
        points = _EVALUATED.get(example(name).problem().domain.dimension, 60_000)
        return {**example(name).TRAINING, "evaluation_points": points}
    from sciml_par.programs import parse_solving_options

    options = parse_solving_options(None, arguments=[name])
    return options.training(Path()) | {"checkpoint": None}

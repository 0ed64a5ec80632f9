"""The programs of examples/ and the problems of the catalogue, by name."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
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
    known = catalogue_entries().get(name)
    return known.goal if known is not None else _GOALS.get(name, 1e-4)


def equation_named(name: str) -> str:
    return equation_of(name) if name in NAMES else catalogue_entries()[name].equation


def two_scales(
    optimizer: str, steps: int, points: int, width: int, precision: str = "float64", **options: Any
) -> Any:
    """Train a network of three layers on Poisson's equation with two scales (collective)."""
    from sciml_par import networks, train, training

    return train(
        problem_named("poisson-two-scales", k=2),
        network=partial(networks.MLP, width=width, depth=3),
        optimizer=getattr(training, optimizer)(),
        steps=steps,
        points=training.Points(points, boundary=400, method="sobol"),
        precision=precision,
        progress=False,
        **options,
    )


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
    from sciml_par.programs import CatalogueOptions

    options = CatalogueOptions.parse(None, arguments=[name])
    return options.training(Path()) | {"checkpoint": None}


def panels(
    names: Sequence[str],
    draw: Callable[[Any, str], dict[str, Any]],
    file: Path,
    *,
    columns: int,
    size: tuple[float, float],
    x: str,
) -> None:
    """Draw a panel for each name, errors over `x`; `draw` returns what the legend below has."""
    from matplotlib.figure import Figure

    from sciml_par.evaluation.figures.parts.style import paper_style

    rows, handles = -(-len(names) // columns), {}
    with paper_style():
        figure = Figure(figsize=(size[0] * columns, size[1] * rows + 0.6), layout="constrained")
        for place, name in enumerate(names):
            axes = figure.add_subplot(rows, columns, place + 1)
            handles |= draw(axes, name)
            axes.set_xlabel(x if place >= len(names) - columns else "")
            axes.set_ylabel("relative L2 error" if place % columns == 0 else "")
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=130)

"""Which methods of `baselines.py` solve which problem with what settings, and the package's own."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from _baselines_problems import CASES, SEEDS, Case

Setting = tuple[Any, ...]

SOLVE, TRAIN, DEEPXDE = "sp.solve", "sp.train", "DeepXDE"
"""The package twice, and the one method in another environment."""


@dataclass(frozen=True)
class Method:
    """A method for one problem.

    Attributes
    ----------
    label : for tables and figures.
    function : the module `_baselines_MODULE` and a function in it, as "elements.plate".
    settings : its arguments, from cheap to expensive; `--quick` runs the first alone.
    name, place : of the argument that tables show.
    """

    label: str
    function: str
    settings: tuple[Setting, ...]
    name: str
    place: int = 0

    def solver(self) -> Callable[..., Any]:
        module, _, name = self.function.partition(".")
        return getattr(import_module(f"_baselines_{module}"), name)

    def shown(self, setting: Setting) -> str:
        value = setting[self.place]
        return f"{self.name} {value:,}" if isinstance(value, int) else f"{self.name} {value:g}"


def _elements(
    function: str, settings: dict[int, tuple[Any, ...]], label: str = "FEM", name: str = "cells"
) -> list[Method]:
    """Return finite elements by degree, each on several meshes, or with (cells, tolerance)."""
    return [
        Method(
            f"{label}, P{degree}",
            function,
            tuple((degree, *(each if isinstance(each, tuple) else (each,))) for each in some),
            name,
            place=1,
        )
        for degree, some in settings.items()
    ]


def _in_a_cube(
    name: str, dimension: int, degrees: tuple[int, ...], walks: tuple[int, ...]
) -> list[Method]:
    grids = tuple((name, dimension, degree) for degree in degrees)
    points = tuple((name, count) for count in walks)
    return [
        Method("Chebyshev", "simple.poisson_box", grids, "degree", place=2),
        Method("walks on spheres", "simple.walks_on_spheres", points, "walks", place=1),
    ]


_OF_SEEDS = tuple((seed,) for seed in SEEDS)
_DIRECT: dict[str, list[Method]] = {
    "poisson-2d": [
        *_elements("elements.poisson_square", {1: (16, 64, 256), 2: (8, 32, 128), 3: (8, 32, 96)}),
        Method("Chebyshev", "simple.poisson_square", ((6,), (10,), (16,)), "degree"),
    ],
    "l-shape": [
        *_elements("elements.l_shape", {1: (8, 32, 128), 2: (8, 32, 96), 3: (8, 32, 64)}),
        *_elements(
            "elements.l_shape_adaptive",
            dict.fromkeys((1, 2, 3), (1000, 10_000, 40_000)),
            "adaptive FEM",
            "unknowns",
        ),
        Method("rational functions", "simple.l_shape", ((10,), (20,), (40,), (60,)), "poles"),
    ],
    "plate-hole": _elements("elements.plate", dict.fromkeys((1, 2), (4, 16, 48, 96))),
    "heat": [
        *_elements(
            "evolution.heat",
            {
                1: ((16, 1e-3), (64, 1e-4), (256, 1e-5)),
                2: ((16, 1e-5), (64, 1e-7), (128, 1e-8)),
                3: ((16, 1e-6), (32, 1e-8), (96, 1e-10)),
            },
        ),
        Method("Chebyshev", "simple.heat", ((8,), (16,), (24,)), "degree"),
    ],
    "burgers": [
        *_elements(
            "evolution.burgers",
            {
                1: ((32, 1e-3), (128, 1e-4), (256, 1e-5)),
                2: ((32, 1e-3), (64, 1e-4), (128, 1e-6)),
                3: ((32, 1e-5), (96, 1e-7), (192, 1e-9)),
            },
        ),
        Method("Fourier", "simple.burgers", ((512, 500), (1024, 1000), (2048, 2000)), "modes"),
    ],
    "taylor-green": [
        Method("FEM, P2", "evolution.vortex", ((8, 20), (16, 50), (32, 150)), "cells"),
        Method("Fourier", "simple.vortex", ((8, 20), (16, 50)), "modes"),
    ],
    "poisson-5d": _in_a_cube("poisson-5d", 5, (4, 6, 8, 10), walks=(10, 100, 500)),
    "poisson-10d": _in_a_cube("poisson-10d", 10, (2, 3, 5), walks=(10, 100)),
    "inverse-diffusion": [Method("FEM, least squares", "evolution.diffusion", _OF_SEEDS, "seed")],
    "conductivity": [Method("FEM, least squares", "evolution.conduction", _OF_SEEDS, "seed")],
}
"""By problem: the methods that are NumPy, SciPy or scikit-fem."""

_BY_DEEPXDE = ("poisson-2d", "heat", "burgers", "inverse-diffusion")


def prepare() -> None:
    """Import what the package imports at its first use, before the time counts."""
    import keras  # noqa: F401
    import tensorflow  # noqa: F401

    import sciml_par as sp

    sp.init()
    _ = sp.solve, sp.train
    # The limit of 120 s, too, counts processor seconds: other programs may slow the machine.
    time.perf_counter = time.process_time


def solve(case: Case, setting: float) -> dict[str, Any]:
    """Solve to a tolerance, or, with data of a seed, to the default one."""
    import sciml_par as sp

    warnings.simplefilter("ignore")
    if case.inverse:
        return _inverse(case, sp.solve(case.make(seed=setting), progress=False))
    result = sp.solve(case.make(), tolerance=setting, progress=False)
    return {
        "solution": lambda x: result.predict(x).mean[:, : case.components],
        "estimate": result.error.relative,
        "network": type(result.networks[0]).__name__,
    }


def train(case: Case, seed: int) -> dict[str, Any]:
    """Train as docs/inverse-problems.md does for data with noise."""
    import sciml_par as sp
    from sciml_par.networks import MLP
    from sciml_par.training import LevenbergMarquardt

    depth, steps, points = (1, 300, 120) if callable(case.true) else (2, 200, 240)
    warnings.simplefilter("ignore")
    result = sp.train(
        case.make(seed=seed),
        network=partial(MLP, width=8, depth=depth),
        optimizer=LevenbergMarquardt(),
        steps=steps,
        points=points,
        precision="float64",
        progress=False,
    )
    return _inverse(case, result)


def _inverse(case: Case, result: Any) -> dict[str, Any]:
    """Return the unknown with its 95 % interval; for a function, the share of k in its band."""
    found, uncertain = result.unknowns[case.unknown], result.uncertainty()
    if callable(case.true):
        x = np.linspace(0, 1, 101)[:, None]
        low, high = uncertain.bands(x, of=case.unknown)
        true = case.true(x)
        return {"solution": found, "covers": float(np.mean((low <= true) & (true <= high)))}
    low, high = uncertain.intervals[case.unknown]
    return {
        "value": float(found.mean),
        "deviation": float(uncertain.deviations[0]),
        "covers": float(low <= case.true <= high) if uncertain.known else math.nan,
    }


def methods_of(case: Case) -> dict[str, Method]:
    if case.inverse:
        # A run of `sp.solve` takes 100 s.
        found = [Method(SOLVE, "methods.solve", _OF_SEEDS[:2], "seed")]
        found.append(Method(TRAIN, "methods.train", _OF_SEEDS, "seed"))
    else:
        tolerances = tuple((each,) for each in case.tolerances)
        found = [Method(SOLVE, "methods.solve", tolerances, "tolerance")]
    found += _DIRECT[case.name]
    if case.name in _BY_DEEPXDE:
        settings = _OF_SEEDS if case.inverse else _OF_SEEDS[:1]
        found.append(Method(DEEPXDE, "", settings, "seed"))
    return {each.label: each for each in found}


METHODS = {name: methods_of(case) for name, case in CASES.items()}

"""How many points windows need on the boundary."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

from sciml_par._tensorflow import import_module
from sciml_par.problems.domains.box import Box
from sciml_par.problems.problem import Problem
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.points.in_boxes import InBoxes
from sciml_par.training.points.points import Points

_PER_SIDE = 4.0
_DEFAULT_FEATURES = 300


def with_points_of_windows(given: Arguments) -> Arguments:
    """Return the arguments with enough boundary points for windows, where these are left open.

    Parts outside of the domain have no window.

    A side of a window on the boundary has about four points for each unit of the (d−1)/d-th power
    of its features, which is as dense as four points for each feature inside (local).
    """
    windows: Any = import_module("sciml_par.networks").Windows
    network: Any = given.network
    if not isinstance(network, windows) or not isinstance(given.problem, Problem):
        return given
    domain = given.problem.domain
    if not math.isfinite(domain.volume):
        return given
    changed = network.splits or network.enriched
    if changed or not isinstance(domain, Box):
        partition = network.partition(domain.lower, domain.upper)
        lower, upper = partition.boxes()
        boxes = InBoxes.of(domain, lower, upper, partition.richness)
        unused = sorted({*network.unused, *boxes.outside})
        given = replace(given, network=replace(network, unused=unused))
    points = None if given.points is None else Points.of(given.points)
    if points is None or not isinstance(points.interior, int):
        return given
    if changed:
        points = points.with_changes(boxes=boxes.used())
    d = domain.dimension
    if points.boundary is not None or d == 1:
        return replace(given, points=points)
    if points.boxes is not None:
        sides = points.boxes.sides
    else:
        parts = network.parts if isinstance(network.parts, tuple) else (network.parts,) * d
        sides = sum(2 * math.prod(parts) // n for n in parts)
    inner = network.inner
    chosen = inner.keywords if isinstance(inner, partial) else {}
    features = int(chosen.get("features", chosen.get("width", _DEFAULT_FEATURES)))
    wanted = math.ceil(_PER_SIDE * sides * features ** ((d - 1) / d))
    usual = math.ceil(2 * d * points.interior ** ((d - 1) / d))
    if wanted <= usual and points.boxes is None:
        return given
    return replace(given, points=points.with_changes(boundary=wanted))

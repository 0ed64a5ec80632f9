"""Intervals of many data sets: by the package, and by least squares with the exact solution."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import _coverage_statistics as statistics
import numpy as np
import numpy.typing as npt
from _coverage_problems import Case
from _coverage_statistics import LEVELS
from _coverage_training import Start, train_members

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Intervals:
    """Of B data sets, the unknowns [q] first and then the solution at the points of bands [k].

    Attributes
    ----------
    values, deviations : [B, q + k].
    ends : of the intervals by level, [B, q + k, 2] each.
    """

    values: FloatArray
    deviations: FloatArray
    ends: dict[float, FloatArray]


def data_sets(case: Case, sigma: float, number: int, seed: int) -> FloatArray:
    """Return observations with errors: [B, n, m]."""
    shape = (number, *case.observed.shape)
    return case.observed + sigma * np.random.default_rng([seed, 5]).normal(size=shape)


def by_the_package(
    case: Case, start: Start, data: FloatArray, sigma: float, *, block: int, seed: int
) -> tuple[Intervals, dict[str, float]]:
    """Return the intervals of `Result.uncertainty`, and seconds a data set."""
    parts, trained, read = [], 0.0, 0.0
    for first in range(0, len(data), block):
        began = time.perf_counter()
        result = train_members(case, start, data[first : first + block], sigma, seed)
        trained += time.perf_counter() - began
        began = time.perf_counter()
        parts += [_of_member(case, result, number) for number in range(len(result.members))]
        read += time.perf_counter() - began
    linearized = [seconds for _, seconds in parts]
    seconds = {
        "training": (trained - sum(linearized)) / len(data),
        "linearization": float(np.mean(linearized)),
        "bands": read / len(data),
    }
    return _joined([found for found, _ in parts]), seconds


def _of_member(case: Case, result: Any, number: int) -> tuple[Intervals, float]:
    member = result.members[number]
    values = np.array([member.unknowns[name] for name in case.unknowns]).ravel()
    ends, centre, deviations = {}, None, None
    for level in LEVELS:
        found = result.uncertainty(level, member=number)
        if not found.known:
            raise RuntimeError(f"member {number} of {case.name}: {found.reason}")
        lower, upper = (
            each[:, : case.observed.shape[1]].ravel() for each in found.bands(case.bands)
        )
        centre = (lower + upper) / 2
        reach = (upper - lower) / 2 / statistics.half_width(level)
        deviations = np.concatenate([found.deviations, reach])
        ends[level] = np.concatenate([found.bounds, np.stack([lower, upper], axis=1)])
    assert centre is not None and deviations is not None
    return Intervals(np.concatenate([values, centre]), deviations, ends), member.linearized.seconds


def _joined(parts: Sequence[Intervals]) -> Intervals:
    return Intervals(
        np.stack([each.values for each in parts]),
        np.stack([each.deviations for each in parts]),
        {level: np.stack([each.ends[level] for each in parts]) for level in LEVELS},
    )


def by_the_exact_solution(case: Case, data: FloatArray, sigma: float) -> Intervals:
    """Return estimate ± z · deviation of least squares with the exact solution."""
    fits = statistics.least_squares(
        observed_by(case), data.reshape(len(data), -1), sigma, case.true
    )
    values, deviations = _of_all(case, fits.estimates, fits.covariances)
    return Intervals(values, deviations, statistics.symmetric(values, deviations))


def truth_and_bound(case: Case, sigma: float) -> tuple[FloatArray, FloatArray]:
    """Return the true values and the Cramér–Rao bounds of their deviations, [q + k] each."""
    c = case.true[None]
    values, bound = _of_all(case, c, statistics.covariances(observed_by(case), c, sigma))
    return values[0], bound[0]


def observed_by(case: Case) -> statistics.Model:
    """Return the observations as a function of the coefficients."""
    return lambda c: case.solution(c, case.places).reshape(len(c), -1)


def _of_all(case: Case, c: FloatArray, covariances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return values and deviations of unknowns and bands from those of all coefficients."""
    q = len(case.unknowns)

    def quantities(each: FloatArray) -> FloatArray:
        bands = case.solution(each, case.bands).reshape(len(each), -1)
        return np.concatenate([each[:, :q], bands], axis=1)

    s = statistics.sensitivity(quantities, c)
    return quantities(c), np.sqrt(np.einsum("bki,bij,bkj->bk", s, covariances, s))

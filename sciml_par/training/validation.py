"""The loss at points that were not trained on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.objective import field_of
from sciml_par.training.parameter_layout import ParameterLayout
from sciml_par.training.points.make_feed import make_feed
from sciml_par.training.points.points import Points
from sciml_par.training.points.rank_feed import RankFeed
from sciml_par.training.settings import Settings
from sciml_par.training.stack import MemberSetup

FloatArray = npt.NDArray[np.float64]

_LEAST_POINTS, _MOST_POINTS = 256, 10_000
_SEED = 811


def validation_loss(
    setup: MemberSetup,
    points: Any,
    weights: npt.NDArray[Any],
    *,
    layout: ParameterLayout,
    settings: Settings,
    group: Communicator,
) -> float:
    """L at as many other points, in the interior 256 to 10,000 of Sobol's sequence (collective).

    Where interior points were given, the others are those midway between each of them and the
    nearest one, since nothing else is known of where they lie. Points that were given for
    conditions stay as they are.

    Parameters
    ----------
    setup : the member, with its training points on this rank.
    points : as `train` was given them.
    weights : θ, [p].
    group : the ranks that trained it.

    Returns
    -------
    the loss; NaN where the residuals cannot be computed at other points, such as those with
    measured values.
    """
    try:
        feed = _other_points(setup, points, settings, group)
        sums = _sums(setup, feed, weights, layout, settings)
    except Exception:  # TensorFlow and the user's own functions raise all kinds
        sums = np.array([math.nan])
    everyone = group.allgather_object(sums)
    lengths = {len(each) for each in everyone}
    return float(sum(each.sum() for each in everyone)) if len(lengths) == 1 else math.nan


def _other_points(
    setup: MemberSetup, points: Any, settings: Settings, group: Communicator
) -> RankFeed:
    domain = setup.problem.domain
    if math.isnan(domain.volume) or not setup.problem.residuals:
        raise InputError("a cloud and data have no other points than their own")
    wanted = Points.of(points)
    given = wanted.interior
    if isinstance(given, np.ndarray):
        midpoints = _midpoints(given)
        interior: Any = midpoints[domain.admits(midpoints)]
    else:
        interior = min(max(setup.feed.totals[0], _LEAST_POINTS), _MOST_POINTS)
    other = wanted.with_changes(
        interior=interior,
        method="sobol",
        batch_size={},
        resample_every=None,
        adapt=None,
        seed=_SEED + settings.seed,
    )
    return make_feed(
        setup.problem,
        other,
        rank=group.rank,
        size=group.size,
        seed=settings.seed,
        dtype=settings.precision,
    )


def _midpoints(points: FloatArray) -> FloatArray:
    from scipy.spatial import KDTree

    others = np.unique(points, axis=0)
    _, nearest = KDTree(others).query(others, k=2)
    return np.unique((others + others[nearest[:, 1]]) / 2, axis=0)[:_MOST_POINTS]


def _sums(
    setup: MemberSetup,
    feed: RankFeed,
    weights: npt.NDArray[Any],
    layout: ParameterLayout,
    settings: Settings,
) -> FloatArray:
    """What this rank's points contribute to each term of the loss, [T] (local)."""
    u = field_of(setup.problem, setup.network, layout.unflatten(tf.constant(weights)))
    found = []
    for term, arrays, total in zip(setup.problem.terms, feed.arrays, feed.totals, strict=True):
        value = 0.0
        if len(arrays[0]):
            r = term.residual(u, *(tf.constant(a, settings.precision) for a in arrays)).numpy()
            value = term.weight / total * float(np.sum(np.square(r, dtype=np.float64)))
        found.append(value)
    return np.array(found)

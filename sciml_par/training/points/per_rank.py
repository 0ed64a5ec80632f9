"""Equispaced points in a slab of the domain for each rank: more ranks have more points."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from sciml_par._checks import is_integer
from sciml_par.errors import InputError
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.surfaces.sampling import GRID, proportional
from sciml_par.problems.terms.residual import Residual
from sciml_par.problems.terms.term import Term
from sciml_par.training.points.bootstrap import bootstrap_counts
from sciml_par.training.points.point_sets import columns_of, with_data
from sciml_par.training.points.points import INTERIOR, Points
from sciml_par.training.points.sources.fixed import Fixed
from sciml_par.training.points.sources.part import Part, Place, remarks_on_rounding, weights_of


def check_per_rank(number: Any, points: Points) -> None:
    """See that `points_per_rank` goes together with the other points."""
    if hasattr(number, "__array__") and np.ndim(number) > 0:
        raise InputError(
            "train: points_per_rank is a number of points, or a tuple of one per axis; give an "
            "array as points=..., which is dealt out to the ranks."
        )
    several = number if isinstance(number, tuple | list) else [number]
    if not all(is_integer(n) and int(n) >= 2 for n in several):
        raise InputError(
            f"train: points_per_rank must be a number of points of at least 2, or a tuple of such "
            f"numbers, one per axis; got {number!r}."
        )
    for name, given in (
        ("the number of interior points", points.interior is not None),
        ("a random method for them", points.chosen_method(INTERIOR) not in (None, GRID)),
        ("batch_size", INTERIOR in points.batch_size),
        ("resample_every", points.resample_every is not None),
        ("adapt", points.adapt is not None),
    ):
        if given:
            raise InputError(
                f"train: points_per_rank gives each rank equispaced points of its own, all of "
                f"which it uses at every step; got {name} as well. Take points=Points(...), whose "
                f"numbers are those of all ranks together."
            )


def make_per_rank(
    residuals: Sequence[Residual], terms: Sequence[Term], domain: Domain, number: Any, place: Place
) -> tuple[Part, Domain]:
    """This rank's equispaced points, both ends included, and its slab of the domain."""
    slabs = domain.split(place.size)
    if isinstance(domain, Box) and isinstance(number, Integral):
        # The slabs together have about equally many points on each axis.
        share = slabs[0].extent / domain.extent
        number = tuple(proportional(share, int(number), least=2))
    numbers = [each.grid_size(number) for each in slabs]
    total, before = sum(numbers), sum(numbers[: place.rank])
    mine = slabs[place.rank]
    arrays = with_data(residuals, mine.grid(number))
    counts = None
    if place.bootstrap is not None:
        every = bootstrap_counts(total, place.bootstrap)
        counts = every[before : before + numbers[place.rank]]
    source = Fixed(weights_of(terms, total, counts), arrays, place.dtype)
    remarks = remarks_on_rounding(arrays[0], terms, place)
    return Part(source, columns_of(residuals), arrays, total, tuple(numbers), (), remarks), mine

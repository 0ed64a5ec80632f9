"""Make a rank's feed of a problem and the points that are wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from sciml_par._checks import is_integer
from sciml_par.errors import InputError
from sciml_par.problems.conditions.observations import Observations
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.surfaces.sampling import GRID, proportional
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.residual import Residual
from sciml_par.problems.terms.term import Term
from sciml_par.training.identity.described import of_array, text_of
from sciml_par.training.points.division import Place, bootstrap_counts
from sciml_par.training.points.feed import RankFeed
from sciml_par.training.points.point_sets import (
    PointSet,
    columns_of,
    condition_sets,
    interior_set,
    listed,
    with_data,
)
from sciml_par.training.points.points import INTERIOR, Points
from sciml_par.training.points.sources.part import Part, make_part, remarks_on_rounding, weights_of
from sciml_par.training.points.sources.pool import Pool, Share


def make_feed(
    problem: Problem,
    points: Any = None,
    *,
    points_per_rank: Any = None,
    rank: int,
    size: int,
    seed: int,
    dtype: str,
    bootstrap: int | None = None,
    block: int = 1,
    scattered: bool = False,
) -> RankFeed:
    """Return the points of rank `rank` among `size` ranks that share a model."""
    given, domain = Points.of(points), problem.domain
    wanted = given.scattered(domain) if scattered and points_per_rank is None else given
    batch_sizes = _batch_sizes(problem, wanted)
    own_seed = seed if wanted.seed is None else wanted.seed
    place = Place(problem, rank, size, own_seed, dtype, bootstrap)
    # Observations are data and interior points are not: without some, an equation would lose points
    # that keep it, and the network would fit the noise between the others.
    observed = any(isinstance(each, Observations) for each in problem.conditions)
    of_interior = replace(place, bootstrap=None) if observed else place
    interior = _of_equations(wanted, points_per_rank, batch_sizes, of_interior)
    sets = condition_sets(problem, wanted, own_seed, interior.number)
    if wanted.resample_every is not None and not (
        interior.redrawn or any(each.every for each in sets)
    ):
        raise InputError(
            f"train: resample_every needs random points, and {problem!r} has none; choose a "
            f"random method, for example method='sobol'."
        )
    of_data = replace(place, block=block)  # the order of interior points has no meaning
    parts = [*interior.parts, *_of_conditions(batch_sizes, sets, of_data)]
    description = _description(points_per_rank, given) | _digests(problem, parts)
    return RankFeed(parts, sub_domain=interior.sub_domain, description=description)


class _Interior(NamedTuple):
    """The interior points: of no part if there are no equations."""

    parts: tuple[Part, ...]
    number: int
    sub_domain: Domain | None = None
    redrawn: bool = False


def _of_equations(
    points: Points, points_per_rank: Any, batch_sizes: Mapping[str, int], place: Place
) -> _Interior:
    problem = place.problem
    residuals, domain = problem.residuals, problem.domain
    equations = problem.terms[: len(residuals)]
    if not equations:
        for name, given in (
            ("points_per_rank", points_per_rank is not None),
            ("adapt", points.adapt is not None),
            ("anchors", points.anchors is not None),
            ("batch_size for interior points", INTERIOR in batch_sizes),
        ):
            if given:
                raise InputError(
                    f"train: {problem!r} has no equation, so {name} has no points. Leave it out; "
                    f"for minibatches of data write batch_size={{'observations': 100}}, by the "
                    f"name of the condition."
                )
        return _Interior((), interior_set((), domain, points, place.seed).number)
    if points_per_rank is not None:
        check_per_rank(points_per_rank, points)
        part, mine = _per_rank(residuals, equations, domain, points_per_rank, place)
        return _Interior((part,), part.total, mine)
    interior = interior_set(residuals, domain, points, place.seed)
    part = make_part(
        interior,
        equations,
        place,
        number=0,
        batch_size=batch_sizes.get(INTERIOR),
        adapting=points.adapt,
    )
    elsewhere = INTERIOR in batch_sizes or points.adapt is not None
    here = not interior.given and (place.size == 1 or not elsewhere)
    sub_domain = place.slab(interior.points(0)[0]) if here else None
    return _Interior((part,), part.total, sub_domain, interior.every is not None)


def _of_conditions(
    batch_sizes: Mapping[str, int], sets: Sequence[PointSet], place: Place
) -> Iterator[Part]:
    # The sample of a bootstrap stands for other data; a condition would lose points it must have.
    apart = replace(place, bootstrap=None)
    pairs = zip(place.problem.terms_of_conditions, sets, strict=True)
    for number, ((condition, term), each) in enumerate(pairs, start=1):
        if condition.coupled and term.name in batch_sizes:
            raise InputError(
                f"train: the points of the term {term.name!r} are correlated, so that every step "
                f"uses all of them. Leave it out of batch_size."
            )
        observed = isinstance(condition, Observations)
        if condition.coupled and observed and place.bootstrap is not None:
            raise InputError(
                f"train: bootstrap=True draws observations one by one, as if their errors were "
                f"independent, but those of {term.name!r} have a covariance. Leave out bootstrap."
            )
        yield make_part(
            each,
            [term],
            place if observed else apart,
            number=number,
            batch_size=batch_sizes.get(term.name),
        )


def _batch_sizes(problem: Problem, points: Points) -> dict[str, int]:
    """Return batch sizes by "interior" and the names of conditions."""
    equations = [term.name for term in problem.terms[: len(problem.residuals)]]
    names = [term.name for _, term in problem.terms_of_conditions]
    found: dict[str, int] = {}
    for name, size in points.batch_size.items():
        if name not in (INTERIOR, *equations, *names):
            raise InputError(
                f"train: batch_size is given by 'interior' and the names of conditions, and the "
                f"loss has {listed(names)}; got {name!r}."
            )
        place = INTERIOR if name in equations else name
        if found.setdefault(place, size) != size:
            raise InputError(
                f"train: all equations have the same interior points, and so batches of one size; "
                f"got batch_size {found[place]} and {size}. Give it once, for 'interior'."
            )
    return found


def _description(points_per_rank: Any, points: Points) -> dict[str, str]:
    """Describe what is to be the same on all ranks, apart from the points themselves."""
    settings = points.settings()
    interior = 64 if points.interior is None else points.interior
    found = {"points": text_of(interior)}
    if points_per_rank is not None:
        found = {"points_per_rank": text_of(points_per_rank)}
    named = {
        "method of the points": repr(points.method),
        "batch_size": repr(settings.get("batch_size")),
        "resample_every": repr(points.resample_every),
        "adapt": repr(points.adapt),
        "seed of the points": repr(points.seed),
    }
    return found | named


def _digests(problem: Problem, parts: list[Part]) -> dict[str, str]:
    found = {}
    terms = enumerate(problem.terms)
    for part in parts:
        for columns in part.columns:
            number, term = next(terms)
            digests = [part.digests[i] for i in columns] if part.digests else []
            data: list[str] = []
            if number < len(problem.residuals) and len(columns) > 1:
                digests, data = digests[:1], digests[1:]
                if not part.digests:  # each rank has points of its own
                    known = problem.residuals[number].payload(problem.domain.sample(5, seed=0))
                    data = list(map(of_array, known[1:]))
            if digests:
                found[f"points of term {term.name!r}"] = ", ".join(digests)
            if data:
                found[f"values of the data of term {term.name!r}"] = ", ".join(data)
    return found


def check_per_rank(number: Any, points: Points) -> None:
    """Check that `points_per_rank` goes together with the other points."""
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
        ("anchors", points.anchors is not None),
    ):
        if given:
            raise InputError(
                f"train: points_per_rank gives each rank equispaced points, all of which it uses "
                f"at every step; got {name} as well. Take points=Points(...), whose numbers are "
                f"those of all ranks together."
            )


def _per_rank(
    residuals: Sequence[Residual], terms: Sequence[Term], domain: Domain, number: Any, place: Place
) -> tuple[Part, Domain]:
    """Return this rank's equispaced points, both ends included, and its slab of the domain."""
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
    source = Pool([Share(arrays, weights_of(terms, total, counts))], [], place.dtype)
    remarks = remarks_on_rounding(arrays[0], terms, place)
    return Part(source, columns_of(residuals), arrays, total, tuple(numbers), (), remarks), mine

"""Points of conditions on the boundary, in a number of a condition's own."""

from __future__ import annotations

from typing import Any

from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.domains.bounded_region import INITIAL
from sciml_par.problems.domains.domain import Domain

_TRIALS = 12
_MOST_TRIED = 10_000_000


def has_time(domain: Domain) -> bool:
    """Return whether a domain of space has faces at an initial and at a final time."""
    return domain.dimension > 1 and INITIAL in domain._time_faces[0]


def refuse_whole_boundary(domain: Domain, owner: str, why: str) -> None:
    """Refuse the whole boundary of space and time, which has two faces in time."""
    if has_time(domain):
        times = {name for names in domain._time_faces for name in names}
        space = [name for name in domain.faces if name not in times]
        raise InputError(
            f"{owner}: the boundary of {domain} has the faces 'initial' and 'final', {why}. Give "
            f"the names of faces in space, as {owner}(…, on={space})."
        )


def grid_of_about(condition: Any, domain: Domain, wanted: int) -> tuple[FloatArray, FloatArray]:
    """Return grid points at which a condition holds, about `wanted`, and normals, [k, d] each.

    The number of candidates is adjusted in a few trials, until about `wanted` hold.
    """
    best: tuple[FloatArray, FloatArray] | None = None
    tried = wanted
    for _ in range(_TRIALS):
        try:
            x, normals = condition.draw(domain, tried)
        except InputError:
            if best is not None or tried > 4 * wanted + 64:
                raise
            tried *= 2  # too few for a grid inside
            continue
        chosen = condition.holds_at(x, domain, normals)
        count = int(chosen.sum())
        if count and (best is None or abs(count - wanted) < abs(len(best[0]) - wanted)):
            best = x[chosen], normals[chosen]
        proposed = round(tried * wanted / count) if count else 4 * tried
        if count == wanted or proposed == tried or proposed > _MOST_TRIED or domain.dimension == 1:
            break
        tried = max(1, proposed)
    if best is None:
        raise condition.no_points(tried, domain)
    return best

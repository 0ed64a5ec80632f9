"""Names of coordinates and of components, as users give them or by default."""

from __future__ import annotations

from typing import Any

from sciml_par._checks import is_integer
from sciml_par.errors import InputError


def checked_names(names: Any, what: str, *, count: int | None = None) -> tuple[str, ...]:
    """Let distinct, non-empty names through; one text is one name.

    Parameters
    ----------
    count : how many there must be, if that is known.
    """
    found = (names,) if isinstance(names, str) else names
    if not isinstance(found, (tuple, list)) or not all(isinstance(n, str) and n for n in found):
        raise InputError(f"{what} must be non-empty texts, as ('x', 't'); got {names!r}")
    if len(set(found)) < len(found):
        raise InputError(f"{what} must differ from one another, got {names!r}")
    if count is not None and len(found) != count:
        raise InputError(f"{what} must be {count}, one for each axis, got {names!r}")
    return tuple(found)


def places_of(which: Any, names: tuple[str, ...] | None, what: str, advice: str) -> tuple[int, ...]:
    """Return the numbers of a selection by names or numbers; a text is one name."""
    given = which if isinstance(which, (tuple, list)) else (which,)
    places = tuple(_place_of(each, names, what, advice) for each in given)
    if not places or len(set(places)) < len(places):
        raise InputError(f"{what}s must be one or several different ones, got {which!r}")
    return places


def _place_of(which: Any, names: tuple[str, ...] | None, what: str, advice: str) -> int:
    if isinstance(which, str):
        if names is None:
            raise InputError(
                f"{what} {which!r}: this field is a plain function, whose {what}s have no "
                f"names; give the number, or the names to Field(..., {what}s=(...))"
            )
        if which not in names:
            raise InputError(f"there is no {what} {which!r}; there are {', '.join(names)}")
        return names.index(which)
    if not is_integer(which) or int(which) < 0:
        raise InputError(
            f"a {what} is given by its name or its number from 0 on, got {which!r}; {advice}"
        )
    if names is not None and int(which) >= len(names):
        raise InputError(
            f"there is no {what} {which}; there are {', '.join(names)}, with the numbers 0 to "
            f"{len(names) - 1}"
        )
    return int(which)


def coordinate_names(d: int) -> tuple[str, ...]:
    """Return the default names of d coordinates: x; x, y; x, y, z; x1 to xd."""
    return ("x", "y", "z")[:d] if d <= 3 else tuple(f"x{i + 1}" for i in range(d))


def names_of_axes(names: Any, d: int, owner: str) -> tuple[str, ...]:
    """Return the names of d coordinates, or the default ones."""
    if names is None:
        return coordinate_names(d)
    return checked_names(names, f"{owner}: names of the coordinates", count=d)


def component_names(m: int) -> tuple[str, ...]:
    """Return the default names of m components: u; u1 to um."""
    return ("u",) if m == 1 else tuple(f"u{c + 1}" for c in range(m))

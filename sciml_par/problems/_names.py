"""Names of coordinates and of components, as users give them or by default."""

from __future__ import annotations

from typing import Any

from sciml_par.errors import InputError


def checked_names(names: Any, what: str, *, count: int | None = None) -> tuple[str, ...]:
    """Let distinct, non-empty names through; one text is one name.

    Parameters
    ----------
    what : for the message.
    count : how many there must be, if that is known.

    Raises
    ------
    InputError
        Something else than texts, an empty one, the same one twice, or another number of them.
    """
    found = (names,) if isinstance(names, str) else names
    if not isinstance(found, (tuple, list)) or not all(isinstance(n, str) and n for n in found):
        raise InputError(f"{what} must be non-empty texts, as ('x', 't'); got {names!r}")
    if len(set(found)) < len(found):
        raise InputError(f"{what} must differ from one another, got {names!r}")
    if count is not None and len(found) != count:
        raise InputError(f"{what} must be {count}, one for each axis, got {names!r}")
    return tuple(found)


def coordinate_names(d: int) -> tuple[str, ...]:
    """The default names of d coordinates: x; x, y; x, y, z; x1 to xd."""
    return ("x", "y", "z")[:d] if d <= 3 else tuple(f"x{i + 1}" for i in range(d))


def component_names(m: int) -> tuple[str, ...]:
    """The default names of m components: u; u1 to um."""
    return ("u",) if m == 1 else tuple(f"u{c + 1}" for c in range(m))

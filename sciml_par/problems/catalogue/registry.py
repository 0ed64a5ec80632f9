"""The problems of the catalogue by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sciml_par.errors import InputError
from sciml_par.problems.catalogue import (
    advection,
    allen_cahn,
    beam,
    black_scholes,
    burgers,
    cavity,
    elasticity,
    heat,
    helmholtz,
    inverse_diffusion,
    inverse_lorenz,
    korteweg_de_vries,
    kovasznay,
    lorenz,
    lotka_volterra,
    poisson,
    poisson_cube,
    poisson_hole,
    poisson_square,
    reaction_diffusion,
    schroedinger,
    two_sines,
    wave,
)
from sciml_par.problems.catalogue.entry import CatalogueEntry
from sciml_par.problems.problem import Problem

_ENTRIES = (
    two_sines.ENTRY,
    poisson.ENTRY,
    poisson_square.ENTRY,
    poisson_hole.ENTRY,
    *poisson_cube.ENTRIES,
    *helmholtz.ENTRIES,
    beam.ENTRY,
    elasticity.ENTRY,
    heat.ENTRY,
    wave.ENTRY,
    advection.ENTRY,
    black_scholes.ENTRY,
    burgers.ENTRY,
    allen_cahn.ENTRY,
    korteweg_de_vries.ENTRY,
    reaction_diffusion.ENTRY,
    schroedinger.ENTRY,
    kovasznay.ENTRY,
    cavity.ENTRY,
    lotka_volterra.ENTRY,
    lorenz.ENTRY,
    inverse_diffusion.ENTRY,
    inverse_lorenz.ENTRY,
)
_BY_NAME = MappingProxyType({entry.name: entry for entry in _ENTRIES})


def catalogue_entries() -> Mapping[str, CatalogueEntry]:
    """Return all problems of the catalogue by name, in the order of its list (local).

    Examples
    --------
    >>> from sciml_par.problems import catalogue_entries
    >>> catalogue_entries()["heat"].suggestion.optimizer
    'lm'
    """
    return _BY_NAME


def catalogue_entry(name: str) -> CatalogueEntry:
    """What the catalogue knows of a problem (local).

    Raises
    ------
    InputError
        There is no problem of this name; the message says which there are.
    """
    if isinstance(name, str) and name in _BY_NAME:
        return _BY_NAME[name]
    close = difflib.get_close_matches(str(name).lower(), _BY_NAME, n=1)
    meant = f" did you mean {close[0]!r}?" if close else ""
    raise InputError(f"the catalogue has no problem {name!r};{meant} It has {', '.join(_BY_NAME)}.")


def problem_by_name(name: str, **parameters: Any) -> Problem:
    """Return a problem of the catalogue (local).

    Parameters
    ----------
    name : as in `catalogue_entries`.
    **parameters
        Those of the function that makes it; see its docstring.

    Raises
    ------
    InputError
        There is no problem of this name, or it cannot be made with these parameters.

    Examples
    --------
    >>> from sciml_par.problems import problem_by_name
    >>> problem_by_name("heat", diffusivity=0.2).domain.names
    ('x', 't')
    """
    return catalogue_entry(name).make(**parameters)

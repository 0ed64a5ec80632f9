"""The problems of the catalogue by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sciml_par.errors import InputError
from sciml_par.problems.catalogue import approximation, elliptic, in_time
from sciml_par.problems.catalogue.entry import CatalogueEntry
from sciml_par.problems.problem import Problem

_ENTRIES = (*approximation.ENTRIES, *elliptic.ENTRIES, *in_time.ENTRIES)
_BY_NAME = MappingProxyType({entry.name: entry for entry in _ENTRIES})
_PROGRAMS = (
    "advection", "allen-cahn", "bar-bending", "beam", "black-scholes", "cavity", "elasticity",
    "elasticity-3d", "heat-long", "heat-part", "helmholtz-periodic", "helmholtz-waves",
    "inverse-lorenz", "kdv", "kovasznay", "l-shape", "lorenz", "oscillator", "pipe", "plate-hole",
    "poisson-10d", "poisson-3d", "poisson-5d", "poisson-hole", "poisson-two-scales",
    "reaction-diffusion", "schroedinger", "standing-wave", "wave", "wave-long",
)  # fmt: skip
"""Problems that have left the catalogue for a file of examples/ each."""


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
    """Return the entry of a problem in the catalogue (local).

    Raises
    ------
    InputError
        The catalogue has no problem of this name; the message lists its names, or names the
        program in examples/ that solves it.
    """
    if isinstance(name, str) and name in _BY_NAME:
        return _BY_NAME[name]
    if name in _PROGRAMS:
        stem = "standing_wave" if name == "wave" else name.replace("-", "_")
        file = f"examples/{stem}.py"
        raise InputError(f"{name} is a program now: python {file}")
    close = difflib.get_close_matches(str(name).lower(), _BY_NAME, n=1)
    meant = f" did you mean {close[0]!r}?" if close else ""
    raise InputError(f"the catalogue has no problem {name!r};{meant} It has {', '.join(_BY_NAME)}.")


def problem_by_name(name: str, **parameters: Any) -> Problem:
    """Return a problem of the catalogue (local).

    Parameters
    ----------
    name : as in `catalogue_entries`.
    **parameters
        Of the function that makes the problem; its docstring lists them.

    Raises
    ------
    InputError
        The catalogue has no problem of this name, or it does not take these parameters.

    Examples
    --------
    >>> from sciml_par.problems import problem_by_name
    >>> problem_by_name("heat", diffusivity=0.2).domain.names
    ('x', 't')
    """
    return catalogue_entry(name).make(**parameters)

"""sciml_par: physics-informed and ensemble scientific machine learning, parallel over MPI."""

from typing import Any

import lazy_loader

from sciml_par import _at_import as _at_import
from sciml_par._other_names import names_of

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Import a name at its first use, or say in which package of this one it is."""
    try:
        return names_of(__name__, _attribute)(name)
    except AttributeError:
        if name in __all__ or name.startswith("_"):  # raised by what was imported, or a probe
            raise
    where = ["parallel", "problems", "networks", "training", "results", "evaluation"]
    package = next((f"{__name__}.{p}" for p in where if name in _attribute(p).__all__), None)
    there = f"; it is in {package}: from {package} import {name}" if package else ""
    raise AttributeError(f"{__name__} has no attribute {name!r}{there}")

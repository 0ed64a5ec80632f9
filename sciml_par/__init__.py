"""sciml_par: physics-informed and ensemble scientific machine learning, parallel over MPI."""

from typing import Any

import lazy_loader

from sciml_par import _at_import as _at_import
from sciml_par._other_names import names_of

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_named = names_of(__name__, _attribute)


def __getattr__(name: str) -> Any:
    """Import a name at its first use, or say in which package of this one it is."""
    if name not in __all__ and not name.startswith("_"):
        where = ["parallel", "problems", "networks", "training", "results", "evaluation"]
        where += ["families"]
        package = next((f"{__name__}.{p}" for p in where if name in _attribute(p).__all__), None)
        if package:
            said = f"{__name__} has no attribute {name!r}; it is in {package}"
            raise AttributeError(f"{said}: from {package} import {name}")
    return _named(name)

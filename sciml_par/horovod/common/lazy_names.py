"""Packages that import their names at first use, from anywhere below `sciml_par`.

`lazy_loader.attach_stub` takes names from inside a package only, and Horovod shows many names in
several packages.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sciml_par.horovod.common.refused import advice_on


def names_of_stub(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose stub lists its names."""
    origins = _origins(Path(file).with_suffix(".pyi"))

    def get(name: str) -> Any:
        found: Any
        if name not in origins:
            raise AttributeError(f"module {package!r} has no attribute {name!r}{advice_on(name)}")
        module, original = origins[name]
        if module == ".":
            found = importlib.import_module(f".{original}", package)
        else:
            found = getattr(importlib.import_module(module, package), original)
        vars(sys.modules[package])[name] = found  # Python then finds it without `get`
        return found

    return get, lambda: sorted(origins), sorted(origins)


def _origins(stub: Path) -> dict[str, tuple[str, str]]:
    """Return, for each name of a stub, its module and its name there."""
    origins: dict[str, tuple[str, str]] = {}
    for each in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(each, ast.ImportFrom):
            module = "." * each.level + (each.module or "")
            names = [(alias.name, alias.asname or alias.name) for alias in each.names]
            if names[0][0] == "*":  # of another such package
                names = [(name, name) for name in importlib.import_module(module).__all__]
            origins |= {name: (module, original) for original, name in names}
    return origins

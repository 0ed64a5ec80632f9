"""Packages of the extras, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sciml_par.errors import InputError


def needed(package: str, where: str) -> Any:
    """Import a package of the extra `files`, or raise what to install."""
    try:
        return import_module(package)
    except ImportError:
        raise InputError(
            f"{where}: {package} is not installed; pip install 'sciml-par[files]'."
        ) from None

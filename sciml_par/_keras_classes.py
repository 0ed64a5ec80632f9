"""The Keras classes of this package made known to Keras, whenever the user imports Keras.

`keras.models.load_model` finds classes that have been registered, so that a program which loads a
model would have to import the module of its class. Importing it with `import sciml_par` would
import TensorFlow. So a name is registered as soon as Keras has been imported, by whomever that is,
and the class itself is imported when a model of it is loaded. Keras and TensorFlow start as quietly
as where this package imports them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from sciml_par._tensorflow import has_log_level, quiet_start

_KERAS = "keras"
_CLASSES = {
    "sciml_par>MLP": ("sciml_par.networks.models.mlp", "MLP"),
    "sciml_par>ModifiedMLP": ("sciml_par.networks.models.modified_mlp", "ModifiedMLP"),
    "sciml_par>PirateNet": ("sciml_par.networks.models.pirate_net", "PirateNet"),
    "sciml_par>RandomFeatures": ("sciml_par.networks.models.random_features", "RandomFeatures"),
    "sciml_par>Corrected": ("sciml_par.networks.keras.corrected", "Corrected"),
    "sciml_par>FourierFeatures": ("sciml_par.networks.models.fourier_features", "FourierFeatures"),
    "sciml_par>PeriodicEmbedding": (
        "sciml_par.networks.models.periodic_embedding",
        "PeriodicEmbedding",
    ),
}
"""Where the classes are, by the names under which their own modules register them."""


def register_with_keras() -> None:
    """Register the classes now if Keras is there, else once it has been imported."""
    keras = sys.modules.get(_KERAS)
    if keras is not None:
        _register(keras)
    elif not any(isinstance(finder, _AfterKeras) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterKeras())


class _AfterKeras(MetaPathFinder):
    """Finds Keras and TensorFlow as Python would, and has their code run quietly.

    Once that of Keras has run, the classes are registered.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in (_KERAS, "tensorflow"):
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        # They may be looked for without being imported, as TensorFlow does.
        if spec is not None and spec.loader is not None:
            self._run_afterwards(spec.loader)
        return spec

    def _run_afterwards(self, loader: Any) -> None:
        run = loader.exec_module

        def run_and_register(module: ModuleType) -> None:
            of_keras = module.__name__ == _KERAS
            if of_keras and self in sys.meta_path:
                sys.meta_path.remove(self)
            del loader.exec_module
            with quiet_start(not has_log_level()):
                run(module)
            if of_keras:
                _register(module)

        loader.exec_module = run_and_register


def _register(keras: Any) -> None:
    # Nothing is imported here: TensorFlow may be in the middle of its own import.
    known = keras.saving.get_custom_objects()
    for name, (module, attribute) in _CLASSES.items():
        known.setdefault(name, _ClassElsewhere(module, attribute))


class _ClassElsewhere:
    """Stands for a class of Keras until its module is imported, which registers the class."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self.__name__ = module, name

    def from_config(self, config: dict[str, Any]) -> Any:
        """Return a model of the class, as Keras asks for it."""
        return getattr(importlib.import_module(self._module), self.__name__).from_config(config)

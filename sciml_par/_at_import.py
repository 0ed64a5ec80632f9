"""What happens when the program imports TensorFlow, Keras or parts of this package after it.

TensorFlow is imported without its start-up messages, as `init` does it. Keras' register gets a
stand-in for each class of this package that files may contain: `keras.models.load_model` knows the
classes of the register, and imports none. `from sciml_par import Name` says what `sciml_par.Name`
says of a name that does not exist; Python would replace the text.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from sciml_par._tensorflow import IS_OURS, quiet_start

_REGISTER = "keras.src.saving.object_registration"
REGISTERED = {
    "networks": "DeepONet FNO FourierFeatures MLP ModifiedMLP PeriodicEmbedding PirateNet "
    "Polynomials RandomFeatures",
    "networks.keras.corrected": "Corrected",
    "networks.keras.in_slabs": "InSlabs Moved",
    "networks.keras.windowed_model": "WindowedModel",
    "horovod.tensorflow": "SyncBatchNormalization",
}
"""The names of the classes that the package registers, by the modules that have them."""


class _StandIn:
    """Has the attributes of a class, which it imports when it is asked for one."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __getattr__(self, attribute: str) -> Any:
        module = importlib.import_module(f"{__package__}.{self._module}")
        return getattr(getattr(module, self._name), attribute)


def _quietly(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    with quiet_start(True):
        execute(module)


def _then_register(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    execute(module)
    for place, names in REGISTERED.items():
        for name in names.split():
            stand_in = _StandIn(place, name)
            module.GLOBAL_CUSTOM_OBJECTS.setdefault(f"{__package__}>{name}", stand_in)


class _Finder:
    """Finds these modules as Python does, and acts when they are executed or do not exist."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        act = {"tensorflow": _quietly if IS_OURS else None, _REGISTER: _then_register}.get(name)
        ours = name.startswith(f"{__package__}.")
        spec = PathFinder.find_spec(name, path) if act or ours else None
        if act and spec and spec.loader:
            execute = spec.loader.exec_module
            spec.loader.exec_module = lambda module: act(execute, module)  # type: ignore[method-assign]
        elif ours and not spec:
            package, _, attribute = name.rpartition(".")
            try:
                getattr(sys.modules[package], attribute)
            except AttributeError as error:
                raise ModuleNotFoundError(str(error)) from None
        return spec


if _REGISTER in sys.modules:
    _then_register(lambda _: None, sys.modules[_REGISTER])
sys.meta_path.insert(0, _Finder())

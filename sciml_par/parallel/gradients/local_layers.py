"""Layers of Keras that would work on each rank alone without a word."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from sciml_par.errors import InputError
from sciml_par.parallel.gradients.optimizer_state import backend_of


def refuse_local_layers(objects: Iterable[Any], trained: Sequence[Any] | None = None) -> None:
    """Raise `InputError` for a layer that averages over replicas, which ranks are not.

    With `trained`, only layers with one of these variables count.
    """
    packages = [sys.modules[name] for name in ("keras", "tf_keras") if name in sys.modules]
    kinds = tuple(package.layers.BatchNormalization for package in packages)
    ids = {id(backend_of(variable)) for variable in trained or ()}
    for layer in objects:
        if (
            issubclass(type(layer), kinds)  # isinstance would wake lazy modules
            and getattr(layer, "synchronized", False)
            and not hasattr(layer, "averages_over_ranks")
            and (trained is None or any(id(backend_of(v)) in ids for v in layer.weights))
        ):
            raise InputError(
                f"The layer «{layer.name}» is a BatchNormalization(synchronized=True), which "
                f"knows the replicas of tf.distribute, but no ranks. Use SyncBatchNormalization "
                f"of sciml_par.horovod.tensorflow."
            )


def refuse_local_layers_of(variables: Sequence[Any]) -> None:
    """Raise the error for a layer that has one of `variables`, which do not know their layer."""
    names = {(getattr(each, "path", None) or each.name).rpartition("/")[2] for each in variables}
    if not names.isdisjoint(("gamma", "beta", "gamma:0", "beta:0")):
        refuse_local_layers(gc.get_objects(), variables)

"""Saved models, to be trained on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sciml_par.horovod.tensorflow.compression import Compression
from sciml_par.horovod.tensorflow.keras.optimizer import DistributedOptimizer


def load_model(
    filepath: Any,
    custom_optimizers: Iterable[type] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    compression: Any = Compression.none,
    legacy_opts: bool = False,
) -> Any:
    """A saved Keras model whose optimizer is distributed and goes on where it stood (local).

    All ranks may read the same file.

    Parameters
    ----------
    filepath : as for `keras.models.load_model`. A model that was saved without an optimizer comes
        without one.
    custom_optimizers : optimizer classes that Keras does not know.
    custom_objects : other classes and functions that it does not know, by name.
    compression : as for `DistributedOptimizer`.
    legacy_opts : nothing is made of it: Keras 3 has one kind of optimizers.

    Raises
    ------
    ValueError, OSError
        As for `keras.models.load_model`.
    """
    import keras

    objects = {each.__name__: each for each in custom_optimizers or ()} | dict(custom_objects or {})
    model = keras.models.load_model(filepath, custom_objects=objects)
    if getattr(model, "optimizer", None) is not None:
        model.optimizer = DistributedOptimizer(model.optimizer, compression=compression)
    return model

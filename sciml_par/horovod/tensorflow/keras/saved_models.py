"""Saved models, to be trained on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sciml_par.horovod.tensorflow.compression import Compression
from sciml_par.horovod.tensorflow.keras.optimizer import DistributedOptimizer
from sciml_par.horovod.tensorflow.keras_version import keras_of_tensorflow
from sciml_par.parallel.gradients.distributed_update import DistributedUpdate
from sciml_par.parallel.gradients.optimizer_state import build


def load_model(
    filepath: Any,
    custom_optimizers: Iterable[type] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    compression: Any = Compression.none,
    legacy_opts: bool = False,
) -> Any:
    """Return a saved Keras model whose optimizer is distributed and goes on where it stood (local).

    All ranks may read the same file.

    Parameters
    ----------
    filepath : as for `keras.models.load_model`. A model that was saved without an optimizer comes
        without one.
    custom_optimizers : optimizer classes that Keras does not know.
    custom_objects : other classes and functions that it does not know, by name.
    compression : as for `DistributedOptimizer`.
    legacy_opts : ignored; the file tells of which kind its optimizer is.

    Raises
    ------
    ValueError, OSError
        As for `keras.models.load_model`.
    """
    keras = keras_of_tensorflow()
    objects = {each.__name__: each for each in custom_optimizers or ()} | dict(custom_objects or {})
    model = keras.models.load_model(filepath, custom_objects=objects)
    optimizer = getattr(model, "optimizer", None)
    # The program's custom objects may make it a distributed one.
    if optimizer is not None and not isinstance(optimizer, DistributedUpdate):
        model.optimizer = DistributedOptimizer(optimizer, compression=compression)
        build(model.optimizer, model.trainable_variables)
    return model

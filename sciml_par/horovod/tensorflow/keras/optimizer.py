"""Keras optimizers that reduce their gradients over the ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sciml_par import parallel
from sciml_par.horovod.common.arguments import device_for, groups_of, variables_of
from sciml_par.horovod.common.process_sets import (
    ProcessSet,
    global_process_set,
    gradient_options,
)
from sciml_par.horovod.tensorflow.compression import Compression
from sciml_par.horovod.tensorflow.keras_version import keras_of_tensorflow
from sciml_par.parallel import Average, ReduceOp
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.gradients.distributed_update import DistributedUpdate
from sciml_par.parallel.gradients.optimizer_state import build

Optimizer = Any
"""An optimizer of Keras 3 or 2."""


def DistributedOptimizer(
    optimizer: Optimizer,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: ReduceOp = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Optimizer:
    """Return an optimizer like the one given that applies the gradients of all ranks.

    It is `sciml_par.parallel.DistributedOptimizer` by Horovod's name: a step is collective. A model
    that was compiled with it is saved with the plain optimizer. Parameters that are not in the list
    below are those of `sciml_par.parallel.DistributedOptimizer`.

    Parameters
    ----------
    optimizer : one of Keras 3 or 2, legacy ones included.
    name : ignored; Horovod names operations in graphs by it.
    device_dense, device_sparse : the device to transfer gradients from; by default where they are.
    backward_passes_per_step : n > 1 adds up the gradients of n passes before each update.
        `iterations`, and with it schedules of the learning rate, count each pass.
    num_groups : the older name of `groups` with a number.
    process_set : the ranks that train together; others keep their gradients as they are.

    Raises
    ------
    InputError
        As for `sciml_par.parallel.DistributedOptimizer`.
    """
    distributed = parallel.DistributedOptimizer(
        optimizer,
        op,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients,
        count_passes=True,
        **gradient_options(
            process_set,
            compression=compression,
            sparse_as_dense=sparse_as_dense,
            gradient_predivide_factor=gradient_predivide_factor,
            groups=groups_of(num_groups, groups),
            scale_local_gradients=scale_local_gradients,
            device=device_for(device_dense, device_sparse),
        ),
    )
    distributed._agg_helper = distributed._passes  # programs read its counter
    return distributed


@not_converted  # AutoGraph has local variables of its own
def PartialDistributedOptimizer(
    optimizer: Optimizer,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: ReduceOp = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Optimizer:
    """`DistributedOptimizer` for a model of which each rank keeps some layers to itself.

    The other parameters are those of `DistributedOptimizer`.

    Parameters
    ----------
    local_layers : a Keras layer, or several; their gradients are not reduced, but divided by the
        number of ranks where `scale_local_gradients` says so.

    Raises
    ------
    InputError
        `local_layers` are no layers, or have no weights yet; or as for `DistributedOptimizer`.
    """
    options = locals()
    local = variables_of(options.pop("local_layers"))
    distributed = DistributedOptimizer(**options)
    for variable in local:
        distributed.register_local_var(variable)
    return distributed


def load_model(
    filepath: Any,
    custom_optimizers: Iterable[type] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    compression: Any = Compression.none,
    legacy_opts: bool = False,
) -> Any:
    """Return a saved Keras model whose optimizer is distributed and goes on where it stood.

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

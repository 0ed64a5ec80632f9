"""Keras optimizers that reduce their gradients over the ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sciml_par import parallel
from sciml_par.horovod.common.arguments import gradient_options, groups_of, variables_of
from sciml_par.horovod.common.process_sets import ProcessSet, global_process_set
from sciml_par.horovod.tensorflow.compression import Compression
from sciml_par.horovod.tensorflow.keras_version import keras_of_tensorflow
from sciml_par.parallel import Average, ReduceOp
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.gradients.distributed_update import DistributedUpdate
from sciml_par.parallel.gradients.optimizer_state import build

Optimizer = Any
"""An optimizer of Keras 3 or 2."""


@not_converted  # AutoGraph changes `locals`
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
    """Return a copy of an optimizer that applies the gradients of all ranks.

    It is `sciml_par.parallel.DistributedOptimizer` by Horovod's name: a step is collective, and a
    model compiled with it is saved with the plain optimizer. See there for the parameters that are
    not listed here.

    Parameters
    ----------
    optimizer : one of Keras 3 or 2, legacy ones included.
    name : ignored; in Horovod the name of operations in graphs.
    device_dense, device_sparse : the device to transfer gradients from; theirs by default.
    backward_passes_per_step : n > 1 adds up the gradients of n passes before each update.
        `iterations`, and with it schedules of the learning rate, count each pass.
    num_groups : the older name of `groups` with a number.
    process_set : the ranks that train together; others keep their gradients.

    Raises
    ------
    InputError
        As for `sciml_par.parallel.DistributedOptimizer`.
    """
    options = locals()
    options["groups"] = groups_of(num_groups, groups)
    distributed = parallel.DistributedOptimizer(
        optimizer,
        op,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients,
        count_passes=True,
        **gradient_options(options),
    )
    distributed._agg_helper = distributed._passes  # programs read its counter
    return distributed


@not_converted  # AutoGraph changes `locals`
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
    """Return a `DistributedOptimizer` that does not reduce the gradients of some layers.

    The other parameters are those of `DistributedOptimizer`.

    Parameters
    ----------
    local_layers : a Keras layer, or several. Their gradients are divided by the number of ranks if
        `scale_local_gradients`.

    Raises
    ------
    InputError
        `local_layers` are not layers or have no weights yet; or as for `DistributedOptimizer`.
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
    """Return a saved Keras model with a distributed optimizer, which continues from its state.

    All ranks may read the same file.

    Parameters
    ----------
    filepath : as for `keras.models.load_model`. A model saved without an optimizer has none.
    custom_optimizers : optimizer classes unknown to Keras.
    custom_objects : other classes and functions unknown to Keras, by name.
    compression : as for `DistributedOptimizer`.
    legacy_opts : ignored; the file contains the kind of its optimizer.
    """
    keras = keras_of_tensorflow()
    objects = {each.__name__: each for each in custom_optimizers or ()} | dict(custom_objects or {})
    model = keras.models.load_model(filepath, custom_objects=objects)
    optimizer = getattr(model, "optimizer", None)
    # It is distributed already by the program's custom objects, or if this program has saved it.
    keeps = isinstance(optimizer, DistributedUpdate) and compression is Compression.none
    if optimizer is not None and not keeps:
        model.optimizer = DistributedOptimizer(optimizer, compression=compression)
        build(model.optimizer, model.trainable_variables)
    return model

"""Distributed optimizers of Keras and of TensorFlow 1, by Horovod's name."""

from __future__ import annotations

from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.horovod.common.arguments import groups_of
from sciml_par.horovod.common.exceptions import UnsupportedError
from sciml_par.horovod.common.process_sets import ProcessSet, global_process_set
from sciml_par.horovod.tensorflow.compression import Compression
from sciml_par.horovod.tensorflow.keras import optimizer as of_keras
from sciml_par.horovod.tensorflow.legacy_optimizer import (
    _DistributedAdasumOptimizer,
    _DistributedOptimizer,
)
from sciml_par.parallel import Adasum, Average, ReduceOp
from sciml_par.parallel.execution.autograph import not_converted

_WITH_ADASUM = (
    "optimizer",
    "name",
    "use_locking",
    "device_dense",
    "device_sparse",
    "compression",
    "backward_passes_per_step",
)
_NOT_WITH_ADASUM = {
    "sparse_as_dense": False,
    "average_aggregated_gradients": False,
    "groups": None,
    "gradient_predivide_factor": 1.0,
}
"""Options without effect on Adasum of steps, with their defaults."""


@not_converted  # AutoGraph changes `locals`
def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Return an optimizer that reduces the gradients over the ranks before it applies them.

    The parameters that are not listed are those of `hvd.keras.DistributedOptimizer`.

    Parameters
    ----------
    optimizer : an optimizer of Keras or of `tf.compat.v1.train`.
    name, use_locking : for optimizers of TensorFlow 1; others keep their name.
    op : Average, Sum or Adasum. Adasum combines gradients for an optimizer of Keras, and the
        ranks' steps for one of TensorFlow 1.

    Raises
    ------
    InputError
        `optimizer` is of neither kind, or two options exclude each other.
    """
    options = locals()
    options["groups"] = groups_of(options.pop("num_groups"), groups)
    if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
        del options["use_locking"]
        return of_keras.DistributedOptimizer(**options)
    if op is not Adasum:
        return _DistributedOptimizer(**options)
    if process_set is not global_process_set:
        raise UnsupportedError("DistributedOptimizer: Adasum of steps is for all ranks.")
    given = [name for name, default in _NOT_WITH_ADASUM.items() if options[name] != default]
    if given:
        raise InputError(f"DistributedOptimizer: op=Adasum makes no use of {', '.join(given)}.")
    return _DistributedAdasumOptimizer(**{name: options[name] for name in _WITH_ADASUM})

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

    Parameters
    ----------
    optimizer : an optimizer of Keras or of `tf.compat.v1.train`.
    name, use_locking : for optimizers of TensorFlow 1; others keep their name.
    device_dense, device_sparse : the device to transfer gradients from; theirs by default.
    compression : one of `Compression`.
    sparse_as_dense : reduce `tf.IndexedSlices` as dense tensors.
    backward_passes_per_step : n > 1 adds up the gradients of n passes before each update.
    op : Average, Sum or Adasum. Adasum combines gradients for an optimizer of Keras, and the
        ranks' steps for one of TensorFlow 1.
    gradient_predivide_factor : f; an Average divides by f before the sum and by P/f after it.
    average_aggregated_gradients : divide the sum of n passes by n.
    num_groups : the older name of `groups` with a number.
    groups : the number of parts in which the gradients travel, or lists of the variables of each
        part; one part by default.
    process_set : the ranks that take part.
    scale_local_gradients : divide the gradients by variables of `register_local_var` by P.

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
    return _of_adasum(options) if op is Adasum else _DistributedOptimizer(**options)


def _of_adasum(options: dict[str, Any]) -> Any:
    """Return the optimizer of TensorFlow 1 with Adasum of steps, which has fewer options."""
    if options["process_set"] is not global_process_set:
        raise UnsupportedError("DistributedOptimizer: Adasum of steps is for all ranks.")
    given = [name for name, default in _NOT_WITH_ADASUM.items() if options[name] != default]
    if given:
        raise InputError(f"DistributedOptimizer: op=Adasum makes no use of {', '.join(given)}.")
    return _DistributedAdasumOptimizer(**{name: options[name] for name in _WITH_ADASUM})

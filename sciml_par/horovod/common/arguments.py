"""Horovod's arguments of collectives in the terms of `sciml_par.parallel`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from sciml_par.errors import InputError
from sciml_par.horovod.common.process_sets import group_of
from sciml_par.parallel import Average, ReduceOp, Sum, current_world

_SAME_NAMES = (
    "compression",
    "sparse_as_dense",
    "gradient_predivide_factor",
    "groups",
    "scale_local_gradients",
)


def reduction(op: ReduceOp | None, average: bool | None) -> ReduceOp:
    """Return the operation of `op` or the older `average`; Average by default."""
    if op is not None and average is not None:
        raise InputError("op takes the place of average: give one of them only.")
    if average is not None:
        return Average if average else Sum
    return Average if op is None else op


def device_of(name: str) -> str | None:
    """Return the device to transfer a tensor from; None, for '', is the tensor's own."""
    return name.replace("cpu", "CPU").replace("gpu", "GPU") or None


def device_for(device_dense: str, device_sparse: str) -> str | None:
    """Return one device for dense and sparse gradients, which travel together."""
    return device_of(device_dense) or device_of(device_sparse)


def gradient_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `sciml_par.parallel.DistributedGradientTape` for Horovod's."""
    group = group_of(given["process_set"])
    if group is None:
        return {"communicator": current_world().alone}
    device = device_for(given["device_dense"], given["device_sparse"])
    same = {name: given[name] for name in _SAME_NAMES}
    return {**same, "communicator": group, "device": device}


def groups_of(num_groups: int, groups: Any) -> Any:
    """Return `groups`, or the older `num_groups`."""
    if num_groups < 0:
        raise InputError(f"num_groups: expected a number ≥ 0; got {num_groups}.")
    if num_groups:
        warnings.warn("num_groups is now called groups.", DeprecationWarning, stacklevel=3)
    return groups if groups is not None else num_groups or None


def variables_of(local_layers: Any) -> list[Any]:
    """Return the trainable variables of a Keras layer, a list of layers, or None."""
    if local_layers is None:
        return []
    layers = local_layers if isinstance(local_layers, list | tuple | set) else [local_layers]
    for layer in layers:
        if not hasattr(layer, "trainable_weights"):
            raise InputError(f"local_layers: expected Keras layers; got {layer!r}.")
        if not layer.built:
            raise InputError(
                f"local_layers: the layer «{layer.name}» has no weights yet. Build the model "
                f"first, with an Input or model.build."
            )
    return [variable for layer in layers for variable in layer.trainable_weights]

"""What the facade's collectives are given, in sciml_par's own terms."""

from __future__ import annotations

import warnings
from typing import Any

from sciml_par.errors import InputError
from sciml_par.parallel import Average, ReduceOp, Sum


def reduction(op: ReduceOp | None, average: bool | None) -> ReduceOp:
    """Return the operation, as `op` or the older `average` says; Average by default.

    Raises
    ------
    InputError
        Both are given.
    """
    if op is not None and average is not None:
        raise InputError("op takes the place of average: give one of them only.")
    if average is not None:
        return Average if average else Sum
    return Average if op is None else op


def device_of(name: str) -> str | None:
    """Return the device to transfer a tensor from: '' means the one that it is on."""
    return name.replace("cpu", "CPU").replace("gpu", "GPU") or None


def device_for(device_dense: str, device_sparse: str) -> str | None:
    """One device for tensors of both kinds.

    Dense and sparse gradients travel together, so device_dense counts where both are given.
    """
    return device_of(device_dense) or device_of(device_sparse)


def groups_of(num_groups: int, groups: Any) -> Any:
    """`groups`, or the older `num_groups`.

    Raises
    ------
    InputError
        The number is negative.
    """
    if num_groups < 0:
        raise InputError(f"num_groups: expected a number ≥ 0; got {num_groups}.")
    if num_groups:
        warnings.warn("num_groups is now called groups.", DeprecationWarning, stacklevel=3)
    return groups if groups is not None else num_groups or None


def variables_of(local_layers: Any) -> list[Any]:
    """Return the trainable variables of a Keras layer, of several, or of none.

    Raises
    ------
    InputError
        Something in it is no layer, or has no weights yet.
    """
    if local_layers is None:
        return []
    layers = local_layers if isinstance(local_layers, list | tuple | set) else [local_layers]
    for layer in layers:
        if not hasattr(layer, "trainable_weights"):
            raise InputError(f"local_layers: expected Keras layers; got {layer!r}.")
        if not layer.built:
            raise InputError(
                f"local_layers: the layer «{layer.name}» has no weights yet. Build the model "
                f"first, by an Input or by model.build."
            )
    return [variable for layer in layers for variable in layer.trainable_weights]

"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.horovod.tensorflow.keras.base import keras
from sciml_par.parallel import Sum, allreduce

Tensor = Any

_IS_KERAS_2 = not keras.__version__.startswith("3")


@keras.saving.register_keras_serializable(package="sciml_par")
class SyncBatchNormalization(keras.layers.BatchNormalization):
    r"""`keras.layers.BatchNormalization` with the mean and variance of all ranks' batches.

        y = γ (x − μ) / √(σ² + ε) + β,   μ = (1/n) Σ_r Σ_i x_ri,   σ² = (1/n) Σ_r Σ_i (x_ri − μ)²

    with n = Σ_r n_r the number of all ranks' values of a channel. So ranks may have batches of
    different lengths, or empty ones. In training each call is one allreduce of three numbers a
    channel (collective), and the moving averages are equal on all ranks. In inference it is the
    plain layer.

    Parameters
    ----------
    fused : False; a fused kernel does not exist.
    **kwargs : those of `keras.layers.BatchNormalization`.

    Raises
    ------
    InputError
        `fused` is anything else.
    """

    averages_over_ranks = True

    def __init__(self, fused: bool | None = False, **kwargs: Any) -> None:
        if fused is None or fused:
            raise InputError(
                f"SyncBatchNormalization: expected fused=False; got {fused}. Fused kernels do not "
                f"include the other ranks: leave the option out."
            )
        if not hasattr(keras.layers.BatchNormalization, "_moments"):
            raise InputError(
                f"SyncBatchNormalization: Keras {keras.__version__} computes the moments of "
                f"BatchNormalization in another way than the tested versions."
            )
        super().__init__(**kwargs, **({"fused": False} if _IS_KERAS_2 else {}))

    if _IS_KERAS_2:

        def _calculate_mean_and_var(
            self, inputs: Tensor, reduction_axes: Any, keep_dims: bool, mask: Tensor | None = None
        ) -> tuple[Tensor, Tensor]:
            return _moments(inputs, reduction_axes, mask, keep_dims)

    else:

        def _moments(self, inputs: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
            return _moments(inputs, self._reduction_axes, mask)


def _moments(
    x: Tensor, axes: Sequence[int], mask: Tensor | None, keep_dims: bool = False
) -> tuple[Tensor, Tensor]:
    """Return mean and variance over `axes` and all ranks, [C] and [C] (collective)."""
    # In float64 the difference of Σ x² and n μ² keeps float32's accuracy for any μ.
    mine = tf.stack([tf.cast(each, tf.float64) for each in _local_sums(x, axes, mask)])
    count, total, squares = tf.unstack(
        allreduce(mine, Sum, name="moments of SyncBatchNormalization")
    )
    count = tf.maximum(count, 1.0)
    mean = total / count
    variance = tf.maximum(squares / count - mean**2, 0.0)
    both = tf.cast(mean, x.dtype), tf.cast(variance, x.dtype)
    return both if keep_dims else tuple(tf.squeeze(each, axes) for each in both)


def _local_sums(
    x: Tensor, axes: Sequence[int], mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return n, Σ x and Σ x² of this rank, [1, …, C], the last in float64."""

    def summed(each: Tensor) -> Tensor:
        return tf.reduce_sum(each, axis=axes, keepdims=True)

    weight = tf.ones_like(x)
    if mask is not None:
        weight = tf.cast(tf.broadcast_to(tf.expand_dims(mask, -1), tf.shape(x)), x.dtype)
        x = tf.where(weight > 0, x, tf.zeros_like(x))
    count, total = summed(weight), summed(x)
    mean = tf.math.divide_no_nan(total, count)
    spread = tf.cast(summed((weight * (x - mean)) ** 2), tf.float64)
    squares = spread + tf.cast(total, tf.float64) * tf.cast(mean, tf.float64)
    return count, total, squares

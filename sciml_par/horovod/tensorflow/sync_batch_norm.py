"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel import Sum, allreduce

# A layer of the Keras that tf.keras is: Keras 3, or Keras 2 where TF_USE_LEGACY_KERAS is set.
if TYPE_CHECKING:
    from keras.layers import BatchNormalization
    from keras.saving import register_keras_serializable
else:
    BatchNormalization = tf.keras.layers.BatchNormalization
    register_keras_serializable = tf.keras.utils.register_keras_serializable

Tensor = Any


@register_keras_serializable(package="sciml_par")
class SyncBatchNormalization(BatchNormalization):
    r"""Keras' `BatchNormalization` with the mean and variance of all ranks' batches.

        y = γ (x − μ) / √(σ² + ε) + β,   μ = (1/n) Σ_r Σ_i x_ri,   σ² = (1/n) Σ_r Σ_i (x_ri − μ)²

    with n = Σ_r n_r the number of all ranks' values of a channel, so ranks may have batches of
    different lengths, or none. In training, each call is one allreduce, of three numbers a channel
    (collective); the moving averages are the same on every rank. In inference it is the plain layer
    (local).

    Parameters
    ----------
    fused : False; there is no fused kernel for it.
    **kwargs : those of `tf.keras.layers.BatchNormalization`.

    Raises
    ------
    InputError
        `fused` is anything else.
    """

    def __init__(self, fused: bool | None = False, **kwargs: Any) -> None:
        if fused is None or fused:
            raise InputError(
                f"SyncBatchNormalization: expected fused=False; got {fused}. No fused kernel "
                f"knows of the other ranks: leave the option out."
            )
        if not hasattr(BatchNormalization, "_moments"):
            raise InputError(
                "SyncBatchNormalization: this version of Keras computes the moments of "
                "BatchNormalization in another way than those that it was tested with."
            )
        if _is_of_keras_2():  # which would take a fused kernel by itself
            kwargs["fused"] = False
        super().__init__(**kwargs)

    def _moments(
        self,
        inputs: Tensor,
        axes_or_mask: Any,
        keep_dims: bool = False,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Mean and variance of each channel over all ranks, [C] and [C] (collective).

        Keras 3 gives the mask second, Keras 2 the axes.
        """
        if _is_of_keras_2():
            axes = list(axes_or_mask)
        else:
            axes, mask = list(self._reduction_axes), axes_or_mask
        # In float64 the difference of Σ x² and n μ² keeps float32's accuracy for any μ.
        sums = [tf.cast(each, tf.float64) for each in _local_sums(inputs, mask, axes)]
        count, total, squares = tf.unstack(
            allreduce(tf.stack(sums), Sum, name="moments of SyncBatchNormalization")
        )
        count = tf.maximum(count, 1.0)
        mean = total / count
        variance = tf.maximum(squares / count - mean**2, 0.0)
        if not keep_dims:
            mean, variance = tf.squeeze(mean, axes), tf.squeeze(variance, axes)
        return tf.cast(mean, inputs.dtype), tf.cast(variance, inputs.dtype)


def _is_of_keras_2() -> bool:
    return BatchNormalization.__module__.partition(".")[0] == "tf_keras"


def _local_sums(x: Tensor, mask: Tensor | None, axes: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """n, Σ x and Σ x² of this rank over `axes`, which stay as dimensions of length 1 (local).

    The last is in float64.
    """
    weight = tf.ones_like(x)
    if mask is not None:
        weight = tf.cast(tf.broadcast_to(tf.expand_dims(mask, -1), tf.shape(x)), x.dtype)
        x = tf.where(weight > 0, x, tf.zeros_like(x))
    count = tf.reduce_sum(weight, axis=axes, keepdims=True)
    total = tf.reduce_sum(x, axis=axes, keepdims=True)
    mean = tf.math.divide_no_nan(total, count)
    spread = tf.reduce_sum(weight * (x - mean) ** 2, axis=axes, keepdims=True)
    squares = tf.cast(spread, tf.float64) + tf.cast(total, tf.float64) * tf.cast(mean, tf.float64)
    return count, total, squares

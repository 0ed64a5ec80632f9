"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sciml_par._tensorflow import import_module, tf
from sciml_par.errors import InputError
from sciml_par.parallel import Sum, allreduce

# A Keras layer needs Keras when it is defined; this way it comes without TensorFlow's messages.
if TYPE_CHECKING:
    import keras
else:
    keras = import_module("keras")

Tensor = Any


@keras.saving.register_keras_serializable(package="sciml_par")
class SyncBatchNormalization(keras.layers.BatchNormalization):
    r"""`keras.layers.BatchNormalization` with the mean and variance of all ranks' batches.

        y = γ (x − μ) / √(σ² + ε) + β,   μ = (1/n) Σ_r Σ_i x_ri,   σ² = (1/n) Σ_r Σ_i (x_ri − μ)²

    with n = Σ_r n_r the number of all ranks' values of a channel, so ranks may have batches of
    different lengths, or none. In training, each call is one allreduce, of three numbers a channel
    (collective); the moving averages are the same on every rank. In inference it is the plain layer
    (local).

    Parameters
    ----------
    fused : False; there is no fused kernel for it.
    **kwargs : those of `keras.layers.BatchNormalization`.

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
        if not hasattr(keras.layers.BatchNormalization, "_moments"):
            raise InputError(
                f"SyncBatchNormalization: Keras {keras.__version__} computes the moments of "
                f"BatchNormalization in another way than the versions it was tested with."
            )
        super().__init__(**kwargs)

    def _moments(self, inputs: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Mean and variance of each channel over all ranks, [C] and [C] (collective)."""
        # In float64 the difference of Σ x² and n μ² keeps float32's accuracy for any μ.
        mine = tf.stack([tf.cast(each, tf.float64) for each in self._local_sums(inputs, mask)])
        count, total, squares = tf.unstack(
            allreduce(mine, Sum, name="moments of SyncBatchNormalization")
        )
        count = tf.maximum(count, 1.0)
        mean = total / count
        variance = tf.maximum(squares / count - mean**2, 0.0)
        return tf.cast(mean, inputs.dtype), tf.cast(variance, inputs.dtype)

    def _local_sums(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """n, Σ x and Σ x² of this rank, in float64, [C] each (local)."""
        weight = tf.ones_like(x)
        if mask is not None:
            weight = tf.cast(tf.broadcast_to(tf.expand_dims(mask, -1), tf.shape(x)), x.dtype)
            x = tf.where(weight > 0, x, tf.zeros_like(x))
        count = self._summed(weight)
        total = self._summed(x)
        mean = tf.math.divide_no_nan(total, count)
        deviation = weight * (x - tf.reshape(mean, self._along_channels(x)))
        spread = tf.cast(self._summed(deviation**2), tf.float64)
        squares = spread + tf.cast(total, tf.float64) * tf.cast(mean, tf.float64)
        return count, total, squares

    def _summed(self, x: Tensor) -> Tensor:
        return tf.reduce_sum(x, axis=self._reduction_axes)

    def _along_channels(self, x: Tensor) -> list[int]:
        shape = [1] * x.shape.rank
        shape[self.axis] = -1
        return shape

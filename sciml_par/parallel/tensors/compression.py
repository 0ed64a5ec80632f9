"""What may travel in place of a tensor: shorter types."""

from __future__ import annotations

from typing import Any

from sciml_par._tensorflow import tf

Tensor = Any

_HALF_BYTES = 2


class Compressor:
    """How a tensor is made shorter for its way; this one leaves it as it is.

    Derive from it to write another. With fused tensors it is applied to the buffer of them all.
    """

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        """What travels for `tensor`, and what `decompress` needs to know (local)."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Tensor, context: Any) -> Tensor:
        """What has arrived, in the form that `compress` was given (local)."""
        return tensor


class FP16Compressor(Compressor):
    """float32 and float64 travel as float16.

    That has 11 significant bits; what exceeds 65504 becomes infinite, and what is below 6e-8 zero.
    """

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        return _as_half(tensor, "float16")

    @staticmethod
    def decompress(tensor: Tensor, context: Any) -> Tensor:
        return _as_before(tensor, context)


class BF16Compressor(Compressor):
    """float32 and float64 travel as bfloat16, of 8 significant bits and the range of float32."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        return _as_half(tensor, "bfloat16")

    @staticmethod
    def decompress(tensor: Tensor, context: Any) -> Tensor:
        return _as_before(tensor, context)


class Compression:
    """The compressors there are: none, fp16, bf16.

    On the host they travel in 16 bits, are added in float32, and are rounded once; NCCL adds in 16
    bits.
    """

    none = Compressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor


def _as_half(tensor: Tensor, half: str) -> tuple[Tensor, Any]:
    dtype = tensor.dtype
    if not dtype.is_floating or dtype.size <= _HALF_BYTES:
        return tensor, None
    return tf.cast(tensor, half), dtype


def _as_before(tensor: Tensor, dtype: Any) -> Tensor:
    return tensor if dtype is None else tf.cast(tensor, dtype)

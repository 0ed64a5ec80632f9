"""Factors and compression: the steps before and after a reduction."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError

Tensor = Any

_HALF_BYTES, _WIDE_BYTES = 2, 4


class ScalingAndCompression:
    """x · prescale_factor, compressed, reduced, decompressed, · postscale_factor."""

    __slots__ = ("_compression", "_idle", "_post", "_pre", "_where")

    def __init__(
        self, prescale_factor: float, postscale_factor: float, compression: Any, where: str
    ) -> None:
        self._pre = prescale_factor
        self._post = postscale_factor
        self._compression = compression
        self._where = where
        for name, factor in (("prescale", prescale_factor), ("postscale", postscale_factor)):
            if type(factor) is not float and not isinstance(factor, Real):  # the first is fast
                raise InputError(f"{where}: expected {name}_factor to be a number; got {factor!r}.")
        self._idle = prescale_factor == postscale_factor == 1.0 and compression is None
        methods = (getattr(compression, name, None) for name in ("compress", "decompress"))
        if compression is not None and not all(map(callable, methods)):
            raise InputError(
                f"{where}: expected compression to be None, Compression.fp16, Compression.bf16 or "
                f"a custom Compressor; got {compression!r}."
            )

    def around_all(
        self, reduce: Callable[[list[Tensor]], list[Tensor]], tensors: list[Tensor]
    ) -> list[Tensor]:
        """Return `reduce` of the scaled and compressed tensors, restored and scaled."""
        if self._idle:
            return reduce(tensors)
        compression = Compressor if self._compression is None else self._compression
        given = [compression.compress(scaled(x, self._pre, self._where)) for x in tensors]
        results = zip(reduce([x for x, _ in given]), given, strict=True)
        restored = [compression.decompress(y, context) for y, (_, context) in results]
        return [scaled(y, self._post, self._where) for y in restored]


def scaled(x: Tensor, factor: float, where: str) -> Tensor:
    """Return x · factor in the type of x."""
    if factor == 1.0:
        return x
    dtype = x.dtype
    if dtype.is_bool:
        raise InputError(
            f"{where}: booleans cannot be multiplied by a factor; got {factor!r}. Leave it out, or "
            f"cast to a floating-point type."
        )
    if dtype.is_complex:
        # By parts: if one is infinite, a complex product makes the other NaN.
        parts = (scaled(part, factor, where) for part in (tf.math.real(x), tf.math.imag(x)))
        return tf.complex(*parts)
    wide = dtype if dtype.size >= _WIDE_BYTES else tf.float32
    if dtype.is_integer:
        wide = tf.float64
    return tf.cast(tf.cast(x, wide) * tf.constant(factor, wide), dtype)


class Compressor:
    """Shortens tensors for the transfer; this one does nothing.

    Derive from it to write another. Fused tensors are compressed as one buffer.
    """

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        """Return the tensor to transfer, and the context for `decompress` (local)."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Tensor, context: Any) -> Tensor:
        """Return the received tensor in its original form (local)."""
        return tensor


class FP16Compressor(Compressor):
    """float32 and float64 travel as float16.

    It has 11 significant bits; values above 65504 become infinite, and those below 6e-8 zero.
    """

    half = "float16"

    @classmethod
    def compress(cls, tensor: Tensor) -> tuple[Tensor, Any]:
        dtype = tensor.dtype
        if not dtype.is_floating or dtype.size <= _HALF_BYTES:
            return tensor, None
        return tf.cast(tensor, cls.half), dtype

    @staticmethod
    def decompress(tensor: Tensor, context: Any) -> Tensor:
        return tensor if context is None else tf.cast(tensor, context)


class BF16Compressor(FP16Compressor):
    """float32 and float64 travel as bfloat16, with 8 significant bits and the range of float32."""

    half = "bfloat16"


class Compression:
    """The available compressors: none, fp16, bf16.

    MPI carries 16 bits, adds in float32, and rounds once; NCCL adds in 16 bits.
    """

    none = Compressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor

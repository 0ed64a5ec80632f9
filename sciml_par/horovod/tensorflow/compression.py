"""Shorter numbers for the transfer, by Horovod's names."""

from __future__ import annotations

from typing import Any

from sciml_par.parallel import Compression as Native
from sciml_par.parallel import Compressor as NativeCompressor


class Compressor(NativeCompressor):
    """What a compression of one's own derives from: two static methods."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the tensor to transfer, and what `decompress` needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Return the tensor as it was before, from the one that was transferred."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Transfers tensors as they are."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Return the tensor itself."""
        return tensor


class FP16Compressor(Compressor):
    """Transfers floating-point tensors in 16 bits."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the tensor as float16, and its type."""
        return Native.fp16.compress(tensor)

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Return the tensor in its type."""
        return Native.fp16.decompress(tensor, ctx)


class Compression:
    """The ready-made ones; sciml_par.parallel.Compression has bf16 as well."""

    none = NoneCompressor
    fp16 = FP16Compressor

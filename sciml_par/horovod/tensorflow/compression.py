"""Compression of tensors for the transfer, by Horovod's names."""

from __future__ import annotations

from typing import Any

from sciml_par.parallel import Compression as Native
from sciml_par.parallel import Compressor as NativeCompressor


class Compressor(NativeCompressor):
    """The base class of custom compressions: two static methods."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the tensor to transfer, and the context for `decompress`."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Return the original tensor, from the transferred one."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """No compression."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tensor


class FP16Compressor(Compressor):
    """Floating-point tensors travel in 16 bits."""

    compress = staticmethod(Native.fp16.compress)

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return Native.fp16.decompress(tensor, ctx)


class Compression:
    """The compressions; `sciml_par.parallel.Compression` has bf16 as well."""

    none = NoneCompressor
    fp16 = FP16Compressor

"""The element types that travel: their names in TensorFlow, StableHLO, MPI and NCCL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sciml_par.errors import InputError

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class ElementType:
    """One element type by its names, and its bytes; None for a library that lacks it."""

    name: str
    stablehlo: str
    size: int
    mpi_name: str
    nccl_name: str | None
    real_name: str | None = None

    @property
    def real(self) -> ElementType | None:
        """The type of the two parts of a complex number; None for other types."""
        return None if self.real_name is None else ELEMENT_TYPES[self.real_name]

    @property
    def mpi(self) -> MPI.Datatype:
        """MPI's datatype."""
        from mpi4py import MPI

        datatype: MPI.Datatype = getattr(MPI, self.mpi_name)
        return datatype

    @property
    def numpy(self) -> np.dtype[Any]:
        """NumPy's type."""
        import ml_dtypes  # noqa: F401  tells NumPy the name bfloat16; comes with TensorFlow

        return np.dtype(self.name)

    @property
    def wide(self) -> ElementType:
        """The type in which it is reduced on the host: float32 for 16-bit types."""
        return ELEMENT_TYPES["float32"] if self.name in ("float16", "bfloat16") else self


_REALS = (
    ElementType("bool", "i1", 1, "C_BOOL", None),
    ElementType("float16", "f16", 2, "BYTE", "FLOAT16"),
    ElementType("bfloat16", "bf16", 2, "BYTE", "BFLOAT16"),
    ElementType("float32", "f32", 4, "FLOAT", "FLOAT32"),
    ElementType("float64", "f64", 8, "DOUBLE", "FLOAT64"),
)
_COMPLEX = (
    ElementType("complex64", "complex<f32>", 8, "C_FLOAT_COMPLEX", None, "float32"),
    ElementType("complex128", "complex<f64>", 16, "C_DOUBLE_COMPLEX", None, "float64"),
)


def _integer(sign: str, bits: int) -> ElementType:
    name = f"{sign}int{bits}"
    nccl_name = None if bits == 16 else name.upper()
    return ElementType(name, f"{sign}i{bits}", bits // 8, f"{name.upper()}_T", nccl_name)


_INTEGERS = [_integer(sign, bits) for bits in (8, 16, 32, 64) for sign in ("", "u")]
ELEMENT_TYPES = {each.name: each for each in (*_REALS, *_COMPLEX, *_INTEGERS)}


_REMEDIES = {
    "string": "Exchange texts as Python objects, by Communicator.allgather_object or its "
    "broadcast_object.",
    "resource": "It is a handle: pass its value.",
    "variant": "It is a handle: pass its tensors.",
}


def element_type(name: str, *, where: str) -> ElementType:
    """Return the element type called `name`, or raise `InputError` with the possible ones."""
    try:
        return ELEMENT_TYPES[name]
    except KeyError:
        raise InputError(
            f"{where}: cannot carry elements of type {name}; expected one of "
            f"{', '.join(ELEMENT_TYPES)}. {_REMEDIES.get(name, 'Cast the tensor first.')}"
        ) from None

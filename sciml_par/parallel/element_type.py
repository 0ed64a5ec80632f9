"""The element types that travel: their names in TensorFlow, in StableHLO and in MPI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sciml_par.errors import InputError

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class ElementType:
    """One element type.

    Attributes
    ----------
    name : TensorFlow's and NumPy's name, as "float32".
    stablehlo : its spelling in StableHLO text, as "f32".
    size : bytes per element.
    mpi_name : the name of MPI's datatype, as "FLOAT".
    reduced_as : the type in which it is reduced. MPI has no arithmetic on half-precision types, so
        they are widened to float32, which also rounds once instead of P times.
    """

    name: str
    stablehlo: str
    size: int
    mpi_name: str
    reduced_as: str

    @property
    def mpi(self) -> MPI.Datatype:
        """MPI's datatype."""
        from mpi4py import MPI

        datatype: MPI.Datatype = getattr(MPI, self.mpi_name)
        return datatype


def _table() -> dict[str, ElementType]:
    table = {
        "bool": ElementType("bool", "i1", 1, "C_BOOL", "bool"),
        "float16": ElementType("float16", "f16", 2, "BYTE", "float32"),
        "bfloat16": ElementType("bfloat16", "bf16", 2, "BYTE", "float32"),
        "float32": ElementType("float32", "f32", 4, "FLOAT", "float32"),
        "float64": ElementType("float64", "f64", 8, "DOUBLE", "float64"),
    }
    for bits in (8, 16, 32, 64):
        for prefix, mpi_prefix, hlo in (("int", "INT", "i"), ("uint", "UINT", "ui")):
            name = f"{prefix}{bits}"
            mpi_name = f"{mpi_prefix}{bits}_T"
            table[name] = ElementType(name, f"{hlo}{bits}", bits // 8, mpi_name, name)
    return table


ELEMENT_TYPES = _table()


def element_type(name: str, *, where: str) -> ElementType:
    """The element type called `name`, or an `InputError` that says what `where` can carry."""
    try:
        return ELEMENT_TYPES[name]
    except KeyError:
        raise InputError(
            f"{where}: cannot carry elements of type {name}; expected one of "
            f"{', '.join(ELEMENT_TYPES)}. Cast the tensor first."
        ) from None

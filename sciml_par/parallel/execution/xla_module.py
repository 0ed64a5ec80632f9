"""The text of an XLA program that consists of one custom call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.parallel.requests.element_type import ELEMENT_TYPES
from sciml_par.parallel.requests.request import Shape

TARGET = "sciml_par_call"
"""XLA's name for all custom calls."""


@dataclass(frozen=True)
class ArrayType:
    """Element type, by TensorFlow's name, and shape of an operand or a result."""

    dtype: str
    shape: Shape

    @property
    def nbytes(self) -> int:
        """Return how much memory it takes."""
        return math.prod(self.shape) * ELEMENT_TYPES[self.dtype].size

    @property
    def text(self) -> str:
        """Return the type in StableHLO."""
        element = ELEMENT_TYPES[self.dtype].stablehlo
        return f"tensor<{'x'.join([*map(str, self.shape), element])}>"

    @property
    def layout(self) -> str:
        """Return the row-major layout: by default, XLA would choose another one."""
        fastest_first = list(range(len(self.shape)))[::-1]
        return f"dense<{fastest_first}> : tensor<{len(self.shape)}xindex>"


SCALAR = ArrayType("float32", ())


def custom_call(
    operands: Sequence[Any],
    sent: Sequence[ArrayType],
    received: Sequence[ArrayType],
    number: int,
    platforms: Sequence[str],
    *,
    in_place: int = 0,
) -> list[Any]:
    """Put a custom call into the graph under construction."""
    from tensorflow.compiler.tf2xla.python import xla

    platform = ["%platform: tensor<i32>"] if len(platforms) > 1 else []
    names = [f"%x{i}" for i in range(len(sent))]
    parameters = [f"{name}: {each.text}" for name, each in zip(names, sent, strict=True)]
    types = ", ".join(each.text for each in received)
    aliases = ", ".join(
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{i}], operand_index = {i}, "
        f"operand_tuple_indices = []>"
        for i in range(in_place)
    )
    results: list[Any] = xla.call_module(
        operands,
        version=9,
        module=f"""
    module @{TARGET} {{
      func.func public @main({", ".join(platform + parameters)}) -> ({types}) {{
        %y:{len(received)} = stablehlo.custom_call @{TARGET}({", ".join(names)}) {{
          api_version = 4 : i32, has_side_effect = true,
          backend_config = {{call_site = {number} : i64}},
          output_operand_aliases = [{aliases}],
          operand_layouts = [{", ".join(each.layout for each in sent)}],
          result_layouts = [{", ".join(each.layout for each in received)}]
        }} : ({", ".join(each.text for each in sent)}) -> ({types})
        return {", ".join(f"%y#{i}" for i in range(len(received)))} : {types}
      }}
    }}""",
        Tout=[tf.as_dtype(each.dtype) for each in received],
        Sout=[each.shape for each in received],
        platforms=list(platforms),
    )
    return results

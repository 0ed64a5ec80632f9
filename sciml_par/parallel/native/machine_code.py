"""Machine code from LLVM, through llvmlite, if it is available."""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache
from typing import Any

from sciml_par.parallel.native.combination import combination
from sciml_par.parallel.requests.reduce_op import ReduceOp

_PROCESSOR = "x86_64"
"""The tested one."""


def obstacle() -> str:
    """Return why this process has no machine code; empty if it has."""
    if sys.platform != "linux":
        return f"it is for Linux, and this is {sys.platform}"
    if platform.machine() != _PROCESSOR:
        return f"it is for {_PROCESSOR} processors, and this is {platform.machine()}"
    try:
        features = _llvm().get_host_cpu_features()
    except Exception as error:  # whatever a broken installation raises
        if isinstance(error, ModuleNotFoundError):
            return "llvmlite is not installed (pip install 'sciml-par[native]')"
        return f"llvmlite cannot be used ({type(error).__name__}: {error})"
    # For float16, LLVM would call functions that do not exist.
    return "" if features.get("f16c") else "it is for processors with F16C, and this has none"


@cache
def _llvm() -> Any:
    """Return llvmlite, initialized for this processor."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


class MachineCode:
    """Functions of machine code, with the lifetime of this object."""

    def __init__(self, text: str) -> None:
        llvm = _llvm()
        # LLVM uses fused multiplications only on request: results do not depend on the processor.
        target = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(),
            features=llvm.get_host_cpu_features().flatten(),
            opt=3,
            codemodel="jitdefault",
            jit=True,
        )
        module = llvm.parse_assembly(text)
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = True
        passes = llvm.create_pass_builder(target, options)
        passes.getModulePassManager().run(module, passes)
        self._engine = llvm.create_mcjit_compiler(module, target)
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Return the address of function `name`."""
        address: int = self._engine.get_function_address(name)
        return address


@cache
def combining(op: ReduceOp, dtype: str, size: int, distance: int | None) -> MachineCode:
    """Return the function `combine` for an allreduce, see `combination`."""
    return MachineCode(combination("combine", op, dtype, size, distance))


def combine_by_machine_code(op: ReduceOp, dtype: str, size: int) -> Any:
    """Return a function of the address of `size` addresses, that of the result, and the count."""
    return function_at(combining(op, dtype, size, None).address("combine"), 3, keeps_lock=False)


def function_at(address: int, arguments: int, *, keeps_lock: bool) -> Any:
    """Return the C function there, which takes and returns words."""
    kind = ctypes.PYFUNCTYPE if keeps_lock else ctypes.CFUNCTYPE
    return kind(ctypes.c_int64, *[ctypes.c_int64] * arguments)(address)

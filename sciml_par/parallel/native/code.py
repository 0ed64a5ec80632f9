"""The machine code of this process, and the records that all its groups share."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from functools import cache

from sciml_par.parallel.native.handler import FUNCTIONS
from sciml_par.parallel.native.interrupts import keep_unraisable
from sciml_par.parallel.native.layout import TABLE_LENGTH, Job, Site
from sciml_par.parallel.native.machine_code import MachineCode, function_at
from sciml_par.parallel.native.translation import translated

_PAUSES = 1000


Words = ctypes.Array[ctypes.c_int64]
"""Words of memory of this process."""


def words(length: int, values: Sequence[int] = ()) -> Words:
    """Return `length` words: `values`, then zeros."""
    return (ctypes.c_int64 * length)(*values)


class NativeCode:
    """The machine code, which lives as long as the process: XLA keeps its address."""

    def __init__(self) -> None:
        self._job = words(Job.LENGTH)
        self._table = words(TABLE_LENGTH)
        self._job[Job.TABLE] = ctypes.addressof(self._table)
        library, python = ctypes.CDLL(None), ctypes.pythonapi
        self._job[Job.SYSCALL] = _address(library.syscall)
        self._job[Job.CHECK_SIGNALS] = _address(python.PyErr_CheckSignals)
        self._job[Job.ENSURE] = _address(python.PyGILState_Ensure)
        self._job[Job.RELEASE] = _address(python.PyGILState_Release)
        self._job[Job.CLEAR] = _address(python.PyErr_WriteUnraisable)
        keep_unraisable()
        self._job[Job.MATCHES] = _address(python.PyErr_ExceptionMatches)
        self._job[Job.KEYBOARD_INTERRUPT] = id(KeyboardInterrupt)
        self._code = MachineCode(translated(FUNCTIONS, {"JOB": ctypes.addressof(self._job)}))
        self.handler = self._code.address("handler")
        self.begin = function_at(self._code.address("begin"), 3, keeps_lock=True)
        self.end = function_at(self._code.address("end"), 1, keeps_lock=True)
        self.transfer = function_at(self._code.address("transfer"), 3, keeps_lock=False)
        self.meet = function_at(self._code.address("meet"), 2, keeps_lock=True)
        self.settle = function_at(self._code.address("settle"), 0, keeps_lock=True)
        spin = function_at(self._code.address("spin"), 1, keeps_lock=False)
        times = []
        for _ in range(3):
            began = time.perf_counter()
            spin(_PAUSES)
            times.append(time.perf_counter() - began)
        self.spin_seconds = min(times) / _PAUSES
        self._idle: list[Words] = []

    def set_entries(self, execute: int, resume: int, fail: int) -> None:
        """Set the addresses of Python's entries, see `Job`."""
        self._job[Job.EXECUTE : Job.FAIL + 1] = [execute, resume, fail]

    def site_record(self) -> Words:
        """Return a record for a call site, all zero."""
        if not self._idle:
            return words(Site.LENGTH)
        record = self._idle.pop()
        ctypes.memset(record, 0, ctypes.sizeof(record))
        return record

    def give_back(self, record: Words) -> None:
        """Recycle the record of a deleted call site; the system never gets its memory back."""
        record[Site.READY] = 0
        self._idle.append(record)

    def enter(self, number: int, record: Words) -> None:
        """Let the machine code serve the call site if its place in the table is free."""
        place = number & (TABLE_LENGTH - 1)
        if not self._table[place]:
            record[Site.NUMBER] = number
            self._table[place] = ctypes.addressof(record)

    def leave(self, number: int, record: Words) -> None:
        """Undo `enter`."""
        place = number & (TABLE_LENGTH - 1)
        if self._table[place] == ctypes.addressof(record):
            self._table[place] = 0

    def take_interrupt(self) -> bool:
        """Return, once, whether Ctrl-C has ended a wait."""
        found = bool(self._job[Job.INTERRUPTED])
        self._job[Job.INTERRUPTED] = 0
        return found


@cache
def native_code() -> NativeCode:
    """Return the machine code of this process."""
    return NativeCode()


def _address(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]

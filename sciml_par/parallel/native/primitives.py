"""The operations on words of memory in `handler.py`.

A word is a signed integer of 64 bits, and so is an address. These functions have no body:
`translation.py` replaces their calls by machine code.
"""

from __future__ import annotations

from typing import NoReturn


def load(address: int) -> int:
    """Return the word at `address`."""
    _only_in_machine_code()


def load_acquire(address: int) -> int:
    """Return the word at `address`, and see all that its writer wrote before `store`."""
    _only_in_machine_code()


def store(address: int, word: int) -> None:
    """Write a word, after everything written before (release)."""
    _only_in_machine_code()


def exchange_if(address: int, expected: int, word: int) -> int:
    """Write `word` if `expected` is there, atomically; return 1 if it was, else 0."""
    _only_in_machine_code()


def add(address: int, number: int) -> None:
    """Add to the word at `address`, atomically."""
    _only_in_machine_code()


def fence() -> None:
    """Show earlier writes to other cores before later reads."""
    _only_in_machine_code()


def pause() -> None:
    """Wait for some ten nanoseconds, as a loop that looks at a word again and again should."""
    _only_in_machine_code()


def copy(target: int, source: int, length: int) -> None:
    """Copy `length` bytes between places that do not overlap."""
    _only_in_machine_code()


def call(function: int, *arguments: int) -> int:
    """Call a C function; return its result as a word."""
    _only_in_machine_code()


def call_int32(function: int, *arguments: int) -> int:
    """Call a C function that returns an `int`."""
    _only_in_machine_code()


def _only_in_machine_code() -> NoReturn:
    raise NotImplementedError("It is only called from machine code.")

"""What the functions in `handler.py` are made of: operations on words of this process's memory.

A word is a signed integer of 64 bits, and so is an address. These functions have no body: only the
machine code that `translation.py` makes of their callers can do what they say.
"""

from __future__ import annotations

from typing import NoReturn


def load(address: int) -> int:
    """Return the word at `address`."""
    _only_in_machine_code()


def load_int32(address: int) -> int:
    """Return the integer of 32 bits there."""
    _only_in_machine_code()


def load_acquire(address: int) -> int:
    """Return the word there. What its writer had written before `store` is seen after this."""
    _only_in_machine_code()


def store(address: int, word: int) -> None:
    """Write a word, after everything written before (release)."""
    _only_in_machine_code()


def exchange_if(address: int, expected: int, word: int) -> int:
    """Write `word` if `expected` is there, in one step; 1 if it was, else 0."""
    _only_in_machine_code()


def add(address: int, number: int) -> None:
    """Add to the word there, in one step."""
    _only_in_machine_code()


def fence() -> None:
    """What was written before is seen by other cores before anything after is read."""
    _only_in_machine_code()


def pause() -> None:
    """Wait for some ten nanoseconds, as a loop that looks at a word again and again should."""
    _only_in_machine_code()


def copy(target: int, source: int, length: int) -> None:
    """Copy `length` bytes between places that do not overlap."""
    _only_in_machine_code()


def call(function: int, *arguments: int) -> int:
    """Call the C function at that address; what it returns, as a word."""
    _only_in_machine_code()


def call_int32(function: int, *arguments: int) -> int:
    """Return the same of a function that returns an `int`."""
    _only_in_machine_code()


def _only_in_machine_code() -> NoReturn:
    raise NotImplementedError("It is only called from machine code.")

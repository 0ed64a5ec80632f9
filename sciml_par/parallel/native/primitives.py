"""The operations on words of memory in `handler.py`.

A word is a signed integer of 64 bits, and so is an address. These functions have no body:
`translation.py` replaces their calls by machine code.
"""

from __future__ import annotations


def load(address: int) -> int:
    """Return the word at `address`."""
    raise NotImplementedError


def load_acquire(address: int) -> int:
    """Return the word at `address`, and see all that its writer wrote before `store`."""
    raise NotImplementedError


def store(address: int, word: int) -> None:
    """Write a word, after everything written before (release)."""
    raise NotImplementedError


def exchange_if(address: int, expected: int, word: int) -> int:
    """Write `word` if `expected` is there, atomically; return 1 if it was, else 0."""
    raise NotImplementedError


def add(address: int, number: int) -> None:
    """Add to the word at `address`, atomically."""
    raise NotImplementedError


def fence() -> None:
    """Show earlier writes to other cores before later reads."""
    raise NotImplementedError


def pause() -> None:
    """Wait for some ten nanoseconds, as a loop that looks at a word again and again should."""
    raise NotImplementedError


def copy(target: int, source: int, length: int) -> None:
    """Copy `length` bytes between places that do not overlap."""
    raise NotImplementedError


def call(function: int, *arguments: int) -> int:
    """Call a C function; return its result as a word."""
    raise NotImplementedError


def call_int32(function: int, *arguments: int) -> int:
    """Call a C function that returns an `int`."""
    raise NotImplementedError

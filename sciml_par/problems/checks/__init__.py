"""Checks of arguments and of functions that users pass."""

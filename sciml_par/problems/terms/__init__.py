"""The terms of an equation."""

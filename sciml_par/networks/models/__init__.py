"""The networks that can be chosen by name."""

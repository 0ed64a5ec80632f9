"""The arguments of `train`."""

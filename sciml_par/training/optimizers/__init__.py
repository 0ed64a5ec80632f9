"""Optimizers as pure functions of a flat vector of parameters, for compiled loops."""

"""Optimizers that need the vector of residuals and its Jacobian matrix."""

"""Quasi-Newton methods: curvature from gradients, and a line search in every step."""

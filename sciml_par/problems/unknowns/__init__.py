"""Unknown coefficients and functions of inverse problems."""

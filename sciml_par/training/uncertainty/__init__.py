"""How well observations with noise determine the unknowns and the solution."""

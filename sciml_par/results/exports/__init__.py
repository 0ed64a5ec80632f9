"""Tables, grids and files of a solution for other programs."""

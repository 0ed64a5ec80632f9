"""How wrong a solution is: by its correction, by another solution, and window by window."""

"""Solutions to a tolerance, by stages of growing effort."""

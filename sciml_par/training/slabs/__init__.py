"""Long times, solved slab by slab."""

"""Solutions without a closed form, computed by methods of high order at the first call."""

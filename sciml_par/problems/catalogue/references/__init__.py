"""Solutions that have no closed form, computed by methods of high order when first asked for."""

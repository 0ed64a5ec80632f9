"""Points on the boundary of a domain, and inside it."""

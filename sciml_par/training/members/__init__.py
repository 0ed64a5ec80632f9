"""The members of an ensemble: initial networks, seeds, and stacks trained as one."""

"""Gauss–Newton for networks in windows, whose Jacobians are block-sparse."""

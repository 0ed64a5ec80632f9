"""Horovod's package for spark, which has no counterpart here."""

from sciml_par.horovod.common.refused import without_facade

without_facade("spark")

"""Horovod's package for ray, which has no counterpart here."""

from sciml_par.horovod.common.refused import without_facade

without_facade("ray")

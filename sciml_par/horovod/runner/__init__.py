"""The name of Horovod's launcher in Python, which raises an error with the alternative."""

from sciml_par.horovod.common.refused import Refused

run = Refused("run")

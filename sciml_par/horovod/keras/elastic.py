"""`sciml_par.horovod.tensorflow.keras.elastic` by its older path."""

from sciml_par.horovod.tensorflow.keras.elastic import *  # noqa: F403

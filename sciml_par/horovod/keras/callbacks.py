"""`sciml_par.horovod.tensorflow.keras.callbacks` by its older path."""

from sciml_par.horovod.tensorflow.keras.callbacks import *  # noqa: F403

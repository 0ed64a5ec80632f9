"""Horovod for TensorFlow: `import sciml_par.horovod.tensorflow as hvd`."""

from sciml_par.horovod.common.lazy_names import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)

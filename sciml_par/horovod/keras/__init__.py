"""`horovod.keras`, which with Keras 3 is `sciml_par.horovod.tensorflow.keras` by another name."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

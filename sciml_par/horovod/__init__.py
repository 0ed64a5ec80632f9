"""Horovod's names on `sciml_par.parallel`: change the import, keep the program."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

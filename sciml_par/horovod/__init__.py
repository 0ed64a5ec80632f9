"""Horovod's names on `sciml_par.parallel`: change the import, keep the program."""

from sciml_par.horovod.common.lazy_names import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)

"""Families of problems: solved once, answered query by query in milliseconds, with the error."""

import lazy_loader

from sciml_par._other_names import names_of

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = names_of(__name__, _attribute)

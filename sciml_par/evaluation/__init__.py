"""Arrays in, numbers and figures out: norms of errors and the plots of a run."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
